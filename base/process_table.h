// Processes that descend from another one, and the memory that they hold, as /proc shows them.
//
// Owns a descriptor of /proc as it was when the table was made: what is mounted there later, as in
// a confinement, does not change what it shows. One thread.
#ifndef MPNANNY_BASE_PROCESS_TABLE_H_
#define MPNANNY_BASE_PROCESS_TABLE_H_

#include <cstdint>
#include <map>
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

  // Memory that lies in no process: files without a name (memfd) that these have open or mapped,
  // and shared mappings without a file, each once. A mapping counts whole, also where nothing has
  // touched it; what was unmapped does not count.
  uint64_t SharedBytes(const std::vector<int>& processes) const;

 private:
  void AddChildren(int process, std::vector<int>& found) const;
  // To the bytes of each file by its number.
  using SharedFiles = std::map<uint64_t, uint64_t>;
  void AddMapped(int process, SharedFiles& files) const;
  void AddOpen(int process, SharedFiles& files) const;
  std::string Read(const std::string& name) const;  // a short file; "" where it is gone

  int folder_;  // -1: there is no /proc
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROCESS_TABLE_H_
