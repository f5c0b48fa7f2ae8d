#include "base/os_confined_view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpnanny {
namespace {

// mount_setattr(), since Linux 5.12.
constexpr long kMountSetattr = 442;
constexpr unsigned kRecursive = 0x8000;
struct MountAttributes {
  uint64_t set;
  uint64_t clear;
  uint64_t propagation;
  uint64_t user_namespace;
};
constexpr uint64_t kReadOnly = 1;
constexpr uint64_t kNoSetId = 2;
constexpr uint64_t kNoDevices = 4;

bool Change(const char* mount, unsigned flags, uint64_t set, uint64_t clear) {
  const MountAttributes attributes{set, clear, 0, 0};
  return syscall(kMountSetattr, AT_FDCWD, mount, flags, &attributes, sizeof attributes) == 0;
}

// Devices that keep nothing and lead nowhere. `from`: /dev/full gives the zeros of /dev/zero, which
// could be mapped as shared memory that no process is charged for.
struct Device {
  std::string from;
  std::string to;
};
const std::array kDevices = {
    Device{"/dev/null", "/dev/null"},       Device{"/dev/full", "/dev/full"},
    Device{"/dev/full", "/dev/zero"},       Device{"/dev/random", "/dev/random"},
    Device{"/dev/urandom", "/dev/urandom"},
};

bool WriteWhole(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return written;
}

// Without processes of its own the machine's /proc tells the right numbers.
bool EnterNamespaces(bool own_processes) {
  const int own = (own_processes ? CLONE_NEWPID : 0) | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS;
  const std::string user = std::to_string(getuid());
  const std::string group = std::to_string(getgid());
  if (unshare(CLONE_NEWUSER | own) == 0) {
    WriteWhole("/proc/self/setgroups", "deny");
    return WriteWhole("/proc/self/uid_map", user + " " + user + " 1") &&
           WriteWhole("/proc/self/gid_map", group + " " + group + " 1");
  }
  return unshare(own) == 0;
}

bool Bind(int source, const char* target) {
  const int made = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (made >= 0) close(made);
  return mount(("/proc/self/fd/" + std::to_string(source)).c_str(), target, nullptr, MS_BIND,
               nullptr) == 0;
}

std::vector<Device> DevicesOf(const WantedView& wanted) {
  std::vector<Device> devices(kDevices.begin(), kDevices.end());
  for (const std::string& each : wanted.gpu_files)
    devices.push_back({"/dev/" + each, "/dev/" + each});
  return devices;
}

bool MountOwnDevices(const WantedView& wanted) {
  const std::vector<Device> devices = DevicesOf(wanted);
  std::vector<int> sources;  // before the new /dev hides them
  for (const Device& each : devices) sources.push_back(open(each.from.c_str(), O_PATH | O_CLOEXEC));
  const std::string inodes = std::to_string(64 + 2 * devices.size());
  bool made = mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC,
                    ("mode=755,size=64k,nr_inodes=" + inodes).c_str()) == 0;
  for (size_t at = 0; at < devices.size(); ++at) {
    const std::string& to = devices[at].to;
    if (const auto folder = to.substr(0, to.rfind('/')); made && folder != "/dev")
      mkdir(folder.c_str(), 0755);
    made = made && sources[at] >= 0 && Bind(sources[at], to.c_str());
    close(sources[at]);
  }
  if (!made || mkdir("/dev/shm", 01777) != 0) return false;
  const std::string room =
      "mode=1777,nr_inodes=16k,size=" + std::to_string(wanted.shared_memory_bytes);
  made = mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, room.c_str()) == 0;
  made = symlink("/proc/self/fd", "/dev/fd") == 0 && made;
  constexpr std::array kStreams = {"stdin", "stdout", "stderr"};
  for (size_t at = 0; at < kStreams.size(); ++at) {
    const std::string stream = std::string("/dev/") + kStreams[at];
    made = symlink(("/proc/self/fd/" + std::to_string(at)).c_str(), stream.c_str()) == 0 && made;
  }
  return made;
}

// The folder becomes a mount of its own first, since what can be written is a mount's matter.
// `source` is the folder, which the new /dev may have hidden.
bool MakeReadOnly(const WantedView& wanted, int source, bool own_devices) {
  const std::string& writable = wanted.writable;
  std::error_code error;
  std::filesystem::create_directories(writable, error);
  const std::string from = "/proc/self/fd/" + std::to_string(source);
  if (!own_devices) mount("/dev/shm", "/dev/shm", nullptr, MS_BIND, nullptr);
  if (mount(from.c_str(), writable.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
      !Change("/", kRecursive, kReadOnly | kNoSetId | (own_devices ? kNoDevices : 0), 0)) {
    return false;
  }
  bool done = Change(writable.c_str(), kRecursive, 0, kReadOnly);
  done = Change("/dev/shm", 0, 0, kReadOnly) && done;
  for (const Device& each : DevicesOf(wanted))
    done = (!own_devices || Change(each.to.c_str(), 0, 0, kNoDevices)) && done;
  if (wanted.without == Fence::kProcesses) done = Change("/proc", 0, 0, kReadOnly) && done;
  // A working directory below the folder is looked up again, on the new mount.
  std::array<char, 4096> here{};
  if (getcwd(here.data(), here.size()) != nullptr) done = chdir(here.data()) == 0 && done;
  return done;
}

// Of /proc: all that is no process. A root's program could write to it without any capability.
bool MakeMachineReadOnly() {
  DIR* const entries = opendir("/proc");
  if (entries == nullptr) return false;
  bool done = true;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    const bool is_process = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_process || name.starts_with(".") || entry->d_type == DT_LNK) continue;
    const std::string path = "/proc/" + std::string(name);
    done = mount(path.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0 &&
           Change(path.c_str(), kRecursive, kReadOnly | kNoSetId | kNoDevices, 0) && done;
  }
  closedir(entries);
  return done;
}

}  // namespace

OwnView EnterOwnView(const WantedView& wanted) {
  OwnView view;
  if (wanted.without == Fence::kNamespaces) return view;
  view.namespaces = EnterNamespaces(wanted.without != Fence::kProcesses);
  // What is mounted here shall not appear elsewhere.
  if (!view.namespaces || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return view;
  const int folder = open(wanted.writable.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const bool machines_devices = wanted.without == Fence::kDevices;
  view.devices = !machines_devices && MountOwnDevices(wanted);
  view.read_only = wanted.without != Fence::kReadOnly && (view.devices || machines_devices) &&
                   MakeReadOnly(wanted, folder, view.devices);
  close(folder);
  return view;
}

bool MountOwnProcesses(bool process_files) {
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (process_files ? 0 : MS_RDONLY);
  return mount("proc", "/proc", "proc", flags, nullptr) == 0 &&
         (!process_files || MakeMachineReadOnly());
}

uint64_t BytesInMemory(const std::string& folder) {
  constexpr auto kTmpfs = 0x01021994;
  struct statfs use {};
  if (statfs(folder.c_str(), &use) != 0 || use.f_type != kTmpfs) return 0;
  return (use.f_blocks - use.f_bfree) * static_cast<uint64_t>(use.f_bsize);
}

}  // namespace mpnanny
