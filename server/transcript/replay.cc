#include "server/transcript/replay.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/base64.h"
#include "base/json.h"
#include "base/stop_event.h"
#include "server/stdio_server.h"
#include "server/transcript/names.h"
#include "server/transcript/pattern.h"

namespace mpnanny {
namespace {

// One line of the transcript.
struct Step {
  enum class Kind { kAbout, kSend, kRaw, kBytes, kExpect, kEnd };
  Kind kind;
  int line;
  Json what;
  bool optional = false;
};

bool IsLine(Step::Kind kind) { return kind == Step::Kind::kRaw || kind == Step::Kind::kBytes; }

Result<std::vector<Step>> ReadSteps(std::string_view text) {
  constexpr std::pair<const char*, Step::Kind> kKinds[] = {
      {"about", Step::Kind::kAbout},   {"send", Step::Kind::kSend},
      {"raw", Step::Kind::kRaw},       {"raw_base64", Step::Kind::kBytes},
      {"expect", Step::Kind::kExpect}, {"end", Step::Kind::kEnd}};
  std::vector<Step> steps;
  int line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 1;
    ++line;
    const std::string where = "line " + std::to_string(line) + ": ";
    // What is expected may hold a whole message inside its own object.
    const Result<Json> json = ParseJson(one, kMaxJsonDepth + 2);
    if (!json) return InvalidInput(where + json.error().message);
    const Step* known = nullptr;
    Step step{};
    for (const auto& [key, kind] : kKinds) {
      if (!json->is_object() || !json->contains(key) || known) continue;
      step = {kind, line, (*json)[key], json->value("optional", Json()) == true};
      known = &step;
    }
    if (!known || (step.kind == Step::Kind::kAbout) != (line == 1) ||
        (IsLine(step.kind) && !step.what.is_string())) {
      return InvalidInput(where + "no step of a transcript.",
                          "The first line is {\"about\": …}, then come send, raw, expect and at "
                          "last end.");
    }
    if (step.kind == Step::Kind::kBytes) {
      auto bytes = DecodeBase64(step.what.get_ref<const std::string&>());
      if (!bytes) return InvalidInput(where + "what stands in raw_base64 is no base64.");
      step.what = *std::move(bytes);
    }
    steps.push_back(std::move(step));
  }
  const auto end = std::find_if(steps.begin(), steps.end(),
                                [](const Step& step) { return step.kind == Step::Kind::kEnd; });
  if (end == steps.end()) {
    return InvalidInput("There is no line {\"end\": true}.",
                        "The recording was cut off: add that line to play what there is.");
  }
  for (auto step = end + 1; step < steps.end(); ++step) {
    if (step->kind != Step::Kind::kExpect) {
      return InvalidInput("line " + std::to_string(step->line) +
                          ": the client says nothing more after the end.");
    }
  }
  return steps;
}

// Keeps what the server says until it is asked for.
class Inbox : public MessageSink {
 public:
  void Send(const Json& message) override {
    const std::lock_guard lock(mutex_);
    messages_.push_back(message);
    more_.notify_all();
  }

  // The first message that the pattern means, once it is there.
  std::optional<Json> Take(const Json& pattern, std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    std::optional<Json> taken;
    more_.wait_for(lock, at_most, [&] {
      const auto found = std::find_if(messages_.begin(), messages_.end(), [&](const Json& message) {
        return IsMeant(pattern, message);
      });
      if (found == messages_.end()) return false;
      taken = std::move(*found);
      messages_.erase(found);
      return true;
    });
    return taken;
  }

  std::list<Json> TakeRest() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::list<Json> messages_;  // guarded by mutex_
};

class Player {
 public:
  Player(const std::vector<Step>& steps, const ReplayOptions& options,
         const std::shared_ptr<Inbox>& inbox, ReplayReport& report)
      : steps_(steps), options_(options), inbox_(inbox), report_(report), names_(options.roots) {}

  StdioEnd Play(const MessageHandler& handler) {
    for (const Step& step : steps_) {
      if (step.kind == Step::Kind::kSend) {
        Send(names_.Show(step.what), handler);
      } else if (IsLine(step.kind)) {
        ++report_.sent;
        const auto& line = step.what.get_ref<const std::string&>();
        handler(step.kind == Step::Kind::kRaw ? names_.Show(line) : line, inbox_);
      } else if (step.kind == Step::Kind::kEnd) {
        break;
      } else if (step.kind == Step::Kind::kExpect && !Expect(step, options_.wait_for)) {
        gave_up_ = true;  // what comes later would only differ because of this
        break;
      }
    }
    return StdioEnd::kEndOfInput;
  }

