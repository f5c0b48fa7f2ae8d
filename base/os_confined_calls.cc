#include "base/os_confined_calls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace mpnanny {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kMachine = 0;
#endif

// Calls since Linux 5.1 have one number on all machines; headers of older systems lack their names.
enum NewCall : uint32_t {
  kPidfdSendSignal = 424,
  kIoUringSetup = 425,
  kIoUringEnter = 426,
  kIoUringRegister = 427,
  kOpenTree = 428,
  kMoveMount = 429,
  kFsopen = 430,
  kFsconfig = 431,
  kFsmount = 432,
  kFspick = 433,
  kPidfdOpen = 434,
  kClone3 = 435,
  kOpenat2 = 437,
  kPidfdGetfd = 438,
  kProcessMadvise = 440,
  kMountSetattr = 442,
  kQuotactlFd = 443,
  kMemfdSecret = 447,
  kProcessMrelease = 448,
  kFchmodat2 = 452,
  kListmount = 458,
  kLsmSetSelfAttr = 460,
  kSetxattrat = 463,
  kRemovexattrat = 466,
  kOpenTreeAttr = 467,
  kFileSetattr = 469,
  kNewestKnown = 469,  // Linux 6.17
};

// Refused with EACCES: whoever calls them wants something that a fence is there for.
constexpr auto kForbidden = std::to_array<uint32_t>({
    // Who comes to a socket of this machine.
    SYS_accept,
    SYS_accept4,
    // Other processes.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_migrate_pages,
    SYS_move_pages,
    kPidfdSendSignal,
    kPidfdGetfd,
    kProcessMadvise,
    kProcessMrelease,
    // Mounts and namespaces.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    kOpenTree,
    kMoveMount,
    kFsopen,
    kFsconfig,
    kFsmount,
    kFspick,
    kMountSetattr,
    kOpenTreeAttr,
    kListmount,
    // IPC of the machine.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    // Files around their permissions.
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    // The machine.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    kQuotactlFd,
    SYS_syslog,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    SYS_nfsservctl,
    SYS_lookup_dcookie,
    kLsmSetSelfAttr,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef __x86_64__
    SYS_ioperm,
    SYS_iopl,
    SYS_uselib,
    SYS__sysctl,
    SYS_create_module,
    SYS_ustat,
    SYS_sysfs,
#endif
});

// The network, and whoever listens on a socket of this machine.
constexpr auto kSockets = std::to_array<uint32_t>({SYS_socket, SYS_connect, SYS_bind, SYS_listen});

// Refused with ENOSYS: libraries try them and have another way.
constexpr auto kNotThere = std::to_array<uint32_t>({
    kIoUringSetup, kIoUringEnter, kIoUringRegister,
    SYS_io_setup,     // its rings are few, and shared with the whole machine
    SYS_userfaultfd,  // helps exploits of the kernel
    kMemfdSecret,     // memory that belongs to no process
    kPidfdOpen,
    kClone3,   // its flags lie in memory, where no filter sees them; clone() has the same
    kOpenat2,  // the same
});

constexpr auto kMetadata = std::to_array<uint32_t>({
    SYS_fchmod,       SYS_fchmodat,     kFchmodat2,    SYS_fchown,     SYS_fchownat,
    SYS_utimensat,    SYS_setxattr,     SYS_lsetxattr, SYS_fsetxattr,  SYS_removexattr,
    SYS_lremovexattr, SYS_fremovexattr, kSetxattrat,   kRemovexattrat, kFileSetattr,
#ifdef __x86_64__
    SYS_chmod,        SYS_chown,        SYS_lchown,    SYS_utime,      SYS_utimes,
    SYS_futimesat,
#endif
});

constexpr uint32_t kLinkAttributes = 0x40086602;    // FS_IOC_SETFLAGS: chattr
constexpr uint32_t kLinkAttributes32 = 0x40046602;  // the same
constexpr uint32_t kExtendedFlags = 0x401c5820;     // FS_IOC_FSSETXATTR
constexpr uint32_t kConsole = 0x541C;               // TIOCLINUX
constexpr uint32_t kLineDiscipline = 0x5423;        // TIOCSETD
constexpr uint32_t kUnnamedFile = 020000000;        // of O_TMPFILE
constexpr uint32_t kSetIdBits = S_ISUID | S_ISGID;
constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                 CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP | 0x80 /* time */;

