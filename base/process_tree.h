// The processes that descend from another one, as /proc shows them.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_PROCESS_TREE_H_
#define MPNANNY_BASE_PROCESS_TREE_H_

#include <cstdint>
#include <vector>

namespace mpnanny {

struct ProcessTree {
  std::vector<int> processes;   // children before their own
  uint64_t resident_bytes = 0;  // of all; memory that several share counts for each
};

// Without `root` itself. Once there are more than `most`, no further ones are looked for.
ProcessTree DescendantsOf(int root, int most);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROCESS_TREE_H_
