#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "base/stop_event.h"

namespace mpnanny {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGPIPE};

std::atomic<StopEvent*> g_bound{nullptr};
struct sigaction g_earlier[3];

void OnSignal(int) {
  const int saved = errno;
  if (StopEvent* event = g_bound.load()) event->Request();
  errno = saved;
}

}  // namespace

StopEvent::StopEvent() {
  int made[2] = {-1, -1};
  bool well = pipe(made) == 0;
  for (int i = 0; i < 2 && well; ++i) {
    // Out of the way of the standard streams: where one of them is closed, the pipe would take its
    // number, and who asks for the stream would get the pipe.
    pipe_[i] = fcntl(made[i], F_DUPFD_CLOEXEC, 3);
    close(made[i]);
    well = pipe_[i] >= 0 && fcntl(pipe_[i], F_SETFL, O_NONBLOCK) == 0;
  }
  if (!well) {
    LogError("No file descriptor left for a pipe.");
    std::abort();
  }
}

StopEvent::~StopEvent() {
  if (bound_) {
    for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &g_earlier[i], nullptr);
    g_bound.store(nullptr);
  }
  close(pipe_[0]);
  close(pipe_[1]);
}

void StopEvent::BindSignals() {
  g_bound.store(this);
  bound_ = true;
  for (int i = 0; i < 3; ++i) {
    struct sigaction action{};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : OnSignal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, &g_earlier[i]);
  }
}

void StopEvent::Wait() const {
  while (!requested()) {
    pollfd raised{pipe_[0], POLLIN, 0};
    poll(&raised, 1, -1);
  }
}

bool StopEvent::WaitFor(std::chrono::milliseconds most) const {
  const auto until = std::chrono::steady_clock::now() + most;
  while (!requested()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd raised{pipe_[0], POLLIN, 0};
    poll(&raised, 1, static_cast<int>(std::min<int64_t>(left.count() + 1, 60'000)));
  }
  return true;
}

void StopEvent::Request() {
  requested_.store(true, std::memory_order_relaxed);
  const char byte = 0;
  // A full pipe is as readable as one more byte would make it.
  [[maybe_unused]] const ssize_t written = write(pipe_[1], &byte, 1);
}

}  // namespace mpnanny
