#include "server/dispatch/dispatcher.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "server/protocol/error_codes.h"
#include "server/protocol/versions.h"

namespace mpnanny {
namespace {

// Collects the answers to a batch; the last of its calls to let go of it sends them together.
// Everything that is no answer (progress) goes out at once.
class BatchSink : public MessageSink {
 public:
  explicit BatchSink(std::shared_ptr<MessageSink> out) : out_(std::move(out)) {}
  ~BatchSink() override {
    if (!answers_.empty()) out_->Send(answers_);
  }

  void Send(const Json& message) override {
    if (message.contains("method")) {
      out_->Send(message);
      return;
    }
    const std::lock_guard lock(mutex_);
    answers_.push_back(message);
  }

 private:
  const std::shared_ptr<MessageSink> out_;
  std::mutex mutex_;
  Json answers_ = Json::array();  // guarded by mutex_
};

// Runs a handler so that nothing it throws gets further.
Outcome RunGuarded(const Method& method, const std::string& name, const Json& params,
                   const RequestContext& context) {
  std::string what;
  try {
    return method.run(params, context);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    what = "unknown exception";
  }
  const std::string log_id = LogError(name + ": " + what);
  return WireError{kInternalError,
                   "Internal error " + log_id + "; the server's stderr has the details."};
}

Outcome UnavailableOutcome(const Method& method, const std::string& message) {
  if (method.unavailable) return method.unavailable(message);
  return WireError{kInternalError, message};
}

// For a call that was told to stop. Nothing is sent if it was the client who took it back.
Outcome StoppingOutcome(const Method& method) {
  return UnavailableOutcome(method,
                            "The server is stopping; this call was not finished. Start the server "
                            "again and repeat the call.");
}

RequestContext MakeContext(const std::shared_ptr<Call>& call, Connection& connection) {
  RequestContext context{call->envelope().revision, call->envelope().client_capabilities,
                         call->cancel(), nullptr, connection.legacy};
  if (call->wants_progress()) {
    context.progress = [weak = std::weak_ptr<Call>(call)](double progress,
                                                          std::optional<double> total,
                                                          const std::string& message) {
      if (const auto open = weak.lock()) open->Progress(progress, total, message);
    };
  }
  return context;
}

bool ServesEra(Eras eras, bool modern) {
  return eras == Eras::kBoth || (eras == Eras::kModern) == modern;
}

// notifications/cancelled of either era. An id that is unknown or answered already is no error.
void HandleCancelled(const Json& params, Connection& connection) {
  const auto given = params.find("requestId");
  if (given == params.end()) return;
  const auto id = RequestId::FromJson(*given);
  if (!id) return;
  if (const auto call = connection.calls.Take(*id)) call->TakeBack();
}

}  // namespace

Dispatcher::Dispatcher(MethodTable methods, Json server_info, DispatcherOptions options)
    : methods_(std::move(methods)),
      server_info_(std::move(server_info)),
      options_(options),
      running_(options.deadline + options.grace, [this](Call& call) { AnswerOverdue(call); }),
      pool_(options.threads, options.max_waiting_calls) {}

void Dispatcher::Handle(std::string_view text, const std::shared_ptr<Connection>& connection,
                        const std::shared_ptr<MessageSink>& sink) {
  try {
    auto json = ParseJson(text);
    if (!json) {
      sink->Send(
          ErrorResponse(std::nullopt, {kParseError, "This message is " + json.error().Text()}));
    } else if (json->is_array()) {
      HandleBatch(*std::move(json), connection, sink);
    } else {
      HandleOne(*std::move(json), connection, sink, /*in_batch=*/false);
    }
  } catch (const std::exception& e) {
    // Out of memory or threads. A call that exists by now is answered when the last one lets go of
    // it.
    LogError(std::string("A message could not be handled: ") + e.what());
  }
}

void Dispatcher::HandleBatch(Json batch, const std::shared_ptr<Connection>& connection,
                             const std::shared_ptr<MessageSink>& sink) {
  const auto agreement = connection->legacy.agreement();
  const bool allowed = agreement && HasBatches(agreement->revision);
  if (!allowed || batch.empty()) {
    sink->Send(ErrorResponse(
        std::nullopt,
        {kInvalidRequest, allowed ? "A batch must not be empty."
                                  : "Batches exist in protocol revision 2025-03-26 only, after "
                                    "initialize. Send one message at a time."}));
    return;
  }
  const auto answers = std::make_shared<BatchSink>(sink);
  for (Json& json : batch) HandleOne(std::move(json), connection, answers, /*in_batch=*/true);
}

void Dispatcher::HandleOne(Json json, const std::shared_ptr<Connection>& connection,
                           const std::shared_ptr<MessageSink>& sink, bool in_batch) {
  Message message = ClassifyMessage(std::move(json));
  if (auto* request = std::get_if<RequestMessage>(&message)) {
    HandleRequest(std::move(*request), connection, sink, in_batch);
  } else if (auto* note = std::get_if<NotificationMessage>(&message)) {
    if (note->method == "notifications/cancelled") HandleCancelled(note->params, *connection);
  } else if (auto* invalid = std::get_if<InvalidMessage>(&message)) {
    sink->Send(ErrorResponse(invalid->id, invalid->error));
  }
  // Answers: we never ask the client anything, so there is nothing that they could belong to.
}

void Dispatcher::HandleRequest(RequestMessage request,
                               const std::shared_ptr<Connection>& connection,
                               const std::shared_ptr<MessageSink>& sink, bool in_batch) {
  const TraceSpan span("request", request.method);
  const auto refuse = [&](const WireError& error) { sink->Send(ErrorResponse(request.id, error)); };

  const bool modern = IsModernRequest(request.method, request.params);
  const auto agreement = modern ? std::nullopt : connection->legacy.agreement();
  auto envelope =
      modern ? ReadModernEnvelope(request.params)
             : ReadLegacyEnvelope(request.params, agreement ? agreement->revision : kNewestLegacy,
                                  agreement ? agreement->client_capabilities : Json::object());
  if (const auto* error = std::get_if<WireError>(&envelope)) return refuse(*error);

  const auto found = methods_.find(request.method);
  if (found == methods_.end() || !ServesEra(found->second.eras, modern)) {
    const std::string shown = EscapeControl(request.method, 100);
    return refuse({kMethodNotFound,
                   found == methods_.end()
                       ? "Unknown method '" + shown + "'."
                       : "Method '" + shown + "' does not exist in this protocol revision."});
  }
  const Method& method = found->second;
  if (!modern && !agreement && !method.before_initialize) {
    return refuse({kInvalidRequest,
                   "Send initialize first, or put the fields of revision 2026-07-28 into _meta."});
  }
  if (in_batch && request.method == "initialize") {
    return refuse({kInvalidRequest, "initialize must not be part of a batch."});
  }
  const auto call = std::make_shared<Call>(std::move(request.id), std::move(request.method),
                                           std::get<Envelope>(std::move(envelope)), sink,
                                           server_info_, options_.deadline);
  if (!connection->calls.Add(call)) {
    return call->Answer(
        WireError{kInvalidRequest, "A request with this id is still running. Use each id once."});
  }
  Start(method, std::move(request.params), call, connection);
}

void Dispatcher::Start(const Method& method, Json params, const std::shared_ptr<Call>& call,
                       const std::shared_ptr<Connection>& connection) {
  if (method.runs_on == RunsOn::kReader) {
    return Finish(method, *call, *connection,
                  RunGuarded(method, call->method(), params, MakeContext(call, *connection)));
  }
  const auto handle = running_.Add(call);
  const bool taken =
      pool_.Submit([this, &method, params = std::move(params), call, connection, handle] {
        Outcome outcome = Stopped{};
        if (!call->cancel().cancelled()) {
          const TraceSpan span("call", call->method());
          outcome = RunGuarded(method, call->method(), params, MakeContext(call, *connection));
        }
        Finish(method, *call, *connection, std::move(outcome));
        running_.Remove(handle);
      });
  if (taken) return;
  Finish(method, *call, *connection,
         UnavailableOutcome(method, "Too many calls are waiting (" +
                                        std::to_string(options_.max_waiting_calls) +
                                        "). Wait for some answers, then try again."));
  running_.Remove(handle);
}

void Dispatcher::Finish(const Method& method, Call& call, Connection& connection,
                        Outcome outcome) const {
  // Before the answer: from then on the client may use the id again.
  connection.calls.Remove(call);
  if (std::holds_alternative<Stopped>(outcome)) outcome = StoppingOutcome(method);
  call.Answer(std::move(outcome));
}

void Dispatcher::AnswerForCalls() {
  for (const auto& call : running_.All()) {
    call->Answer(StoppingOutcome(methods_.find(call->method())->second));
  }
}

void Dispatcher::AnswerOverdue(Call& call) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.deadline).count();
  LogWarning(call.method() + " did not end within its deadline.");
  call.Answer(
      UnavailableOutcome(methods_.find(call.method())->second,
                         "The call did not end within " + std::to_string(seconds) +
                             " s. Ask for less at once (a smaller path, fewer layers or steps)."));
}

}  // namespace mpnanny
