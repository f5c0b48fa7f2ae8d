// libFuzzer on everything that reads a client's bytes: messages in both eras, and the small readers
// beside them.
//
// The first byte of an input says what the rest is (kinds below; make_seeds.py writes such inputs).
// One dispatcher serves all inputs on this thread: every method is made to run on the reader, so no
// input waits for another. What must hold: a request is answered at most once and under its id,
// every message out is valid JSON-RPC, nothing is an internal error, nothing is sent to a client
// that is gone, and the dispatcher still answers afterwards.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/run_handle.h"
#include "base/text.h"
#include "server/dispatch/dispatcher.h"
#include "server/dispatch/request_state.h"
#include "server/http/request_head.h"
#include "server/methods/methods.h"
#include "server/methods/paging.h"
#include "server/methods/resource_uri.h"
#include "server/protocol/error_codes.h"
#include "server/transport/http/access_rules.h"
#include "server/transport/http/header_rules.h"
#include "server/transport/http/sse.h"
#include "tests/fuzz/registry.h"

namespace mpnanny::fuzz {
namespace {

void Fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "FUZZ: %s: %s\n", what, EscapeControl(detail, 4000).c_str());
  std::abort();
}

void Require(bool holds, const char* what, const std::string& detail) {
  if (!holds) Fail(what, detail);
}

// What went out for one input.
class CheckingSink : public MessageSink {
 public:
  void Send(const Json& message) override {
    const std::string text = DumpJson(message);
    Require(!gone, "sent to a client that is gone", text);
    Require(text.find('\n') == std::string::npos, "a line break inside a message", text);
    const auto back = ParseJson(text, kMaxJsonDepth + 16, DuplicateKeys::kRefuse);
    Require(back.has_value(), "not JSON", text);
    Require(*back == message, "changed by writing and reading", text);
    if (!message.is_array()) return Check(message, text);
    Require(!message.empty(), "an empty batch", text);
    for (const Json& each : message) Check(each, text);
  }

  bool gone = false;
  std::map<std::string, int> answers;  // by id

 private:
  void Check(const Json& message, const std::string& text) {
    Require(message.is_object() && message.value("jsonrpc", "") == "2.0", "no JSON-RPC", text);
    if (message.contains("method")) {
      Require(message["method"].is_string() && !message.contains("result"), "half a request", text);
      return;
    }
    Require(message.contains("id"), "an answer without id", text);
    Require(message.contains("result") != message.contains("error"), "result or error", text);
    ++answers[DumpJson(message["id"])];
    if (message.contains("result")) {
      Require(message["result"].is_object(), "a result that is no object", text);
      Require(!message["id"].is_null(), "a result for nobody", text);
      return;
    }
    const Json& error = message["error"];
    Require(error.contains("code") && error["code"].is_number_integer(), "no code", text);
    Require(error.contains("message") && error["message"].is_string(), "no message", text);
    switch (error["code"].get<int>()) {
      case kParseError:
      case kInvalidRequest:
      case kMethodNotFound:
      case kInvalidParams:
      case kResourceNotFound:
      case kMissingClientCapability:
      case kUnsupportedProtocolVersion:
        return;
      default:
        Fail("a code that nobody expects", text);
    }
  }
};

Json Initialize(std::string_view revision) {
  return {{"jsonrpc", "2.0"},
          {"id", "init"},
          {"method", "initialize"},
          {"params",
           {{"protocolVersion", revision},
            {"capabilities", {{"elicitation", Json::object()}, {"roots", Json::object()}}}}}};
}

class Server {
 public:
  Server() : dispatcher_(Methods(), registry_.server_info) {}

  // Lines from a client that has agreed on `revision` before; empty: on nothing.
  void Serve(std::string_view revision, std::string_view lines) {
    const auto sink = std::make_shared<CheckingSink>();
    const auto connection = std::make_shared<Connection>(sink);
    std::map<std::string, int> most;  // answers that may come, by id
    if (!revision.empty()) {
      dispatcher_.Handle(DumpJson(Initialize(revision)), connection, sink);
      ++most["\"init\""];
    }
    while (!lines.empty()) {
      const size_t end = lines.find('\n');
      const std::string_view line = lines.substr(0, end);
      lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
      Count(line, most);
      dispatcher_.Handle(line, connection, sink);
    }
    dispatcher_.notices().ToolsChanged();
    dispatcher_.notices().ResourceUpdated("fuzz://item/a");
    for (const auto& [id, count] : sink->answers) {
      Require(count <= most[id], "answered more often than asked", id);
    }
    dispatcher_.Disconnect(connection);
    sink->gone = true;
    dispatcher_.notices().PromptsChanged();
    if (++served_ % 256 == 0) StillAnswers();
  }

 private:
  MethodTable Methods() {
    MethodTable methods = MakeMethodTable(registry_);
    for (auto& [name, method] : methods) method.runs_on = RunsOn::kReader;
    return methods;
  }

  // A request may have one answer under its id, anything else one error, with a null id or its own.
  static void Count(std::string_view line, std::map<std::string, int>& most) {
    auto json = ParseJson(line, kMaxJsonDepth, DuplicateKeys::kRefuse);
    std::vector<Json> messages;
    if (json && json->is_array()) messages.assign(json->begin(), json->end());
    if (json && !json->is_array()) messages.push_back(*json);
    ++most["null"];
    for (Json& each : messages) {
      const Message message = ClassifyMessage(std::move(each));
      if (const auto* request = std::get_if<RequestMessage>(&message)) ++most[request->id.Key()];
      if (const auto* invalid = std::get_if<InvalidMessage>(&message)) {
        ++most[invalid->id ? invalid->id->Key() : "null"];
      }
    }
  }

