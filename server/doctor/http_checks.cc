#include "server/doctor/http_checks.h"

#include <httplib.h>

#include <chrono>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "server/doctor/conversation.h"
#include "server/protocol/versions.h"

namespace mpnanny {
namespace {

constexpr size_t kMostBodyBytes = 16u << 20;

std::optional<Json> AnswerIn(std::string_view text, const Json& id) {
  auto message = ParseJson(text);
  if (!message || !message->is_object() || message->value("id", Json()) != id) return std::nullopt;
  return *std::move(message);
}

// What a server replies, taken piece by piece: a body that is the answer, or a stream of events one
// of which is. Nothing more is read once the answer is there, nor more than a limit.
class Reply {
 public:
  explicit Reply(const Json& id) : id_(id) {}

  void TakeHead(const httplib::Response& head) {
    status = head.status;
    session = head.get_header_value("Mcp-Session-Id");
    is_stream_ = head.get_header_value("Content-Type").starts_with("text/event-stream");
  }

  // False: enough.
  bool TakeBody(std::string_view bytes) {
    body.append(bytes.substr(0, kMostBodyBytes - body.size()));
    if (is_stream_) TakeLines();
    return !answer && body.size() < kMostBodyBytes;
  }

  void End() {
    if (answer) return;
    answer = AnswerIn(is_stream_ ? data_ : body, id_);
  }

  int status = 0;  // 0: no reply has begun
  std::string session;
  std::string body;
  std::optional<Json> answer;

 private:
  void TakeLines() {
    for (size_t end; !answer && (end = body.find('\n', searched_)) != std::string::npos;) {
      std::string_view line(body.data() + line_, end - line_);
      if (line.ends_with('\r')) line.remove_suffix(1);
      line_ = searched_ = end + 1;
      if (line.starts_with("data:")) {
        if (!data_.empty()) data_ += '\n';
        data_ += line.substr(line.starts_with("data: ") ? 6 : 5);
      } else if (line.empty()) {
        answer = AnswerIn(data_, id_);
        data_.clear();
      }
    }
    searched_ = body.size();
  }

  const Json& id_;
  bool is_stream_ = false;
  std::string data_;     // of the event that has not ended
  size_t line_ = 0;      // where the line begins that has not ended
  size_t searched_ = 0;  // up to where there is no newline in it
};

class HttpTalk {
 public:
  HttpTalk(const HttpTarget& target, Checks& checks)
      : target_(target), checks_(checks), client_(target.origin) {
    client_.set_connection_timeout(target.answer_within);
    client_.set_read_timeout(target.answer_within);
    client_.set_write_timeout(target.answer_within);
    // Of a whole request: a server that says a little now and then is not waited for without end.
    client_.set_max_timeout(target.answer_within);
    client_.set_tcp_nodelay(true);
  }

  std::optional<Json> Ask(const Json& request) {
    const Json id = request["id"];
    Reply reply(id);
    const httplib::Error error = Post(request, reply);
    if (reply.status == 0) {
      checks_.push_back(NoConnection(error));
      return std::nullopt;
    }
    if (!reply.answer || reply.status != 200) {
      checks_.push_back(WrongAnswer(request, reply, error));
      return std::nullopt;
    }
    if (request["method"] == "initialize") {
      session_ = reply.session;
      const auto result = reply.answer->find("result");
      if (result != reply.answer->end() && result->is_object()) {
        const Json version = result->value("protocolVersion", Json());
        if (version.is_string()) version_ = version.get<std::string>();
      }
    }
    return std::move(reply.answer);
  }

  void Tell(const Json& notification) {
    const Json none;
    Reply reply(none);
    Post(notification, reply);
  }

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
      headers.emplace("MCP-Protocol-Version", params["_meta"].value(kMetaVersionKey, ""));
      headers.emplace("Mcp-Method", message.value("method", ""));
      return headers;
    }
    if (!session_.empty()) headers.emplace("Mcp-Session-Id", session_);
    if (!version_.empty()) headers.emplace("MCP-Protocol-Version", version_);
    return headers;
  }

  httplib::Error Post(const Json& message, Reply& reply) {
    httplib::Request request;
    request.method = "POST";
    request.path = target_.path;
    request.headers = Headers(message);
    request.headers.emplace("Content-Type", "application/json");
    request.body = DumpJson(message);
    // Which the client sets for its own requests only; the limit of the whole counts from it.
    request.start_time_ = std::chrono::steady_clock::now();
    const auto until = request.start_time_ + target_.answer_within;
    request.response_handler = [&](const httplib::Response& head) {
      reply.TakeHead(head);
      return message.contains("id");  // else its status is all that there is to know
    };
    request.content_receiver = [&](const char* bytes, size_t count, size_t, size_t) {
      return reply.TakeBody({bytes, count}) && std::chrono::steady_clock::now() < until;
    };
    const httplib::Result result = client_.send(request);
    reply.End();
    return result.error();
  }

  Check NoConnection(httplib::Error error) const {
    const std::string where = target_.origin + target_.path;
    if (error != httplib::Error::Connection) {
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

  Check WrongAnswer(const Json& request, const Reply& reply, httplib::Error error) const {
    const std::string said = "HTTP " + std::to_string(reply.status) + " to " +
                             request.value("method", "") + ": " + EscapeControl(reply.body, 300);
    switch (reply.status) {
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
        if (reply.status == 200 && error != httplib::Error::Success) {
          return {CheckStatus::kFailed, "answer",
                  "No answer of an MCP server within " +
                      std::to_string(target_.answer_within.count()) + " s and " +
                      std::to_string(kMostBodyBytes >> 20) + " MiB: " + said + ".",
                  "Does the port belong to another program?"};
        }
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
  if (!target.origin.starts_with("http://")) {
    checks.push_back({CheckStatus::kFailed, "connection",
                      target.origin + " cannot be asked: doctor speaks no TLS.",
                      "Ask what lies behind the proxy or the tunnel instead, as "
                      "http://127.0.0.1:PORT/mcp on the server's machine."});
    return checks;
  }
  HttpTalk talk(target, checks);
  const Wire wire{[&](const Json& request) { return talk.Ask(request); },
                  [&](const Json& notification) { talk.Tell(notification); }};
  Converse(wire, checks);
  talk.End();
  return checks;
}

}  // namespace mpnanny
