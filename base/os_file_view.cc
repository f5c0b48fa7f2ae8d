#include "base/os_file_view.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/os_open.h"
#include "base/text.h"

namespace mpnanny {
namespace {

// What is mapped, for the signal handler, which may not lock: `begin` is set last and cleared
// first.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> changed{false};
};
Slot slots[FileView::kMostViews];
uintptr_t page_size = 4096;
struct sigaction previous;

// A page beyond the file's new end: zeros are put there, and the load that failed is tried again.
void OnBusError(int signal, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin == 0 || at < begin || at >= slot.end.load(std::memory_order_relaxed)) continue;
    const int saved = errno;
    void* const page = reinterpret_cast<void*>(at - at % page_size);
    const bool mapped = mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                             -1, 0) != MAP_FAILED;
    errno = saved;
    if (!mapped) break;
    slot.changed.store(true, std::memory_order_relaxed);
    return;
  }
  // Not ours: as it would have been without us.
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    ::signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
  }
}

void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action{};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
  });
}

}  // namespace

Result<FileView> FileView::Open(const std::string& path) {
  const std::string name = EscapeControl(path, 500);
  // Without O_NONBLOCK a FIFO would be waited for.
  const Descriptor file = OpenWithoutLinks(path, O_RDONLY | O_NONBLOCK);
  if (file.get() < 0) {
    if (errno == ENOENT) return NotFound(name + ": there is no such file.");
    return OpenFailure(name, errno);
  }
  struct stat info{};
  if (fstat(file.get(), &info) != 0)
    return InvalidInput(name + ": cannot be examined: " + std::strerror(errno) + ".");
  if (!S_ISREG(info.st_mode)) return InvalidInput(name + ": not a regular file.");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return FileView(nullptr, 0, -1);

  InstallHandler();
  int index = 0;
  while (index < static_cast<int>(kMostViews) && slots[index].taken.exchange(true)) ++index;
  if (index == static_cast<int>(kMostViews))
    return Unavailable("Too many files are being read at once.", "Try again.");
  void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  Slot& slot = slots[index];
  if (data == MAP_FAILED) {
    const int code = errno;
    slot.taken.store(false);
    return InvalidInput(name + ": cannot be mapped: " + std::strerror(code) + ".");
  }
  slot.changed.store(false, std::memory_order_relaxed);
  slot.end.store(reinterpret_cast<uintptr_t>(data) + size, std::memory_order_relaxed);
  slot.begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_release);
  return FileView(static_cast<const uint8_t*>(data), size, index);
}

bool FileView::changed() const {
  return slot_ >= 0 && slots[slot_].changed.load(std::memory_order_relaxed);
}

void FileView::Release() {
  if (slot_ < 0) return;
  slots[slot_].begin.store(0, std::memory_order_release);
  munmap(const_cast<uint8_t*>(data_), size_);
  slots[slot_].taken.store(false);
  slot_ = -1;
}

}  // namespace mpnanny
