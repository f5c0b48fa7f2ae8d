#include "base/os_confined_self.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace mpnanny {
namespace {

// Landlock's interface, stable since Linux 5.13: headers of older distributions lack the newer
// rights.
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr int kPathBeneath = 1;
constexpr uint32_t kAskVersion = 1;

constexpr uint64_t kWriteFile = 1ull << 1;
constexpr uint64_t kRefer = 1ull << 13;     // since version 2
constexpr uint64_t kTruncate = 1ull << 14;  // since version 3
constexpr uint64_t kIoctlDev = 1ull << 15;  // since version 5
// Removing and making files, folders, links, pipes, sockets, devices: bits 4 to 12.
constexpr uint64_t kChange = ((1ull << 13) - 1) & ~((1ull << 4) - 1);
constexpr uint64_t kBindAndConnect = 3;               // TCP, since version 4
constexpr uint64_t kScopeAbstractSocket = 1ull << 0;  // since version 6
constexpr uint64_t kScopeSignal = 1ull << 1;

struct RulesetAttributes {
  uint64_t handled_files;
  uint64_t handled_network;
  uint64_t scoped;
};
struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t parent;
};

bool Allow(int ruleset, const char* path, uint64_t rights) {
  const int folder = open(path, O_PATH | O_CLOEXEC);
  if (folder < 0) return false;
  const PathRule rule{rights, folder};
  const bool added = syscall(kAddRule, ruleset, kPathBeneath, &rule, 0) == 0;
  close(folder);
  return added;
}

struct Ruleset {
  RulesetAttributes attributes{kWriteFile | kChange, 0, 0};
  size_t size = sizeof(uint64_t);  // as much of them as this kernel knows
};

Ruleset RulesOf(long version) {
  Ruleset rules;
  if (version >= 2) rules.attributes.handled_files |= kRefer;
  if (version >= 3) rules.attributes.handled_files |= kTruncate;
  if (version >= 5) rules.attributes.handled_files |= kIoctlDev;
  if (version >= 4) {
    rules.attributes.handled_network = kBindAndConnect;
    rules.size = 2 * sizeof(uint64_t);
  }
  if (version >= 6) {
    rules.attributes.scoped = kScopeAbstractSocket | kScopeSignal;
    rules.size = sizeof rules.attributes;
  }
  return rules;
}

// Where close_range() lacks (before Linux 5.9).
void CloseListed(const std::vector<int>& kept) {
  std::vector<int> open;
  if (DIR* const own = opendir("/proc/self/fd")) {
    while (const dirent* each = readdir(own)) open.push_back(std::atoi(each->d_name));
    closedir(own);
  } else {
    for (int each = 0; each < sysconf(_SC_OPEN_MAX); ++each) open.push_back(each);
  }
  for (const int each : open) {
    if (each > STDERR_FILENO && std::find(kept.begin(), kept.end(), each) == kept.end())
      close(each);
  }
}

}  // namespace

WritingLimits WriteOnlyAt(const WritablePlaces& places) {
  WritingLimits limits;
  const long version = syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return limits;
  const Ruleset rules = RulesOf(version);
  const auto ruleset = static_cast<int>(
      syscall(kCreateRuleset, &rules.attributes, rules.size, static_cast<uint32_t>(0)));
  if (ruleset < 0) return limits;
  const uint64_t rights = rules.attributes.handled_files & ~kIoctlDev;
  bool held = Allow(ruleset, places.folder.c_str(), rights);
  if (places.shared_memory) held = Allow(ruleset, "/dev/shm", rights) && held;
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    Allow(ruleset, device, rights & (kWriteFile | kTruncate));
  for (const std::string& each : places.devices)
    Allow(ruleset, each.c_str(), rules.attributes.handled_files & (kWriteFile | kIoctlDev));
  if (!places.process_files.empty())
    Allow(ruleset, places.process_files.c_str(), rights & (kWriteFile | kTruncate));
  limits.writing = held && syscall(kRestrictSelf, ruleset, 0) == 0;
  limits.truncation = limits.writing && version >= 3;
  close(ruleset);
  return limits;
}

void DropCapabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int each = 0; prctl(PR_CAPBSET_DROP, each, 0, 0, 0) == 0;) ++each;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  syscall(SYS_capset, &header, none.data());
}

void CloseAllBut(const std::vector<int>& kept) {
  constexpr long kCloseRange = 436;
  std::vector<int> sorted = kept;
  std::sort(sorted.begin(), sorted.end());
  auto from = static_cast<unsigned>(STDERR_FILENO + 1);
  bool closed = true;
  for (const int each : sorted) {
    if (each < 0 || static_cast<unsigned>(each) < from) continue;
    const auto kept_one = static_cast<unsigned>(each);
    if (kept_one > from) closed = syscall(kCloseRange, from, kept_one - 1, 0) == 0 && closed;
    from = kept_one + 1;
  }
  closed = syscall(kCloseRange, from, ~0u, 0) == 0 && closed;
  if (!closed) CloseListed(kept);
}

}  // namespace mpnanny
