#include "server/dispatch/dispatcher.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "server/dispatch/batch_sink.h"
#include "server/protocol/error_codes.h"
#include "server/protocol/versions.h"

namespace mpnanny {
namespace {

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

bool ServesEra(Eras eras, bool modern) {
  return eras == Eras::kBoth || (eras == Eras::kModern) == modern;
}

}  // namespace

Dispatcher::Dispatcher(MethodTable methods, Json server_info, DispatcherOptions options)
    : methods_(std::move(methods)),
      server_info_(std::move(server_info)),
      options_(options),
      jobs_([this](size_t busy) { pool_.SetExtraThreads(busy); }),
      running_(
          options.deadline, options.grace,
          [this](const RunningCalls::Entry& entry) { OnDeadline(entry); },
          [this](const RunningCalls::Entry& entry) { AnswerOverdue(entry); }),
      asking_(
          options.client_answer, {}, [](const RunningCalls::Entry&) {},
          [this](const RunningCalls::Entry& entry) { AnswerForClient(entry); }),
      pool_(options.threads, options.max_waiting_calls) {}

void Dispatcher::Handle(std::string_view text, const std::shared_ptr<Connection>& connection,
                        const std::shared_ptr<MessageSink>& sink) {
  auto json = ParseJson(text, kMaxJsonDepth, DuplicateKeys::kRefuse);
  if (json) {
    HandleMessage(*std::move(json), connection, sink);
  } else {
    sink->Send(
        ErrorResponse(std::nullopt, {kParseError, "This message is " + json.error().Text()}));
  }
}

void Dispatcher::HandleMessage(Json json, const std::shared_ptr<Connection>& connection,
                               const std::shared_ptr<MessageSink>& sink) {
  try {
    if (json.is_array()) {
      HandleBatch(std::move(json), connection, sink);
    } else {
      HandleOne(std::move(json), connection, sink, /*in_batch=*/false);
    }
  } catch (const std::exception& e) {
    // Out of memory or threads. A call that exists by now is answered when the last one lets go of
    // it.
    LogError(std::string("A message could not be handled: ") + e.what());
  }
}

void Dispatcher::HandleBatch(Json batch, const std::shared_ptr<Connection>& connection,
                             const std::shared_ptr<MessageSink>& sink) {
  const auto agreed = connection->legacy.agreed();
  const bool allowed = agreed && HasBatches(agreed->revision);
  if (!allowed || batch.empty()) {
    sink->Send(ErrorResponse(
        std::nullopt,
        {kInvalidRequest, allowed ? "A batch must not be empty."
                                  : "Batches exist in protocol revision 2025-03-26 only, after "
                                    "initialize. Send one message at a time."}));
    return;
  }
  if (batch.size() > kMaxBatch) {
    sink->Send(ErrorResponse(std::nullopt,
                             {kInvalidRequest, "A batch of more than " + std::to_string(kMaxBatch) +
                                                   " messages is too large. Send less at once."}));
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
  } else if (auto* response = std::get_if<ResponseMessage>(&message)) {
    // One that nobody waits for is no error: its call may have been taken back.
    connection->client_requests.Resolve(std::move(*response));
  } else if (auto* invalid = std::get_if<InvalidMessage>(&message)) {
    // What was meant as an answer to a request of ours is one, though of no use.
    if (connection->client_requests.Resolve({invalid->id, nullptr, invalid->error})) return;
    sink->Send(ErrorResponse(invalid->id, invalid->error));
  }
}

void Dispatcher::HandleRequest(RequestMessage request,
                               const std::shared_ptr<Connection>& connection,
                               const std::shared_ptr<MessageSink>& sink, bool in_batch) {
  const TraceSpan span("request", request.method);
  const auto refuse = [&](const WireError& error) { sink->Send(ErrorResponse(request.id, error)); };

  const bool modern = IsModernRequest(request.method, request.params);
  const auto agreed = modern ? std::nullopt : connection->legacy.agreed();
  auto envelope = modern ? ReadModernEnvelope(request.params)
                         : ReadLegacyEnvelope(request.params, agreed ? *agreed : Envelope());
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
  if (!modern && !agreed && !method.before_initialize) {
    return refuse({kInvalidRequest,
                   "Send initialize first, or put the fields of revision 2026-07-28 into _meta."});
  }
  if (in_batch && (modern || request.method == "initialize")) {
    return refuse({kInvalidRequest, modern ? "Revision 2026-07-28 has no batches."
                                           : "initialize must not be part of a batch."});
  }
  Work work{method, std::move(request.params), {}};
  if (modern && method.may_ask_client) {
    auto input = ReadInput(request.method, work.params);
    if (const auto* error = std::get_if<WireError>(&input)) return refuse(*error);
    work.input = std::get<ClientInput>(std::move(input));
  }
  const auto call = std::make_shared<Call>(std::move(request.id), std::move(request.method),
                                           std::get<Envelope>(std::move(envelope)), sink,
                                           server_info_, options_.deadline);
  if (!connection->calls.Add(call)) {
    return call->Answer(
        WireError{kInvalidRequest, "A request with this id is still running. Use each id once."});
  }
  Start(std::move(work), call, connection);
}

Outcome Dispatcher::Run(const Work& work, const std::shared_ptr<Call>& call,
                        const std::shared_ptr<Connection>& connection) {
  RequestContext context{.revision = call->envelope().revision,
                         .client_capabilities = call->envelope().client_capabilities,
                         .cancel = call->cancel(),
                         .progress = nullptr,
                         .input = work.input,
                         .call = call,
                         .connection = connection,
                         .notices = notices_,
                         .jobs = jobs_};
  if (call->wants_progress()) {
    context.progress = [weak = std::weak_ptr<Call>(call)](double progress,
                                                          std::optional<double> total,
                                                          const std::string& message) {
      if (const auto open = weak.lock()) open->Progress(progress, total, message);
    };
  }
  return RunGuarded(work.method, call->method(), work.params, context);
}

void Dispatcher::Start(Work work, const std::shared_ptr<Call>& call,
                       const std::shared_ptr<Connection>& connection) {
  if (work.method.runs_on == RunsOn::kReader) {
    Outcome outcome = Run(work, call, connection);
    return Finish(std::move(work), call, connection, std::move(outcome));
  }
  const auto handle = running_.Add(call, connection);
  const Method& method = work.method;
  const bool taken =
      pool_.Submit([this, work = std::move(work), call, connection, handle]() mutable {
        Outcome outcome = Stopped{};
        if (!call->cancel().cancelled()) {
          const TraceSpan span("call", call->method());
          outcome = Run(work, call, connection);
        }
        Finish(std::move(work), call, connection, std::move(outcome));
        running_.Remove(handle);
      });
  if (taken) return;
  connection->calls.Remove(*call);
  call->Answer(method.Unavailable("Too many calls are waiting (" +
                                  std::to_string(options_.max_waiting_calls) +
                                  "). Wait for some answers, then try again."));
  running_.Remove(handle);
}

void Dispatcher::Finish(Work work, const std::shared_ptr<Call>& call,
                        const std::shared_ptr<Connection>& connection, Outcome outcome) {
  if (const auto job = call->Ended()) {  // it was answered "running" at its deadline
    if (std::holds_alternative<Stopped>(outcome)) outcome = work.method.Stopping();
    jobs_.Finish(*job, std::move(outcome));
    return;
  }
  if (auto* input = std::get_if<InputRequired>(&outcome)) {
    return FinishInput(std::move(work), call, connection, std::move(*input));
  }
  if (auto* listening = std::get_if<Listening>(&outcome)) {
    if (notices_.Listen(call, connection, std::move(listening->filter))) return;
    outcome = work.method.Unavailable("Too many clients listen already. Try again later.");
  }
  // Before the answer: from then on the client may use the id again.
  connection->calls.Remove(*call);
  if (std::holds_alternative<Stopped>(outcome)) outcome = work.method.Stopping();
  call->Answer(std::move(outcome));
}

// notifications/cancelled of either era. An id that is unknown or answered already is no error.
void Dispatcher::HandleCancelled(const Json& params, Connection& connection) {
  const auto given = params.find("requestId");
  if (given == params.end()) return;
  const auto id = RequestId::FromJson(*given);
  if (!id) return;
  if (const auto call = connection.calls.Take(*id)) TakeBack(call, connection);
}

void Dispatcher::Disconnect(const std::shared_ptr<Connection>& connection) {
  notices_.Forget(connection);
  for (const auto& call : connection->calls.TakeAll()) TakeBack(call, *connection);
}

void Dispatcher::StopCalls() {
  stopping_ = true;
  running_.StopAll();
  jobs_.StopAll();
  for (const auto& call : asking_.All()) {
    call->Answer(methods_.find(call->method())->second.Stopping());
  }
}

void Dispatcher::AnswerForCalls() {
  for (const auto& call : running_.All()) {
    call->Answer(methods_.find(call->method())->second.Stopping());
  }
}

void Dispatcher::OnDeadline(const RunningCalls::Entry& entry) {
  const auto connection = entry.connection.lock();
  auto running = entry.call->BecomeJob(jobs_);
  if (!running) return;
  // Before the answer: from then on the client may use the id again, and send more.
  if (connection) connection->calls.Remove(*entry.call);
  entry.call->Answer(*std::move(running));
}

void Dispatcher::AnswerOverdue(const RunningCalls::Entry& entry) const {
  const Call& call = *entry.call;
  if (!call.open()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.deadline).count();
  LogWarning(call.method() + " did not end within its deadline.");
  entry.call->Answer(methods_.find(call.method())
                         ->second.Unavailable(
                             "The call did not end within " + std::to_string(seconds) +
                             " s. Ask for less at once (a smaller path, fewer layers or steps)."));
}

}  // namespace mpnanny
