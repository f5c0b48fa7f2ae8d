#include "server/command_line/progress_line.h"

#include <ostream>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

using ProgressClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEvery{200};
constexpr size_t kMostTold = 50;  // a line that wraps cannot be erased

}  // namespace

ProgressLine::ProgressLine(std::ostream& stream, bool shown, std::string what,
                           std::chrono::milliseconds after)
    : stream_(stream), what_(std::move(what)) {
  if (shown) thread_ = std::thread([this, after] { Show(after); });
}

std::function<void(double, std::optional<double>, const std::string&)> ProgressLine::Report() {
  if (!thread_.joinable()) return nullptr;
  return [this](double progress, std::optional<double> total, const std::string& message) {
    std::string told = EscapeControl(message, kMostTold);
    if (total && *total > 0 && progress >= 0 && progress <= *total) {
      const int percent = static_cast<int>(100 * progress / *total);
      told = std::to_string(percent) + " %" + (told.empty() ? "" : ", ") + told;
    }
    const std::lock_guard lock(mutex_);
    told_ = std::move(told);
  };
}

void ProgressLine::Done() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ProgressLine::Show(std::chrono::milliseconds after) {
  const ProgressClock::time_point start = ProgressClock::now();
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, after, [this] { return done_; })) return;
  do {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(ProgressClock::now() - start);
    stream_ << "\r\x1b[K" << what_ << ": " << told_ << (told_.empty() ? "" : ", ")
            << seconds.count() << " s" << std::flush;
  } while (!changed_.wait_for(lock, kEvery, [this] { return done_; }));
  stream_ << "\r\x1b[K" << std::flush;
}

}  // namespace mpnanny
