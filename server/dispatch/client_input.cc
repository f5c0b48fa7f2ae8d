#include "server/dispatch/client_input.h"

#include <mutex>
#include <utility>

#include "base/text.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

// The capability that a request of ours needs, as a ClientCapabilities object.
Json NeededCapability(const Json& request) {
  const std::string method = request.value("method", "");
  if (method == "sampling/createMessage") return {{"sampling", Json::object()}};
  if (method == "roots/list") return {{"roots", Json::object()}};
  const Json params = request.value("params", Json::object());
  return {{"elicitation", {{params.value("mode", "form"), Json::object()}}}};
}

const Json* ObjectAt(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? nullptr : &*found;
}

bool Declares(const Json& capabilities, const Json& needed) {
  const std::string& name = needed.begin().key();
  const Json* declared = ObjectAt(capabilities, name);
  if (!declared || needed[name].empty()) return declared != nullptr;
  const std::string& mode = needed[name].begin().key();
  // An elicitation capability that names no mode means forms.
  const bool names_none = !declared->contains("form") && !declared->contains("url");
  return ObjectAt(*declared, mode) || (mode == "form" && names_none);
}

// The answers as they come in.
class Round {
 public:
  Round(size_t expected, std::function<void(ClientAnswers)> on_answers)
      : missing_(expected), on_answers_(std::move(on_answers)) {}

  void Add(const std::string& key, ResponseMessage response) {
    std::function<void(ClientAnswers)> finish;
    ClientAnswers answers;
    {
      const std::lock_guard lock(mutex_);
      if (!on_answers_) return;  // an earlier one was an error
      if (response.error) {
        answers = WireError{kInternalError,
                            "The client answered '" + EscapeControl(key, 100) +
                                "' with an error: " + EscapeControl(response.error->message, 500)};
      } else {
        answers_[key] = std::move(response.result);
        if (--missing_ > 0) return;
        answers = std::move(answers_);
      }
      finish = std::exchange(on_answers_, nullptr);
    }
    finish(std::move(answers));
  }

 private:
  std::mutex mutex_;
  size_t missing_;
  std::function<void(ClientAnswers)> on_answers_;  // null once called
  Json answers_ = Json::object();
};

}  // namespace

std::optional<WireError> MissingCapability(const Json& requests, const Json& client_capabilities) {
  for (const auto& [key, request] : requests.items()) {
    const Json needed = NeededCapability(request);
    if (Declares(client_capabilities, needed)) continue;
    return WireError{kMissingClientCapability,
                     "This needs " + request.value("method", "a request") +
                         ", and the client did not declare the capability '" +
                         needed.begin().key() + "'.",
                     {{"requiredCapabilities", needed}}};
  }
  return std::nullopt;
}

void AskClient(const std::shared_ptr<Call>& call, const std::shared_ptr<Connection>& connection,
               const Json& requests, std::function<void(ClientAnswers)> on_answers) {
  const auto round = std::make_shared<Round>(requests.size(), std::move(on_answers));
  std::vector<std::string> ids;
  std::vector<Json> messages;
  for (const auto& [key, request] : requests.items()) {
    ids.push_back(connection->client_requests.Add(
        [round, key = key](ResponseMessage response) { round->Add(key, std::move(response)); }));
    messages.push_back(MakeRequest(ids.back(), request.value("method", ""),
                                   request.value("params", Json::object())));
  }
  call->SetAsked(std::move(ids));  // before the answers can come, which may begin another round
  for (const Json& message : messages) call->Send(message);
}

}  // namespace mpnanny
