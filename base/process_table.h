// Processes that descend from another one, and the memory that they hold, as /proc shows them.
//
// Owns a descriptor of /proc as it was when the table was made: what is mounted there later, as in
// a confinement, does not change what it shows. One thread.
#ifndef MPNANNY_BASE_PROCESS_TABLE_H_
#define MPNANNY_BASE_PROCESS_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mpnanny {

class ProcessTable {
 public:
  ProcessTable();
  ~ProcessTable();
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  // Without `root` itself, children before their own. Once there are more than `most`, no further
  // ones are looked for.
  std::vector<int> DescendantsOf(int root, int most) const;

  // What a process alone answers for: anonymous memory, in RAM or swapped out, huge pages and page
  // tables. Files that it has mapped are the kernel's cache, and shared memory is counted where it
  // lies. Pages that two processes have in common since a fork count for each.
  uint64_t OwnBytes(int process) const;

 private:
  void AddChildren(int process, std::vector<int>& found) const;
  std::string Read(const std::string& name) const;  // a short file; "" where it is gone

  int folder_;  // -1: there is no /proc
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROCESS_TABLE_H_
