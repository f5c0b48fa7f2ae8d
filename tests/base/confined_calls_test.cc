// What a confined function asks the kernel for, and does not get.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/confinement.h"
#include "tests/base/confined_call.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

// With no argument that makes sense, so that a call which is let through fails in another way.
bool IsRefused(long number, long first = -1, long second = -1, long third = -1) {
  errno = 0;
  const long result = syscall(number, first, second, third, -1L, -1L, -1L);
  return result == -1 && (errno == EACCES || errno == EPERM || errno == ENOSYS);
}

TEST_F(ConfinedCall, TheKernelsOtherDoorsAreShut) {
  const std::vector<long> calls = {
      SYS_socket,
      SYS_connect,
      SYS_bind,
      SYS_listen,
      SYS_ptrace,
      SYS_kcmp,
      SYS_process_vm_readv,
      SYS_process_vm_writev,
      SYS_mount,
      SYS_umount2,
      SYS_pivot_root,
      SYS_chroot,
      SYS_setns,
      SYS_unshare,
      SYS_shmget,
      SYS_shmat,
      SYS_shmctl,
      SYS_semget,
      SYS_semctl,
      SYS_msgget,
      SYS_msgsnd,
      SYS_mq_open,
      SYS_mq_unlink,
      SYS_keyctl,
      SYS_add_key,
      SYS_request_key,
      SYS_bpf,
      SYS_perf_event_open,
      SYS_userfaultfd,
      SYS_memfd_create,
      SYS_name_to_handle_at,
      SYS_open_by_handle_at,
      SYS_io_setup,
      SYS_quotactl,
      SYS_acct,
      SYS_syslog,
      SYS_settimeofday,
      SYS_clock_settime,
      SYS_fanotify_init,
      SYS_init_module,
      SYS_kexec_load,
      SYS_reboot,
      SYS_swapon,
      424 /* pidfd_send_signal */,
      425 /* io_uring_setup */,
      426 /* io_uring_enter */,
      428 /* open_tree */,
      429 /* move_mount */,
      430 /* fsopen */,
      431 /* fsconfig */,
      432 /* fsmount */,
      433 /* fspick */,
      434 /* pidfd_open */,
      435 /* clone3 */,
      437 /* openat2 */,
      438 /* pidfd_getfd */,
      440 /* process_madvise */,
      442 /* mount_setattr */,
      447 /* memfd_secret */,
      448 /* process_mrelease */,
      467 /* open_tree_attr */,
      470 /* newer than we know */,
  };
  for (const Without without : {Without::kNothing, Without::kAll}) {
    limits_.allow_weaker = true;
    const ConfinedEnd end = Run(
        [&] {
          for (size_t at = 0; at < calls.size(); ++at) {
            if (!IsRefused(calls[at])) return static_cast<int>(at) + 1;
          }
          return 0;
        },
        without);
    EXPECT_EQ(end.exit_code, 0) << "number " << (end.exit_code ? calls[end.exit_code - 1] : 0);
  }
}

TEST_F(ConfinedCall, ArgumentsMakeTheDifference) {
  EXPECT_EQ(Run([] {
              if (!IsRefused(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0)) return 1;
              int pair[2];
              if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0) return 2;
              if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 3;
              char letter = 'a';
              if (ioctl(pair[0], TIOCSTI, &letter) == 0 || errno != EACCES) return 4;
              if (setpriority(PRIO_USER, 0, 5) == 0) return 5;
              if (setpriority(PRIO_PROCESS, 0, 5) != 0) return 6;
              rlimit limit{};
              if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 7;
              const int file = open("/proc/self/exe", O_RDONLY);
              if (fcntl(file, F_SETLEASE, F_RDLCK) == 0 || errno != EACCES) return 8;
              return fork() >= 0 ? 0 : 9;
            }).exit_code,
            0);
}

// Of a file of the user's: what of it, if anything, could be changed.
std::string Changed(const fs::path& file) {
  const int open_file = open(file.c_str(), O_RDONLY);
  const timespec times[2] = {{1, 0}, {1, 0}};
  int flags = FS_NOATIME_FL;
  std::string changed;
  const auto note = [&](const char* what, long result) {
    if (result == 0) changed += std::string(changed.empty() ? "" : ", ") + what;
  };
  note("chmod", chmod(file.c_str(), 0666));
  note("fchmod", fchmod(open_file, 0666));
  note("fchmodat2", syscall(452, AT_FDCWD, file.c_str(), 0666, 0));
  note("chown", chown(file.c_str(), getuid(), getgid()));
  note("fchown", fchown(open_file, getuid(), getgid()));
  note("lchown", lchown(file.c_str(), getuid(), getgid()));
  note("utimensat", utimensat(AT_FDCWD, file.c_str(), times, 0));
  note("futimens", futimens(open_file, times));
  note("setxattr", setxattr(file.c_str(), "user.a", "1", 1, 0));
  note("fsetxattr", fsetxattr(open_file, "user.a", "1", 1, 0));
  note("lsetxattr", lsetxattr(file.c_str(), "user.a", "1", 1, 0));
  note("flags", ioctl(open_file, FS_IOC_SETFLAGS, &flags));
  note("truncate", truncate(file.c_str(), 0));
  note("write", open(file.c_str(), O_WRONLY) >= 0 ? 0 : -1);
  note("remove", unlink(file.c_str()));
  note("rename", rename(file.c_str(), (file.string() + "2").c_str()));
  note("link", link(file.c_str(), (file.string() + "3").c_str()));
  close(open_file);
  return changed;
}

