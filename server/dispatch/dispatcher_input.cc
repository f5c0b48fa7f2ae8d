// The dispatcher's part in calls that need something from the client.
#include <string>
#include <utility>

#include "base/log.h"
#include "server/dispatch/client_input.h"
#include "server/dispatch/dispatcher.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

// How often a handler may ask a legacy client before we call it a bug.
constexpr int kMaxRounds = 8;

// Nobody waits for the client's answers any more: it may close the dialogs that it opened for them.
void WithdrawRequests(Call& call, Connection& connection) {
  for (const std::string& id : call.TakeAsked()) {
    if (!connection.client_requests.Remove(id)) continue;  // answered
    const Json note = Notification("notifications/cancelled", {{"requestId", id}});
    // On the call's stream while it has one.
    if (!call.Send(note) && connection.notices) connection.notices->Send(note);
  }
}

}  // namespace

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

void Dispatcher::FinishInput(Work work, const std::shared_ptr<Call>& call,
                             const std::shared_ptr<Connection>& connection, InputRequired input) {
  const auto answer = [&](Outcome outcome) {
    connection->calls.Remove(*call);
    call->Answer(std::move(outcome));
  };
  const bool asks_nothing = input.requests.empty() && input.state.is_null();
  if (!work.method.may_ask_client || asks_nothing) {
    const std::string log_id =
        LogError(call->method() + ": it asks the client for nothing, or may not ask.");
    return answer(WireError{kInternalError, "Internal error " + log_id + "."});
  }
  if (work.rounds >= kMaxRounds) {
    return answer(work.method.Unavailable(
        "The client was asked " + std::to_string(kMaxRounds) +
        " times and its answers were not what is needed. Call again with what the "
        "call needs."));
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
  const Method& method = work.method;
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
      WithdrawRequests(*call, *open);
      return call->Answer(work.method.Unavailable(error->message));
    }
    work.input.responses = std::get<Json>(std::move(answers));
    call->StartClock(options_.deadline);
    Start(std::move(work), call, open);
  };
  if (requests.empty()) return go_on(Json::object());
  AskClient(call, connection, requests, std::move(go_on));
  if (stopping_) call->Answer(method.Stopping());  // StopCalls() may have missed it
}

void Dispatcher::TakeBack(const std::shared_ptr<Call>& call, Connection& connection) {
  call->TakeBack();
  notices_.Remove(*call);
  WithdrawRequests(*call, connection);
}

void Dispatcher::AnswerForClient(const RunningCalls::Entry& entry) const {
  const Call& call = *entry.call;
  if (const auto connection = entry.connection.lock()) {
    WithdrawRequests(*entry.call, *connection);
    connection->calls.Remove(call);
  }
  entry.call->Answer(
      methods_.find(call.method())
          ->second.Unavailable("The client did not answer within " +
                               std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                                  options_.client_answer)
                                                  .count()) +
                               " s. Call again when somebody can answer."));
}

}  // namespace mpnanny
