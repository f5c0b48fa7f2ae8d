// A process and all that descend from it, as /proc shows them.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_PROCESS_TREE_H_
#define MPNANNY_BASE_PROCESS_TREE_H_

#include <cstdint>
#include <vector>

namespace mpnanny {

struct ProcessTree {
  std::vector<int> processes;   // `root` first, if it is there
  uint64_t resident_bytes = 0;  // of all; memory that several share counts for each
};

// At most `most` processes are looked at.
ProcessTree DescendantsOf(int root, int most);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROCESS_TREE_H_
