#include "server/http/request_head.h"

#include <charconv>
#include <utility>

#include "base/text.h"
#include "server/protocol/error_codes.h"
#include "server/transport/http/header_rules.h"

namespace mpnanny {
namespace {

constexpr char kAllMethods[] = "GET, POST, DELETE";

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// "text/html; q=1" -> "text/html".
std::string_view WithoutParameters(std::string_view type) {
  return Trim(type.substr(0, type.find(';')));
}

HttpReply Refusal(int status, std::string why) {
  HttpReply reply = ErrorReply(status, {kInvalidRequest, std::move(why), nullptr});
  reply.close = true;
  return reply;
}

// What is decided by a header must be what everybody else on the way has read there.
std::optional<HttpReply> CheckRepeated(const HttpExchange& exchange) {
  for (const char* name : {"Host", "Origin", "Authorization", "Content-Type", "Content-Length",
                           "Mcp-Session-Id", "Last-Event-ID"}) {
    if (exchange.HeaderCount(name) > 1) {
      return Refusal(400, std::string("The header ") + name + " stands twice.");
    }
  }
  for (const std::string& name : {kVersionHeader, kMethodHeader, kNameHeader}) {
    if (exchange.HeaderCount(name) < 2) continue;
    HttpReply reply =
        ErrorReply(400, {kHeaderMismatch, "The header " + name + " stands twice.", nullptr});
    reply.close = true;
    return reply;
  }
  return std::nullopt;
}

std::optional<HttpReply> CheckBody(const HttpExchange& exchange, size_t most) {
  // Bodies in chunks: some versions of the library compute their sizes wrongly, and no MCP client
  // needs them.
  const auto length = exchange.Header("Content-Length");
  if (exchange.Header("Transfer-Encoding") || !length) {
    return Refusal(411, "Send the body whole, with Content-Length.");
  }
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(length->data(), length->data() + length->size(), bytes);
  if (end != length->data() + length->size() || error == std::errc::invalid_argument) {
    return Refusal(400, "Content-Length is no number.");
  }
  if (error != std::errc() || bytes > most) {
    return Refusal(
        413, "The body is longer than " + std::to_string(most) + " bytes. Send less at once.");
  }
  if (exchange.Header("Content-Encoding")) return Refusal(415, "Send the body uncompressed.");
  if (LowerCase(WithoutParameters(exchange.Header("Content-Type").value_or(""))) !=
      "application/json") {
    return Refusal(415, "Content-Type must be application/json.");
  }
  return std::nullopt;
}

}  // namespace

bool Accepts(std::optional<std::string_view> accept, std::string_view type) {
  if (!accept || Trim(*accept).empty()) return true;
  const std::string any_minor = std::string(type.substr(0, type.find('/'))) + "/*";
  for (std::string_view rest = *accept;;) {
    const size_t comma = rest.find(',');
    const std::string range = LowerCase(WithoutParameters(rest.substr(0, comma)));
    if (range == "*/*" || range == type || range == any_minor) return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
}

HttpReply ErrorReply(int status, const WireError& error, const std::optional<RequestId>& id) {
  return {.status = status,
          .body = DumpJson(ErrorResponse(id, error)),
          .content_type = "application/json"};
}

HttpReply WrongMethod(std::string allowed) {
  HttpReply reply = ErrorReply(
      405, {kInvalidRequest, "This method needs a session, or does not exist here.", nullptr});
  reply.headers.emplace_back("Allow", std::move(allowed));
  return reply;
}

HttpReply Busy(std::string why) {
  HttpReply reply = ErrorReply(503, {kInternalError, std::move(why), nullptr});
  reply.headers.emplace_back("Retry-After", "5");
  reply.close = true;
  return reply;
}

std::optional<HttpReply> CheckBrowser(HttpExchange& exchange, const AccessRules& access) {
  const auto origin = exchange.Header("Origin");
  if (!access.IsAllowedOrigin(origin) ||
      access.CheckNames(exchange.Header("Host"), origin, exchange.local_address())) {
    return std::nullopt;
  }
  exchange.AddHeader("Access-Control-Allow-Origin", std::string(*origin));
  exchange.AddHeader("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate");
  exchange.AddHeader("Vary", "Origin");
  if (exchange.method() != "OPTIONS") return std::nullopt;
  HttpReply reply{.status = 204};
  reply.headers.emplace_back("Access-Control-Allow-Methods", kAllMethods);
  // By name: with credentials "*" stands for nothing.
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             std::string(exchange.Header("Access-Control-Request-Headers")
                                             .value_or("Content-Type, Authorization")));
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

std::optional<HttpReply> CheckRequestHead(const HttpExchange& exchange, const AccessRules& access,
                                          std::string_view path, size_t most_body_bytes) {
  if (exchange.surplus()) return Busy("Too many connections are open. Try again later.");
  if (!exchange.Header("Host")) return Refusal(400, "The header Host is missing.");
  if (auto refused = CheckRepeated(exchange)) return refused;
  if (const auto refused =
          access.Check(exchange.Header("Host"), exchange.Header("Origin"),
                       exchange.Header("Authorization"), exchange.local_address())) {
    HttpReply reply = Refusal(refused->status, refused->why);
    if (refused->status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (exchange.path() != path) {
    return Refusal(404, "There is nothing here. The MCP endpoint is " + std::string(path) + ".");
  }
  const std::string& method = exchange.method();
  if (method != "GET" && method != "POST" && method != "DELETE") {
    HttpReply reply = WrongMethod(kAllMethods);
    reply.close = true;
    return reply;
  }
  const auto accept = exchange.Header("Accept");
  if (method != "DELETE" && !Accepts(accept, "text/event-stream")) {
    return Refusal(406, "Accept must admit text/event-stream.");
  }
  if (method != "POST") return std::nullopt;
  if (!Accepts(accept, "application/json")) {
    return Refusal(406, "Accept must admit application/json.");
  }
  return CheckBody(exchange, most_body_bytes);
}

}  // namespace mpnanny
