#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "base/process_table.h"

namespace mpnanny {

ProcessTable::ProcessTable() : folder_(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

ProcessTable::~ProcessTable() {
  if (folder_ >= 0) close(folder_);
}

std::string ProcessTable::Read(const std::string& name) const {
  std::string text;
  const int file = openat(folder_, name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> chunk{};
  for (ssize_t got = 0; (got = read(file, chunk.data(), chunk.size())) > 0;)
    text.append(chunk.data(), static_cast<size_t>(got));
  close(file);
  return text;
}

// The children of all its threads.
void ProcessTable::AddChildren(int process, std::vector<int>& found) const {
  const std::string name = std::to_string(process) + "/task";
  const int folder = openat(folder_, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const tasks = folder < 0 ? nullptr : fdopendir(folder);
  if (tasks == nullptr) return;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::istringstream children(Read(name + "/" + entry->d_name + "/children"));
    for (int child = 0; children >> child;) found.push_back(child);
  }
  closedir(tasks);
}

std::vector<int> ProcessTable::DescendantsOf(int root, int most) const {
  std::vector<int> found;
  AddChildren(root, found);
  for (size_t at = 0; at < found.size() && found.size() <= static_cast<size_t>(most); ++at) {
    AddChildren(found[at], found);
  }
  return found;
}

uint64_t ProcessTable::OwnBytes(int process) const {
  constexpr std::array kCounted = {"RssAnon:", "VmSwap:", "VmPTE:", "HugetlbPages:"};
  std::istringstream lines(Read(std::to_string(process) + "/status"));
  uint64_t kilobytes = 0;
  for (std::string line; std::getline(lines, line);) {
    for (const char* each : kCounted) {
      if (line.starts_with(each)) kilobytes += std::stoull(line.substr(line.find(':') + 1));
    }
  }
  return kilobytes << 10;
}

}  // namespace mpnanny
