// The processes that descend from another one, as /proc shows them, and the memory that they hold.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_PROCESS_TREE_H_
#define MPNANNY_BASE_PROCESS_TREE_H_

#include <cstdint>
#include <vector>

namespace mpnanny {

// Without `root` itself, children before their own. Once there are more than `most`, no further
// ones are looked for.
std::vector<int> DescendantsOf(int root, int most);

// What a process alone answers for: anonymous memory, in RAM or swapped out, huge pages and page
// tables. Files that it has mapped are the kernel's cache, and shared memory is counted where it
// lies. Pages that two processes have in common since a fork count for each.
uint64_t OwnBytes(int process);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROCESS_TREE_H_