// A filter under construction: each rule ends with a return or leaves the call's number loaded.
class Filter {
 public:
  Filter() {
    Load(offsetof(seccomp_data, arch));
    Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0));
    Add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));  // the calls of another machine
    LoadNumber();
    // Newer ones, and those of the x32 interface, whose numbers are higher.
    Add(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kNewestKnown, 0, 1));
    Return(ENOSYS);
  }

  void Refuse(uint32_t call, uint32_t error) {
    Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    Return(error);
  }

  // Where the argument is one of `values`.
  void RefuseValues(uint32_t call, int argument, std::initializer_list<uint32_t> values,
                    uint32_t error) {
    std::vector<sock_filter> rule = {LoadOf(argument)};
    for (const uint32_t each : values) {
      rule.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, each, 0, 1));
      rule.push_back(Refusal(error));
    }
    AddRule(call, rule);
  }

  // Where the argument is any other than `value`.
  void RefuseOther(uint32_t call, int argument, uint32_t value, uint32_t error) {
    AddRule(call,
            {LoadOf(argument), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0), Refusal(error)});
  }

  // Where `bits` & the argument are: any of them, or all.
  void RefuseBits(uint32_t call, int argument, uint32_t bits, uint32_t error) {
    AddRule(call,
            {LoadOf(argument), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), Refusal(error)});
  }
  void RefuseAllBits(uint32_t call, int argument, uint32_t bits, uint32_t error) {
    AddRule(call, {LoadOf(argument), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits),
                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1), Refusal(error)});
  }

  // Where a file is made (`flags`) with one of the set-ID bits (`mode`).
  void RefuseMakingSetId(uint32_t call, int flags, int mode) {
    AddRule(call,
            {LoadOf(flags), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | kUnnamedFile, 0, 3),
             LoadOf(mode), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kSetIdBits, 0, 1), Refusal(EPERM)});
  }

  // Truncation by an open() that does not open for writing, which Landlock would see.
  void RefuseTruncatingReaders(uint32_t call, int argument) {
    AddRule(call, {LoadOf(argument), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TRUNC, 0, 4),
                   BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE),
                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_WRONLY, 2, 0),
                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDWR, 1, 0), Refusal(EACCES)});
  }

  bool Install() {
    Add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog program{static_cast<uint16_t>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  static sock_filter Refusal(uint32_t error) {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
  }
  // The lower half: what the kernel reads of flags, modes and commands (little-endian machines).
  static sock_filter LoadOf(int argument) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offsetof(seccomp_data, args)) +
                                                  8 * static_cast<uint32_t>(argument));
  }
  void Add(sock_filter instruction) { code_.push_back(instruction); }
  void Load(size_t offset) {
    Add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  void LoadNumber() { Load(offsetof(seccomp_data, nr)); }
  void Return(uint32_t error) { Add(Refusal(error)); }
  void AddRule(uint32_t call, const std::vector<sock_filter>& rule) {
    Add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, static_cast<uint8_t>(rule.size() + 1)));
    code_.insert(code_.end(), rule.begin(), rule.end());
    LoadNumber();
  }

  std::vector<sock_filter> code_;
};

// A program with the rights of its owner, left by a root user's code for others to start.
void RefuseSetIdBits(Filter& filter) {
  filter.RefuseBits(SYS_fchmod, 1, kSetIdBits, EPERM);
  filter.RefuseBits(SYS_fchmodat, 2, kSetIdBits, EPERM);
  filter.RefuseBits(kFchmodat2, 2, kSetIdBits, EPERM);
  filter.RefuseBits(SYS_mknodat, 2, kSetIdBits, EPERM);
  filter.RefuseBits(SYS_mkdirat, 2, kSetIdBits, EPERM);
  filter.RefuseMakingSetId(SYS_openat, 2, 3);
#ifdef __x86_64__
  filter.RefuseMakingSetId(SYS_open, 1, 2);
  filter.RefuseBits(SYS_chmod, 1, kSetIdBits, EPERM);
  filter.RefuseBits(SYS_mknod, 1, kSetIdBits, EPERM);
  filter.RefuseBits(SYS_mkdir, 1, kSetIdBits, EPERM);
  filter.RefuseBits(SYS_creat, 1, kSetIdBits, EPERM);
#endif
}

