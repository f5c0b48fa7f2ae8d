#include "server/dispatch/dispatcher.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "server/dispatch/batch_sink.h"
#include "server/dispatch/client_input.h"
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

// How often a handler may ask a legacy client before we call it a bug.
constexpr int kMaxRounds = 8;

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

bool ServesEra(Eras eras, bool modern) {
  return eras == Eras::kBoth || (eras == Eras::kModern) == modern;
}

}  // namespace

Dispatcher::Dispatcher(MethodTable methods, Json server_info, DispatcherOptions options)
    : methods_(std::move(methods)),
      server_info_(std::move(server_info)),
      options_(options),
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
  if (in_batch && request.method == "initialize") {
    return refuse({kInvalidRequest, "initialize must not be part of a batch."});
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

// What a modern client sends along when it repeats a request. What it answers is checked by who
// asked for it; what we gave it to carry must be unaltered.
std::variant<ClientInput, WireError> Dispatcher::ReadInput(const std::string& method,
                                                           Json& params) const {
  ClientInput input;
  if (const auto responses = params.find("inputResponses"); responses != params.end()) {
    if (!responses->is_object()) {
      return WireError{kInvalidParams, "params.inputResponses must be an object."};
    }
    input.responses = std::move(*responses);
  }
  if (const auto sealed = params.find("requestState"); sealed != params.end()) {
    auto state = sealed->is_string()
                     ? seal_.Open(sealed->get_ref<const std::string&>(), method, params)
                     : std::nullopt;
    if (!state) {
      return WireError{kInvalidParams,
                       "params.requestState is not what this server gave for this request, or is "
                       "older than an hour. Send the request again without it."};
    }
    input.state = *std::move(state);
  }
  return input;
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
  call->Answer(UnavailableOutcome(method, "Too many calls are waiting (" +
                                              std::to_string(options_.max_waiting_calls) +
                                              "). Wait for some answers, then try again."));
  running_.Remove(handle);
}

void Dispatcher::Finish(Work work, const std::shared_ptr<Call>& call,
                        const std::shared_ptr<Connection>& connection, Outcome outcome) {
  if (const auto job = call->Ended()) {  // it was answered "running" at its deadline
    if (std::holds_alternative<Stopped>(outcome)) outcome = StoppingOutcome(work.method);
    jobs_.Finish(*job, std::move(outcome));
    pool_.SetExtraThreads(jobs_.running());
    return;
  }
  if (auto* input = std::get_if<InputRequired>(&outcome)) {
    return FinishInput(std::move(work), call, connection, std::move(*input));
  }
  if (auto* listening = std::get_if<Listening>(&outcome)) {
    if (notices_.Listen(call, connection, std::move(listening->filter))) return;
    outcome = UnavailableOutcome(work.method, "Too many clients listen already. Try again later.");
  }
  // Before the answer: from then on the client may use the id again.
  connection->calls.Remove(*call);
  if (std::holds_alternative<Stopped>(outcome)) outcome = StoppingOutcome(work.method);
  call->Answer(std::move(outcome));
}

void Dispatcher::FinishInput(Work work, const std::shared_ptr<Call>& call,
                             const std::shared_ptr<Connection>& connection, InputRequired input) {
  const auto answer = [&](Outcome outcome) {
    connection->calls.Remove(*call);
    call->Answer(std::move(outcome));
  };
  const bool asks_nothing = input.requests.empty() && input.state.is_null();
  if (!work.method.may_ask_client || asks_nothing || work.rounds >= kMaxRounds) {
    const std::string log_id = LogError(call->method() +
                                        ": it asks the client for nothing, too "
                                        "often, or may not ask.");
    return answer(WireError{kInternalError, "Internal error " + log_id + "."});
  }
  if (auto missing = MissingCapability(input.requests, call->envelope().client_capabilities)) {
    return answer(*std::move(missing));
  }
  if (IsModern(call->envelope().revision)) {
    if (!input.state.is_null()) input.state = seal_.Seal(input.state, call->method(), work.params);
    return answer(std::move(input));
  }
  work.rounds += 1;
  work.input = {Json::object(), std::move(input.state)};
  AskLegacyClient(std::move(work), call, connection, input.requests);
}

void Dispatcher::AskLegacyClient(Work work, const std::shared_ptr<Call>& call,
                                 const std::shared_ptr<Connection>& connection,
                                 const Json& requests) {
  // Leaves the table with the last who knows of the round: when it is answered or given up.
  const std::shared_ptr<void> waiting(
      nullptr, [this, handle = asking_.Add(call, connection)](void*) { asking_.Remove(handle); });
  // The connection holds what waits for its answers, so that must not hold the connection.
  auto go_on = [this, work = std::move(work), call, waiting,
                weak = std::weak_ptr(connection)](ClientAnswers answers) mutable {
    const auto open = weak.lock();
    if (!open || !call->open()) return;  // gone, taken back, or answered for
    if (const auto* error = std::get_if<WireError>(&answers)) {
      open->calls.Remove(*call);
      return call->Answer(UnavailableOutcome(work.method, error->message));
    }
    work.input.responses = std::get<Json>(std::move(answers));
    call->StartClock(options_.deadline);
    Start(std::move(work), call, open);
  };
  if (requests.empty()) return go_on(Json::object());
  call->SetAsked(AskClient(call, connection, requests, std::move(go_on)));
}

void Dispatcher::TakeBack(const std::shared_ptr<Call>& call, Connection& connection) {
  call->TakeBack();
  notices_.Remove(*call);
  for (const std::string& id : call->TakeAsked()) connection.client_requests.Remove(id);
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
  running_.StopAll();
  jobs_.StopAll();
  for (const auto& call : asking_.All()) {
    call->Answer(StoppingOutcome(methods_.find(call->method())->second));
  }
}

void Dispatcher::AnswerForCalls() {
  for (const auto& call : running_.All()) {
    call->Answer(StoppingOutcome(methods_.find(call->method())->second));
  }
}

void Dispatcher::OnDeadline(const RunningCalls::Entry& entry) {
  const auto connection = entry.connection.lock();
  auto running = entry.call->BecomeJob(jobs_);
  if (!running) return;
  // Before the answer: from then on the client may use the id again, and send more.
  if (connection) connection->calls.Remove(*entry.call);
  pool_.SetExtraThreads(jobs_.running());
  entry.call->Answer(*std::move(running));
}

void Dispatcher::AnswerOverdue(const RunningCalls::Entry& entry) const {
  const Call& call = *entry.call;
  if (!call.open()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.deadline).count();
  LogWarning(call.method() + " did not end within its deadline.");
  entry.call->Answer(
      UnavailableOutcome(methods_.find(call.method())->second,
                         "The call did not end within " + std::to_string(seconds) +
                             " s. Ask for less at once (a smaller path, fewer layers or steps)."));
}

void Dispatcher::AnswerForClient(const RunningCalls::Entry& entry) const {
  const Call& call = *entry.call;
  const auto connection = entry.connection.lock();
  for (const std::string& id : entry.call->TakeAsked()) {
    entry.call->Send(Notification("notifications/cancelled", {{"requestId", id}}));
    if (connection) connection->client_requests.Remove(id);
  }
  if (connection) connection->calls.Remove(call);
  entry.call->Answer(UnavailableOutcome(
      methods_.find(call.method())->second,
      "The client did not answer within " +
          std::to_string(
              std::chrono::duration_cast<std::chrono::seconds>(options_.client_answer).count()) +
          " s. Call again when somebody can answer."));
}

}  // namespace mpnanny
