#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <string_view>

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

uint64_t ProcessTable::SharedBytes(const std::vector<int>& processes) const {
  SharedFiles files;
  for (const int each : processes) {
    AddMapped(each, files);
    AddOpen(each, files);
  }
  uint64_t bytes = 0;
  for (const auto& [file, size] : files) bytes += size;
  return bytes;
}

// Of maps: "7f00-7f80 rw-s 00000000 00:01 2055  /dev/zero (deleted)". All have one file system.
void ProcessTable::AddMapped(int process, SharedFiles& files) const {
  std::istringstream lines(Read(std::to_string(process) + "/maps"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" /memfd:") == std::string::npos &&
        line.find(" /dev/zero (deleted)") == std::string::npos)
      continue;
    unsigned long long first = 0;
    unsigned long long end = 0;
    unsigned long long offset = 0;
    unsigned long long file = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx %*s %llx %*s %llu", &first, &end, &offset, &file) != 4)
      continue;
    uint64_t& bytes = files[file];
    bytes = std::max<uint64_t>(bytes, offset + (end - first));
  }
}

void ProcessTable::AddOpen(int process, SharedFiles& files) const {
  const std::string name = std::to_string(process) + "/fd";
  const int folder = openat(folder_, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const open_ones = folder < 0 ? nullptr : fdopendir(folder);
  if (open_ones == nullptr) return;
  while (const dirent* entry = readdir(open_ones)) {
    constexpr std::string_view kNameless = "/memfd:";
    std::array<char, kNameless.size()> target{};
    struct stat state {};
    if (readlinkat(folder, entry->d_name, target.data(), target.size()) < 0 ||
        std::string_view(target.data(), target.size()) != kNameless ||
        fstatat(folder, entry->d_name, &state, 0) != 0)
      continue;
    uint64_t& bytes = files[state.st_ino];
    bytes = std::max(bytes, static_cast<uint64_t>(state.st_blocks) * 512);
  }
  closedir(open_ones);
}

}  // namespace mpnanny