  void StillAnswers() {
    const auto sink = std::make_shared<CheckingSink>();
    dispatcher_.Handle(R"({"jsonrpc":"2.0","id":1,"method":"ping"})",
                       std::make_shared<Connection>(), sink);
    Require(sink->answers["1"] == 1, "no answer any more", "ping");
  }

  const Registry registry_ = CheapRegistry();
  Dispatcher dispatcher_;
  uint64_t served_ = 0;
};

// Headers, one a line, then a blank line and the body.
void FuzzHeaders(std::string_view text) {
  static const MirroredArguments kMirrored = {
      {"echo", {{{"text"}, "Mcp-Param-Text"}, {{"deep", "number"}, "Mcp-Param-Number"}}}};
  std::map<std::string, std::string> headers;
  while (!text.empty() && text.front() != '\n') {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    headers[std::string(line.substr(0, colon))] = line.substr(colon + 1);
  }
  const HeaderLookup lookup = [&](const std::string& name) -> std::optional<std::string_view> {
    const auto found = headers.find(name);
    if (found == headers.end()) return std::nullopt;
    return found->second;
  };
  for (const auto& [name, value] : headers) {
    DecodeHeaderValue(value);
    Accepts(value, "application/json");
    HostWithoutPort(value);
  }
  static const AccessRules kRules({.bound_host = "127.0.0.1", .token = "secret"});
  const auto refused =
      kRules.Check(lookup("Host"), lookup("Origin"), lookup("Authorization"), "127.0.0.1");
  Require(refused || headers["Authorization"].ends_with("secret"), "let in without the token",
          headers["Authorization"]);
  const auto json = ParseJson(text);
  if (!json) return;
  FindMirroredArguments(*json);
  const bool modern = IsModernPost(*json, lookup(kVersionHeader));
  if (!modern || !json->is_object() || !json->contains("id") || !json->contains("method") ||
      !(*json)["method"].is_string()) {
    return;
  }
  if (CheckModernRequest(*json, lookup, kMirrored)) return;
  Require(headers[kMethodHeader] == (*json)["method"].get<std::string>(), "the method differs",
          DumpJson(*json));
  if ((*json)["method"] != "tools/call" || !(*json)["params"].contains("name")) return;
  const Json& name = (*json)["params"]["name"];
  Require(!name.is_string() || DecodeHeaderValue(headers[kNameHeader]) == name.get<std::string>(),
          "the name differs", DumpJson(*json));
}

void FuzzEventId(std::string_view text) {
  const auto id = ParseEventId(text);
  if (id)
    Require(ParseEventId(EventIdText(*id)) == id, "an id that does not come back",
            EventIdText(*id));
}

void FuzzState(const std::string& text) {
  static const RequestStateSeal kSeal;
  const Json params = {{"name", "ask"}, {"arguments", {{"a", 1}}}};
  Require(!kSeal.Open(text, "tools/call", params), "a forged state is taken", text);
  const std::string state = EscapeControl(text, 200);
  const std::string sealed = kSeal.Seal(state, "tools/call", params);
  Require(kSeal.Open(sealed, "tools/call", params) == Json(state), "a state is lost", state);
  if (text.empty()) return;
  std::string damaged = sealed;
  damaged[static_cast<unsigned char>(text[0]) % damaged.size()] ^= 1;
  Require(!kSeal.Open(damaged, "tools/call", params), "a damaged state is taken", damaged);
  Require(!kSeal.Open(sealed, "prompts/get", params), "a state of another method", state);
}

void FuzzUri(const std::string& text) {
  ResourceTemplate family;
  for (const char* uri : {"fuzz://item/{item}", "fuzz://run/{item}/summary", "{item}"}) {
    family.uri_template = uri;
    family.variable = "item";
    MatchResourceUri(family, text);
    if (text.empty()) continue;
    Require(MatchResourceUri(family, ResourceUri(family, text)) == text, "a value is lost", text);
  }
  const RunHandle handle = ParseRunHandle(text);
  const RunHandle again = ParseRunHandle(FormatRunHandle(handle));
  Require(FormatRunHandle(again) == FormatRunHandle(handle), "a run handle changes", text);
}

void FuzzCursor(const std::string& text) {
  static const Json kItems = Json::array_t(450, 1);
  const auto page = Page("tools", kItems, {{"cursor", text}});
  if (const Json* body = std::get_if<Json>(&page)) {
    Require(text == "tools:200" || text == "tools:400", "a cursor nobody gave", text);
    Require(!(*body)["tools"].empty(), "an empty page", text);
  }
}

void Run(std::string_view input) {
  static Server& server = *new Server;
  if (input.empty()) return;
  const std::string_view rest = input.substr(1);
  switch (input.front()) {
    case '1':
      return server.Serve("2024-11-05", rest);
    case '2':
      return server.Serve("2025-03-26", rest);
    case '3':
      return server.Serve("2025-06-18", rest);
    case '4':
      return server.Serve("2025-11-25", rest);
    case 'h':
      return FuzzHeaders(rest);
    case 'e':
      return FuzzEventId(rest);
    case 's':
      return FuzzState(std::string(rest));
    case 'u':
      return FuzzUri(std::string(rest));
    case 'c':
      return FuzzCursor(std::string(rest));
    default:
      return server.Serve("", rest);
  }
}

}  // namespace
}  // namespace mpnanny::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mpnanny::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