// Of this machine, and no datagrams: those can be sent to whoever listens.
void OnlyConnectedSockets(Filter& filter, uint32_t call) {
  constexpr uint32_t kDatagrams = SOCK_DGRAM & ~SOCK_STREAM;  // SOCK_RAW has this bit, too
  filter.RefuseOther(call, 0, AF_UNIX, EACCES);
  filter.RefuseBits(call, 1, kDatagrams, EACCES);
}

// Shared memory without a file: no process need have it mapped for it to stay.
void RefuseNamelessMemory(Filter& filter) {
  filter.Refuse(SYS_memfd_create, ENOSYS);
  filter.RefuseAllBits(SYS_mmap, 3, MAP_SHARED | MAP_ANONYMOUS, EPERM);
}

// libcuda binds a socket that other processes could ask for its memory (`@cuda-uvmfd-…`), takes
// nameless memory for itself and what it pins, and fails where it gets one of these not.
void AllowGpuDrivers(Filter& filter) {
  OnlyConnectedSockets(filter, SYS_socket);
  filter.Refuse(SYS_connect, ECONNREFUSED);  // what asks for a service learns that there is none
  filter.RefuseBits(SYS_memfd_create, 1, MFD_HUGETLB, ENOSYS);
  // A descriptor on its way through a socket is held by nobody who could be asked for it.
  filter.Refuse(SYS_sendmsg, EACCES);
  filter.Refuse(SYS_sendmmsg, EACCES);
}

void RefuseByArguments(Filter& filter) {
  RefuseSetIdBits(filter);
  filter.RefuseBits(SYS_clone, 0, kNamespaces, EACCES);
  OnlyConnectedSockets(filter, SYS_socketpair);
  filter.RefuseValues(SYS_ioctl, 1,
                      {TIOCSTI, kConsole, TIOCSCTTY, kLineDiscipline, TIOCCONS, kLinkAttributes,
                       kLinkAttributes32, kExtendedFlags},
                      EACCES);
  filter.RefuseValues(SYS_fcntl, 1, {F_SETLEASE}, EACCES);       // holds up whoever opens the file
  filter.RefuseOther(SYS_prlimit64, 0, 0, EACCES);               // limits of other processes
  filter.RefuseValues(SYS_setpriority, 0, {PRIO_USER}, EACCES);  // of all processes of a user
  filter.RefuseValues(SYS_ioprio_set, 0, {3}, EACCES);           // the same
}

void RefuseTruncation(Filter& filter) {
  filter.Refuse(SYS_truncate, EACCES);
  filter.RefuseTruncatingReaders(SYS_openat, 2);
#ifdef __x86_64__
  filter.RefuseTruncatingReaders(SYS_open, 1);
#endif
}

}  // namespace

bool RefuseSystemCalls(const RefusedCalls& refused) {
  if (kMachine == 0) return false;
  Filter filter;
  for (const uint32_t each : kForbidden) filter.Refuse(each, EACCES);
  for (const uint32_t each : kNotThere) filter.Refuse(each, ENOSYS);
  if (refused.gpu) {
    AllowGpuDrivers(filter);
  } else {
    for (const uint32_t each : kSockets) filter.Refuse(each, EACCES);
    RefuseNamelessMemory(filter);
  }
  if (refused.metadata) {
    for (const uint32_t each : kMetadata) filter.Refuse(each, EPERM);
  }
  if (refused.truncation) RefuseTruncation(filter);
  RefuseByArguments(filter);
  return filter.Install();
}

}  // namespace mpnanny
