#include "server/doctor/http_checks.h"

#include <httplib.h>

#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "server/doctor/conversation.h"

namespace mpnanny {
namespace {

// The message that answers `id` in a body: it is that message, or an event stream that holds it.
std::optional<Json> FindAnswer(const std::string& body, bool is_stream, const Json& id) {
  if (!is_stream) {
    auto message = ParseJson(body);
    return message && message->is_object() && message->value("id", Json()) == id
               ? std::optional<Json>(*std::move(message))
               : std::nullopt;
  }
  std::string data;
  for (size_t at = 0; at <= body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    std::string_view line(body.data() + at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    if (line.starts_with("data:")) {
      data += line.substr(line.starts_with("data: ") ? 6 : 5);
    } else if (line.empty()) {
      if (auto answer = FindAnswer(data, false, id)) return answer;
      data.clear();
    }
  }
  return FindAnswer(data, false, id);
}

class HttpTalk {
 public:
  HttpTalk(const HttpTarget& target, Checks& checks)
      : target_(target), checks_(checks), client_(target.origin) {
    client_.set_connection_timeout(target.answer_within);
    client_.set_read_timeout(target.answer_within);
    client_.set_write_timeout(target.answer_within);
    client_.set_tcp_nodelay(true);
  }

  bool usable() const { return client_.is_valid(); }

  std::optional<Json> Ask(const Json& request) {
    const httplib::Result result = Post(request);
    if (!result) {
      checks_.push_back(NoConnection(result.error()));
      return std::nullopt;
    }
    const bool is_stream =
        result->get_header_value("Content-Type").starts_with("text/event-stream");
    auto answer = FindAnswer(result->body, is_stream, request["id"]);
    if (!answer || result->status != 200) {
      checks_.push_back(WrongAnswer(request, *result));
      return std::nullopt;
    }
    if (request["method"] == "initialize") {
      session_ = result->get_header_value("Mcp-Session-Id");
      if (const auto found = answer->find("result"); found != answer->end() && found->is_object()) {
        version_ = found->value("protocolVersion", "");
      }
    }
    return answer;
  }

  void Tell(const Json& notification) { static_cast<void>(Post(notification)); }

  // Gives the session back, where the server has made one.
  void End() {
    if (!session_.empty()) client_.Delete(target_.path, Headers(Json::object()));
  }

 private:
  httplib::Headers Headers(const Json& message) const {
    httplib::Headers headers = {{"Accept", "application/json, text/event-stream"}};
    if (!target_.token.empty()) headers.emplace("Authorization", "Bearer " + target_.token);
    const Json params = message.value("params", Json::object());
    if (params.contains("_meta")) {
      headers.emplace("MCP-Protocol-Version",
                      params["_meta"].value("io.modelcontextprotocol/protocolVersion", ""));
      headers.emplace("Mcp-Method", message.value("method", ""));
      return headers;
    }
    if (!session_.empty()) headers.emplace("Mcp-Session-Id", session_);
    if (!version_.empty()) headers.emplace("MCP-Protocol-Version", version_);
    return headers;
  }

  httplib::Result Post(const Json& message) {
    return client_.Post(target_.path, Headers(message), DumpJson(message), "application/json");
  }

  Check NoConnection(httplib::Error error) const {
    const std::string where = target_.origin + target_.path;
    if (error == httplib::Error::Read || error == httplib::Error::Write ||
        error == httplib::Error::ConnectionTimeout) {
      return {CheckStatus::kFailed, "connection",
              where + " gave no answer within " + std::to_string(target_.answer_within.count()) +
                  " s, or none that is HTTP (" + httplib::to_string(error) + ").",
              "Is it mpnanny that listens there? Does the tunnel still stand?"};
    }
    return {CheckStatus::kFailed, "connection",
            "Nothing listens at " + where + " (" + httplib::to_string(error) + ").",
            "Start `mpnanny serve --http`; through a tunnel, `ssh -N -L` must run on this machine "
            "(`mpnanny config` prints both lines)."};
  }

  Check WrongAnswer(const Json& request, const httplib::Response& response) const {
    const std::string said = "HTTP " + std::to_string(response.status) + " to " +
                             request.value("method", "") + ": " + EscapeControl(response.body, 300);
    switch (response.status) {
      case 401:
        return {CheckStatus::kFailed, "token",
                target_.token.empty() ? "The server asks for a token (" + said + ")."
                                      : "The server does not know this token (" + said + ").",
                "Pass --token-file with the file that the server was started with."};
      case 403:
        return {CheckStatus::kFailed, "host",
                "The server does not serve under this name (" + said + ").",
                "Use 127.0.0.1 or the name that the server was told."};
      case 404:
      case 405:
        return {CheckStatus::kFailed, "path",
                "There is no MCP server at " + target_.path + " (" + said + ").",
                "mpnanny answers at /mcp."};
      default:
        return {CheckStatus::kFailed, "answer", "No answer of an MCP server: " + said + ".",
                "Does the port belong to another program?"};
    }
  }

  const HttpTarget& target_;
  Checks& checks_;
  httplib::Client client_;
  std::string session_;
  std::string version_;
};

}  // namespace

Checks CheckHttp(const HttpTarget& target) {
  Checks checks;
  HttpTalk talk(target, checks);
  if (!talk.usable()) {
    checks.push_back({CheckStatus::kFailed, "connection",
                      target.origin + " cannot be asked: this build has no TLS.",
                      "Run it where the server listens in the clear, on http://127.0.0.1."});
    return checks;
  }
  const Wire wire{[&](const Json& request) { return talk.Ask(request); },
                  [&](const Json& notification) { talk.Tell(notification); }};
  Converse(wire, checks);
  talk.End();
  return checks;
}

}  // namespace mpnanny
