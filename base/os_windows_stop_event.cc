#include <windows.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "base/os_windows_text.h"
#include "base/stop_event.h"

namespace mpnanny {
namespace {

std::atomic<StopEvent*> g_bound{nullptr};

// Runs in a thread of its own. When it returns from a closed console or a log-off, the process is
// ended at once: what is under way gets a moment.
BOOL WINAPI OnConsole(DWORD what) {
  constexpr DWORD kMoment = 3000;
  StopEvent* const event = g_bound.load();
  if (event == nullptr) return FALSE;
  event->Request();
  if (what != CTRL_C_EVENT && what != CTRL_BREAK_EVENT) Sleep(kMoment);
  return TRUE;
}

}  // namespace

StopEvent::StopEvent() {
  const HANDLE event = CreateEventW(nullptr, /*bManualReset=*/TRUE, FALSE, nullptr);
  if (event == nullptr) {
    LogError("No handle left for an event.");
    std::abort();
  }
  pipe_[0] = NumberOf(event);
}

StopEvent::~StopEvent() {
  if (bound_) {
    SetConsoleCtrlHandler(OnConsole, FALSE);
    g_bound.store(nullptr);
  }
  CloseHandle(HandleOf(pipe_[0]));
}

void StopEvent::BindSignals() {
  g_bound.store(this);
  bound_ = true;
  SetConsoleCtrlHandler(OnConsole, TRUE);
}

void StopEvent::Wait() const { WaitForSingleObject(HandleOf(pipe_[0]), INFINITE); }

bool StopEvent::WaitFor(std::chrono::milliseconds most) const {
  const auto limit = std::clamp<int64_t>(most.count(), 0, 0x7FFFFFFF);
  return WaitForSingleObject(HandleOf(pipe_[0]), static_cast<DWORD>(limit)) == WAIT_OBJECT_0;
}

void StopEvent::Request() {
  requested_.store(true, std::memory_order_relaxed);
  SetEvent(HandleOf(pipe_[0]));
}

}  // namespace mpnanny