  // The server has ended: what it said at last, and what nobody expected.
  void Finish() {
    if (gave_up_) return;
    const auto end = std::find_if(steps_.begin(), steps_.end(),
                                  [](const Step& step) { return step.kind == Step::Kind::kEnd; });
    for (auto step = end + 1; step < steps_.end(); ++step) {
      Expect(*step, std::chrono::milliseconds(0));
    }
    for (const Json& message : inbox_->TakeRest()) {
      if (!MayCome(message)) {
        report_.differences.push_back("end: nobody expected " + DumpJson(message).substr(0, 500));
      }
    }
  }

 private:
  void Send(const Json& message, const MessageHandler& handler) {
    ++report_.sent;
    const Json all = message.is_array() ? message : Json::array({message});
    for (const Json& one : all) {
      if (!one.is_object()) continue;
      const Json params = one.value("params", Json());
      if (!params.is_object()) continue;
      if (one.value("method", Json()) == "notifications/cancelled") {
        cancelled_.push_back(params.value("requestId", Json()));
      }
      const Json meta = params.value("_meta", Json());
      if (meta.is_object() && meta.contains("progressToken")) {
        tokens_.push_back(meta["progressToken"]);
      }
    }
    handler(DumpJson(message), inbox_);
  }

  bool Expect(const Step& step, std::chrono::milliseconds wait_for) {
    // A cancelled call may be answered or not: that is a race which the protocol allows.
    const bool answered_maybe = step.what.is_object() && !step.what.contains("method") &&
                                IsOneOf(cancelled_, step.what.value("id", Json()));
    const bool may_lack = step.optional || answered_maybe;
    auto message =
        inbox_->Take(names_.Show(step.what), may_lack ? std::chrono::milliseconds(0) : wait_for);
    if (!message) {
      if (may_lack) return true;
      std::string waiting;
      if (wait_for.count() > 0) {
        for (const Json& other : inbox_->TakeRest()) {
          waiting += " " + DumpJson(other).substr(0, 300);
        }
      }
      Differs(step, wait_for.count() > 0
                        ? "/: no such message within " + std::to_string(wait_for.count() / 1000) +
                              " s, only:" + (waiting.empty() ? " nothing" : waiting)
                        : "/: no such message before the server ended");
      return false;
    }
    ++report_.compared;
    const Json ordered = InOrderOf(step.what, *std::move(message));
    TakeNames(step.what, ordered, names_);
    for (const std::string& difference : Differences(names_.Show(step.what), ordered)) {
      Differs(step, difference);
    }
    return true;
  }

  bool MayCome(const Json& message) const {
    if (!message.is_object()) return false;
    if (message.value("method", Json()) == "notifications/progress") {
      const Json params = message.value("params", Json());
      return params.is_object() && IsOneOf(tokens_, params.value("progressToken", Json()));
    }
    return !message.contains("method") && IsOneOf(cancelled_, message.value("id", Json()));
  }

  static bool IsOneOf(const std::vector<Json>& values, const Json& value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  void Differs(const Step& step, const std::string& what) {
    report_.differences.push_back(std::to_string(step.line) + ": " + what);
  }

  const std::vector<Step>& steps_;
  const ReplayOptions& options_;
  const std::shared_ptr<Inbox> inbox_;
  ReplayReport& report_;
  Names names_;
  std::vector<Json> cancelled_;  // ids of calls that the client took back
  std::vector<Json> tokens_;     // progress tokens that it gave
  bool gave_up_ = false;
};

}  // namespace

Result<ReplayReport> Replay(const Registry& registry, std::string_view transcript,
                            const ReplayOptions& options) {
  MPN_TRY_ASSIGN(const std::vector<Step> steps, ReadSteps(transcript));
  ReplayReport report;
  const auto inbox = std::make_shared<Inbox>();
  Player player(steps, options, inbox, report);
  StopEvent stop;
  report.stuck = !RunServer(
      registry, inbox, [&](const MessageHandler& handler) { return player.Play(handler); }, stop);
  player.Finish();
  return report;
}

}  // namespace mpnanny
