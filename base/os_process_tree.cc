#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/process_tree.h"

namespace mpnanny {
namespace {

uint64_t ResidentBytes(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The children of all threads of `process`.
void AddChildren(int process, std::vector<int>& found) {
  const std::string folder = "/proc/" + std::to_string(process) + "/task";
  DIR* const tasks = opendir(folder.c_str());
  if (tasks == nullptr) return;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream file(folder + "/" + entry->d_name + "/children");
    for (int child = 0; file >> child;) found.push_back(child);
  }
  closedir(tasks);
}

}  // namespace

ProcessTree DescendantsOf(int root, int most) {
  ProcessTree tree;
  AddChildren(root, tree.processes);
  for (size_t at = 0; at < tree.processes.size(); ++at) {
    tree.resident_bytes += ResidentBytes(tree.processes[at]);
    if (tree.processes.size() <= static_cast<size_t>(most)) {
      AddChildren(tree.processes[at], tree.processes);
    }
  }
  return tree;
}

}  // namespace mpnanny
