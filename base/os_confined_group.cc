#include "base/os_confined_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

namespace mpnanny {
namespace {

// The files are short.
std::string ReadAt(int folder, const char* name) {
  std::array<char, 4096> text{};
  const int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  return {text.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

bool WriteAt(int folder, const char* name, const std::string& text) {
  const int file = openat(folder, name, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

bool HasWord(const std::string& text, const std::string& word) {
  std::istringstream words(text);
  for (std::string each; words >> each;) {
    if (each == word) return true;
  }
  return false;
}

// Where the tree of groups is mounted; "" where there is none. Of /proc/self/mountinfo:
// "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw".
std::string TreeFolder() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string skipped;
    std::string root;
    std::string folder;
    if (words >> skipped >> skipped >> skipped >> root >> folder && root == "/") return folder;
  }
  return "";
}

// "/user.slice/…" of "0::/user.slice/…".
std::string OwnGroup() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return "";
}

constexpr std::string_view kPrefix = "mpnanny-sandbox-";

// Groups of supervisors that were killed.
void RemoveLeft(const std::string& parent, int above) {
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator(parent, error)) {
    const std::string name = each.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const int supervisor = std::atoi(name.c_str() + kPrefix.size());
    if (supervisor > 0 && kill(supervisor, 0) != 0 && errno == ESRCH)
      unlinkat(above, name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace

std::unique_ptr<ControlGroup> ControlGroup::Create(uint64_t memory_bytes, int most_tasks) {
  const std::string tree = TreeFolder();
  const std::string own = OwnGroup();
  if (tree.empty() || own.size() < 2)
    return nullptr;  // the root's own processes stay where they are
  return CreateBelow(tree + own.substr(0, own.rfind('/')), memory_bytes, most_tasks);
}

std::unique_ptr<ControlGroup> ControlGroup::CreateBelow(const std::string& parent,
                                                        uint64_t memory_bytes, int most_tasks) {
  const int above = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (above < 0) return nullptr;
  RemoveLeft(parent, above);
  const std::string name = std::string(kPrefix) + std::to_string(getpid());
  if (!HasWord(ReadAt(above, "cgroup.subtree_control"), "memory") ||
      mkdirat(above, name.c_str(), 0755) != 0) {
    close(above);
    return nullptr;
  }
  const int folder = openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<ControlGroup> made(new ControlGroup(above, folder, name));
  if (folder < 0 || !WriteAt(folder, "memory.max", std::to_string(memory_bytes))) return nullptr;
  // What follows makes it better, and is not there everywhere.
  WriteAt(folder, "memory.swap.max", "0");
  WriteAt(folder, "memory.oom.group", "1");
  WriteAt(folder, "pids.max", std::to_string(most_tasks));
  return made;
}

ControlGroup::~ControlGroup() {
  if (folder_ >= 0) WriteAt(folder_, "cgroup.kill", "1");
  // It can be removed once the last process is gone.
  for (int round = 0; round < 500 && unlinkat(parent_, name_.c_str(), AT_REMOVEDIR) != 0; ++round)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (folder_ >= 0) close(folder_);
  close(parent_);
}

bool ControlGroup::Enter() const { return WriteAt(folder_, "cgroup.procs", "0"); }

bool ControlGroup::WasOutOfMemory() const {
  std::istringstream events(ReadAt(folder_, "memory.events"));
  std::string name;
  for (uint64_t count = 0; events >> name >> count;) {
    if (name == "oom_kill" && count > 0) return true;
  }
  return false;
}

}  // namespace mpnanny
