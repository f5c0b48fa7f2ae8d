#include "server/command_line/follow.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <ostream>
#include <utility>

#include "base/stop_event.h"

namespace mpnanny {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostFailures = 3;  // one after the other
constexpr int kRest = 4;          // times as long as an answer took, before the next one
constexpr char kEraseLine[] = "\r\x1b[K";

class Follower {
 public:
  explicit Follower(const Following& following) : following_(following) {}

  // Asks once; an error only where asking again is of no use.
  Result<void> Look(Json& arguments, bool& over) {
    auto state = following_.state(arguments);
    if (!state) return Failed(state.error());
    arguments = state->arguments;
    over = state->over;
    if (state->version != version_ || over != over_ || !answer_) {
      const Clock::time_point began = Clock::now();
      auto answer = following_.ask(arguments);
      if (!answer) return Failed(answer.error());
      took_ = Clock::now() - began;
      version_ = state->version;
      over_ = over;
      Take(*std::move(answer), state->urgent);
    }
    failures_ = 0;
    if (following_.states && !over) {
      following_.out << kEraseLine << state->line;
      has_line_ = true;
    }
    following_.out.flush();
    return {};
  }

  void EraseState() {
    if (has_line_) following_.out << kEraseLine;
    has_line_ = false;
  }

  Clock::duration rest() const { return took_ * kRest; }
  std::optional<ToolOutput>& answer() { return answer_; }

 private:
  Result<void> Failed(const Error& error) {
    if (!answer_ || ++failures_ > kMostFailures) return error;
    return {};
  }

  void Take(ToolOutput answer, const std::string& urgent) {
    const std::string essence = following_.essence(answer.structured);
    const bool is_new = !answer_ || essence != essence_ || urgent != urgent_;
    answer_ = std::move(answer);
    if (!is_new) return;
    essence_ = essence;
    urgent_ = urgent;
    EraseState();
    following_.show(*answer_);
  }

  const Following& following_;
  std::optional<ToolOutput> answer_;
  std::string version_, essence_, urgent_;
  bool over_ = false, has_line_ = false;
  int failures_ = 0;
  Clock::duration took_{};
};

}  // namespace

Result<ToolOutput> Follow(const Following& following, Json arguments) {
  StopEvent stop;
  stop.BindSignals();
  Follower follower(following);
  const auto interval =
      std::chrono::milliseconds(static_cast<int64_t>(std::ceil(following.interval * 1000)));
  bool over = false;
  while (!over && following.out) {
    auto looked = follower.Look(arguments, over);
    if (!looked) {
      follower.EraseState();
      return looked.error();
    }
    if (over) break;
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(follower.rest());
    if (stop.WaitFor(std::max(interval, rest))) break;
  }
  follower.EraseState();
  return *std::move(follower.answer());
}

}  // namespace mpnanny
