// Reading and writing pipes with an end: Windows has no poll() for them, but a thread that waits in
// ReadFile() or WriteFile() can be woken by another one.
//
// For base/os_windows_*.cc only. One thread makes, uses and destroys an object.
#ifndef MPNANNY_BASE_OS_WINDOWS_IO_H_
#define MPNANNY_BASE_OS_WINDOWS_IO_H_

#include <windows.h>

#include <atomic>

namespace mpnanny {

// From its making to its end, the calling thread's ReadFile() or WriteFile() fails with
// ERROR_OPERATION_ABORTED once `event` has been raised for `grace` milliseconds, or once `limit`
// milliseconds have passed (INFINITE: never).
class CancelledIo {
 public:
  CancelledIo(HANDLE event, DWORD limit, DWORD grace)
      : thread_(OpenThread(THREAD_TERMINATE, FALSE, GetCurrentThreadId())), grace_(grace) {
    RegisterWaitForSingleObject(&wait_, event, Cancel, this, limit,
                                WT_EXECUTEONLYONCE | WT_EXECUTELONGFUNCTION);
  }
  ~CancelledIo() {
    over_.store(true);
    if (wait_ != nullptr) UnregisterWaitEx(wait_, INVALID_HANDLE_VALUE);  // waits for Cancel()
    if (thread_ != nullptr) CloseHandle(thread_);
  }
  CancelledIo(const CancelledIo&) = delete;
  CancelledIo& operator=(const CancelledIo&) = delete;

 private:
  // Again and again, since the thread may not have begun to wait.
  static void CALLBACK Cancel(void* object, BOOLEAN /*timed_out*/) {
    auto* const self = static_cast<CancelledIo*>(object);
    constexpr DWORD kStep = 5;
    for (DWORD waited = 0; waited < self->grace_ && !self->over_.load(); waited += kStep) {
      Sleep(kStep);
    }
    while (!self->over_.load()) {
      CancelSynchronousIo(self->thread_);
      Sleep(kStep);
    }
  }

  const HANDLE thread_;
  const DWORD grace_;
  HANDLE wait_ = nullptr;
  std::atomic<bool> over_{false};
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_WINDOWS_IO_H_
