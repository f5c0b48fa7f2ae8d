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
  const std::lock_guard lock(mutex_);
  if (!sink_) return;
  if (auto* result = std::get_if<MethodResult>(&outcome)) {
    sink_->Send(Response(std::move(*result)));
  } else if (auto* error = std::get_if<WireError>(&outcome)) {
    sink_->Send(ErrorResponse(id_, EncodeError(envelope_.revision, std::move(*error))));
  }
  sink_.reset();
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
  {
    const std::lock_guard lock(mutex_);
    sink_.reset();
  }
  cancel_.Cancel();  // only now: work that notices at once must find nobody to answer
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
