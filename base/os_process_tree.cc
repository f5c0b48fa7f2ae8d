#include <dirent.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "base/process_tree.h"

namespace mpnanny {
namespace {

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

std::vector<int> DescendantsOf(int root, int most) {
  std::vector<int> found;
  AddChildren(root, found);
  for (size_t at = 0; at < found.size() && found.size() <= static_cast<size_t>(most); ++at) {
    AddChildren(found[at], found);
  }
  return found;
}

uint64_t OwnBytes(int process) {
  constexpr std::array kCounted = {"RssAnon:", "VmSwap:", "VmPTE:", "HugetlbPages:"};
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  uint64_t kilobytes = 0;
  std::string word;
  while (file >> word) {
    for (const char* each : kCounted) {
      uint64_t value = 0;
      if (word == each && file >> value) kilobytes += value;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kilobytes << 10;
}

}  // namespace mpnanny
