#include "server/dispatch/call.h"

#include <cmath>
#include <utility>

#include "base/log.h"
#include "server/protocol/codec.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {

Call::Call(RequestId id, std::string method, Envelope envelope, std::shared_ptr<MessageSink> sink,
           const Json& server_info, Clock::duration limit)
    : id_(std::move(id)),
      method_(std::move(method)),
      envelope_(std::move(envelope)),
      server_info_(server_info),
      cancel_(limit),
      sink_(std::move(sink)) {}

Call::~Call() {
  if (!sink_) return;
  const std::string log_id = LogError("No handler answered " + method_ + ".");
  Answer(WireError{kInternalError, "Internal error " + log_id + "."});
}

void Call::Answer(Outcome outcome) {
  std::shared_ptr<MessageSink> sink;  // let go of after the lock: that may end its stream
  const std::lock_guard lock(mutex_);
  if (!sink_) return;
  sink = std::move(sink_);
  sink_ = nullptr;
  if (auto* result = std::get_if<MethodResult>(&outcome)) {
    sink->Send(Response(std::move(*result)));
  } else if (auto* input = std::get_if<InputRequired>(&outcome)) {
    Json body = {{"resultType", "input_required"}};
    if (!input->requests.empty()) body["inputRequests"] = std::move(input->requests);
    if (!input->state.is_null()) body["requestState"] = std::move(input->state);
    sink->Send(Response(MethodResult{std::move(body)}));
  } else if (auto* error = std::get_if<WireError>(&outcome)) {
    sink->Send(ErrorResponse(id_, EncodeError(envelope_.revision, std::move(*error))));
  }
}

bool Call::Send(const Json& message) {
  const std::lock_guard lock(mutex_);
  if (!sink_) return false;
  sink_->Send(message);
  return true;
}

Json Call::Response(MethodResult result) const {
  std::string bug = "the result is no object";
  try {
    if (result.body.is_object()) {
      return ResultResponse(id_, EncodeResult(envelope_.revision, method_, std::move(result.body),
                                              result.cache, server_info_));
    }
  } catch (const Json::exception& e) {  // it is an object, but not one of this method
    bug = e.what();
  }
  const std::string log_id = LogError(method_ + ": " + bug);
  return ErrorResponse(id_, {kInternalError, "Internal error " + log_id + "."});
}

void Call::TakeBack() {
  std::shared_ptr<MessageSink> sink;
  {
    const std::lock_guard lock(mutex_);
    sink.swap(sink_);
  }
  cancel_.Cancel();  // only now: work that notices at once must find nobody to answer
}

bool Call::open() const {
  const std::lock_guard lock(mutex_);
  return sink_ != nullptr;
}

void Call::Log(LogLevel level, const std::string& logger, Json data) {
  if (!envelope_.log_level || level < *envelope_.log_level) return;
  Json params = {{"level", LogLevelName(level)}};
  if (!logger.empty()) params["logger"] = logger;
  params["data"] = std::move(data);
  Send(Notification("notifications/message", std::move(params)));
}

void Call::SuspendStream() {
  const std::lock_guard lock(mutex_);
  if (sink_) sink_->Suspend();
}

void Call::MayOutliveItsDeadline(const std::string& tool, RunningAnswer running,
                                 Clock::duration limit) {
  const std::lock_guard lock(mutex_);
  if (cancel_.token().expired()) return;  // too late: the call is being answered
  tool_ = tool;
  running_ = std::move(running);
  cancel_.SetLimit(limit);
}

void Call::StartClock(Clock::duration limit) {
  const std::lock_guard lock(mutex_);
  ended_ = false;
  cancel_.SetLimit(limit);
}

std::optional<Outcome> Call::BecomeJob(Jobs& jobs) {
  RunningAnswer running;
  std::string job;
  {
    const std::lock_guard lock(mutex_);
    if (!sink_ || ended_ || !running_ || job_) return std::nullopt;
    job_ = jobs.Adopt(tool_, running_, cancel_);
    if (!job_) {  // too many go on already: this one ends as if it could not
      cancel_.SetLimit(Clock::duration::zero());
      return std::nullopt;
    }
    job = *job_;
    running = running_;
  }
  return running(job);  // without the lock: what it tells may need the thread that works
}

void Call::SetAsked(std::vector<std::string> ids) {
  const std::lock_guard lock(mutex_);
  asked_ = std::move(ids);
}

std::vector<std::string> Call::TakeAsked() {
  const std::lock_guard lock(mutex_);
  return std::exchange(asked_, {});
}

std::optional<std::string> Call::Ended() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  return job_;
}

void Call::Progress(double progress, std::optional<double> total, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (!sink_ || !wants_progress() || !std::isfinite(progress) || progress <= last_progress_) return;
  last_progress_ = progress;
  sink_->Send(Notification(
      "notifications/progress",
      EncodeProgress(envelope_.revision, envelope_.progress_token, progress, total, message)));
}

}  // namespace mpnanny
