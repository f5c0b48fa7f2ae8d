#include "base/os_confined_self.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <vector>

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
constexpr uint64_t kReadDir = 1ull << 3;
constexpr uint64_t kRefer = 1ull << 13;     // since version 2
constexpr uint64_t kTruncate = 1ull << 14;  // since version 3
// Removing and making files, folders, links, pipes, sockets, devices: bits 4 to 12.
constexpr uint64_t kChange = ((1ull << 13) - 1) & ~((1ull << 4) - 1);
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

}  // namespace

bool WriteOnlyBelow(const std::string& folder) {
  const long version = syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return false;
  uint64_t rights = kWriteFile | kChange;
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  RulesetAttributes attributes{rights, 0, 0};
  size_t size = sizeof(uint64_t);
  if (version >= 6) {
    attributes.scoped = kScopeAbstractSocket | kScopeSignal;
    size = sizeof attributes;
  }
  const auto ruleset =
      static_cast<int>(syscall(kCreateRuleset, &attributes, size, static_cast<uint32_t>(0)));
  if (ruleset < 0) return false;
  bool held = Allow(ruleset, folder.c_str(), rights);
  const uint64_t truncate = version >= 3 ? kTruncate : 0;
  held = Allow(ruleset, "/dev", kWriteFile | truncate) && held;
  // Shared memory between the program's own processes, as torch passes tensors.
  Allow(ruleset, "/dev/shm", rights);
  held = held && syscall(kRestrictSelf, ruleset, 0) == 0;
  close(ruleset);
  return held;
}

#if defined(__x86_64__)
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kMachine = 0;
#endif

bool CutNetwork() {
  if (kMachine == 0) return false;
  constexpr std::array kRefused = {SYS_socket,
                                   SYS_ptrace,
                                   SYS_process_vm_writev,
                                   SYS_mount,
                                   SYS_umount2,
                                   SYS_pivot_root,
                                   SYS_setns,
                                   SYS_unshare,
                                   SYS_bpf,
                                   SYS_keyctl,
                                   SYS_add_key,
                                   SYS_request_key,
                                   SYS_kexec_load,
                                   SYS_init_module,
                                   SYS_finit_module,
                                   SYS_delete_module,
                                   SYS_reboot,
                                   SYS_swapon,
                                   SYS_swapoff,
                                   SYS_open_by_handle_at,
                                   SYS_perf_event_open};
  constexpr long kIoUringSetup = 425;
  std::vector<long> refused(kRefused.begin(), kRefused.end());
  refused.push_back(kIoUringSetup);
  const auto count = refused.size();
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),  // the calls of another machine
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (size_t at = 0; at < count; ++at) {
    const auto to_refusal = static_cast<uint8_t>(count - at);
    filter.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(refused[at]), to_refusal, 0));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES));
#if defined(__x86_64__)
  // Calls of the x32 interface have other numbers.
  constexpr uint32_t kX32 = 0x40000000;
  filter.insert(filter.begin() + 4,
                BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, static_cast<uint8_t>(count + 1), 0));
#endif
  const sock_fprog program{static_cast<uint16_t>(filter.size()), filter.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace mpnanny