TEST_F(ConfinedCall, MetadataOfFilesOutsideStayAsTheyAre) {
  limits_.allow_weaker = true;
  const fs::path outside = folder_ / "outside";
  // Either of the two that cover files is enough, and seccomp covers the metadata where the
  // namespaces do not.
  for (const Without without : {Without::kNothing, Without::kNamespaces, Without::kLandlock}) {
    std::ofstream(outside) << "precious";
    chmod(outside.c_str(), 0600);
    struct stat before {};
    ASSERT_EQ(stat(outside.c_str(), &before), 0);
    const fs::path report = fs::path(limits_.writable) / "report";
    Run(
        [&] {
          std::ofstream(report) << "changed: " << Changed(outside);
          return 0;
        },
        without);
    std::string told;
    std::getline(std::ifstream(report), told);
    EXPECT_EQ(told, "changed: ");
    struct stat after {};
    ASSERT_EQ(stat(outside.c_str(), &after), 0);
    EXPECT_EQ(after.st_mode, before.st_mode);
    EXPECT_EQ(after.st_ctim.tv_sec, before.st_ctim.tv_sec);
    EXPECT_EQ(after.st_ctim.tv_nsec, before.st_ctim.tv_nsec);
    EXPECT_EQ(after.st_size, before.st_size);
  }
}

// What shutil.copy() and compilers do with files of their own.
TEST_F(ConfinedCall, MetadataOfItsOwnFilesAreItsOwn) {
  EXPECT_EQ(Run([&] {
              const fs::path own = fs::path(limits_.writable) / "own";
              std::ofstream(own) << "x";
              const timespec times[2] = {{1, 0}, {1, 0}};
              if (chmod(own.c_str(), 0755) != 0) return 1;
              if (utimensat(AT_FDCWD, own.c_str(), times, 0) != 0) return 2;
              fs::create_directory(fs::path(limits_.writable) / "below");
              if (rename(own.c_str(), (limits_.writable + "/below/own").c_str()) != 0) return 3;
              return 0;
            }).exit_code,
            0);
}

TEST_F(ConfinedCall, LeavesNoProgramWithTheRightsOfItsOwner) {
  EXPECT_EQ(Run([&] {
              const std::string own = limits_.writable + "/own";
              if (open(own.c_str(), O_CREAT | O_WRONLY, 04755) >= 0) return 1;
              if (open(own.c_str(), O_CREAT | O_WRONLY, 0755) < 0) return 2;
              if (chmod(own.c_str(), 04755) == 0 || chmod(own.c_str(), 02755) == 0) return 3;
              return mkdir((own + "2").c_str(), 02755) == 0 ? 4 : 0;
            }).exit_code,
            0);
}

TEST_F(ConfinedCall, SharedMemoryOfOthersIsNotThere) {
  const int segment = shmget(IPC_PRIVATE, 4096, 0600);
  ASSERT_GE(segment, 0);
  const fs::path file = "/dev/shm/confinement_test_" + std::to_string(getpid());
  std::ofstream(file) << "precious";
  for (const Without without : {Without::kNothing, Without::kNamespaces, Without::kLandlock}) {
    limits_.allow_weaker = true;
    EXPECT_EQ(Run(
                  [&] {
                    if (shmctl(segment, IPC_RMID, nullptr) == 0) return 1;
                    if (open(file.c_str(), O_RDWR) >= 0) return 2;
                    return unlink(file.c_str()) == 0 ? 3 : 0;
                  },
                  without)
                  .exit_code,
              0);
  }
  EXPECT_TRUE(fs::remove(file));
  EXPECT_EQ(shmctl(segment, IPC_RMID, nullptr), 0);
}

TEST_F(ConfinedCall, SeesItsOwnDevicesAndProcessesOnly) {
  EXPECT_EQ(Run([] {
              for (const fs::directory_entry& each : fs::directory_iterator("/proc")) {
                const std::string name = each.path().filename().string();
                if (std::isdigit(static_cast<unsigned char>(name[0])) && name != "1" && name != "2")
                  return 1;
              }
              for (const char* each : {"/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/kmsg", "/dev/mem",
                                       "/dev/loop0", "/dev/fuse"}) {
                if (fs::exists(each)) return 2;
              }
              if (!std::ofstream("/dev/null")) return 3;
              if (mknod("/dev/shm/disk", S_IFBLK | 0600, makedev(7, 0)) == 0) return 4;
              return 0;
            }).exit_code,
            0);
}

TEST_F(ConfinedCall, HasNoCapability) {
  EXPECT_EQ(Run([] {
              std::ifstream status("/proc/self/status");
              for (std::string word; status >> word;) {
                if (!word.starts_with("Cap")) continue;
                status >> word;
                if (word.find_first_not_of('0') != std::string::npos) return 1;
              }
              return 0;
            }).exit_code,
            0);
}

}  // namespace
}  // namespace mpnanny
