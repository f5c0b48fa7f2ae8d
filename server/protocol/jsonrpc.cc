#include "server/protocol/jsonrpc.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

InvalidMessage Invalid(std::optional<RequestId> id, std::string why, int code = kInvalidRequest) {
  return {std::move(id), {code, std::move(why), nullptr}};
}

ResponseMessage ReadResponse(std::optional<RequestId> id, Json json) {
  ResponseMessage response{std::move(id)};
  const auto error = json.find("error");
  if (error == json.end()) {
    response.result = std::move(json["result"]);
    return response;
  }
  response.error = WireError{kInternalError, "(no message)", nullptr};
  if (!error->is_object()) return response;
  if (const auto code = error->find("code"); code != error->end() && code->is_number_integer()) {
    response.error->code = code->get<int>();
  }
  if (const auto text = error->find("message"); text != error->end() && text->is_string()) {
    response.error->message = text->get<std::string>();
  }
  return response;
}

}  // namespace

std::optional<RequestId> RequestId::FromJson(const Json& json) {
  if (json.is_number_integer()) return RequestId(json);
  if (json.is_string()) {
    if (json.get_ref<const std::string&>().size() > kMaxTokenBytes) return std::nullopt;
    return RequestId(json);
  }
  // 7.0 is an integer to JSON Schema, and what some languages write. Beyond 2^53 a double is not
  // the number that was meant.
  constexpr double kExact = 9007199254740992.0;
  if (!json.is_number_float()) return std::nullopt;
  const double number = json.get<double>();
  if (!(std::fabs(number) <= kExact) || number != std::floor(number)) return std::nullopt;
  return RequestId(static_cast<int64_t>(number));
}

bool IsJsonRpcRequest(const Json& json) {
  if (!json.is_object()) return false;
  const auto version = json.find("jsonrpc");
  const auto method = json.find("method");
  const auto id = json.find("id");
  return version != json.end() && *version == "2.0" && method != json.end() &&
         method->is_string() && id != json.end() && RequestId::FromJson(*id);
}

Message ClassifyMessage(Json json) {
  if (!json.is_object())
    return Invalid(std::nullopt, "Not a JSON-RPC message: it must be an object.");

  const bool has_id = json.contains("id");
  std::optional<RequestId> id;
  if (has_id) id = RequestId::FromJson(json["id"]);

  const auto version = json.find("jsonrpc");
  if (version == json.end() || *version != "2.0") {
    return Invalid(id, "Not a JSON-RPC 2.0 message: \"jsonrpc\" must be \"2.0\".");
  }
  const auto method = json.find("method");
  if (method == json.end()) {
    // An error answer may have a null id or none.
    if ((has_id && json.contains("result")) || json.contains("error")) {
      return ReadResponse(std::move(id), std::move(json));
    }
    return Invalid(
        id, "Not a JSON-RPC message: it has neither \"method\" nor \"result\" nor \"error\".");
  }
  if (!method->is_string()) return Invalid(id, "\"method\" must be a string.");
  if (has_id && !id) {
    return Invalid(std::nullopt, "\"id\" must be an integer or a string of at most " +
                                     std::to_string(kMaxTokenBytes) + " bytes.");
  }

  Json params = Json::object();
  if (const auto given = json.find("params"); given != json.end() && !given->is_null()) {
    if (given->is_array()) {
      if (!id) return NotificationMessage{method->get<std::string>(), std::move(params)};
      return Invalid(id, "\"params\" must be an object: MCP passes every parameter by name.",
                     kInvalidParams);
    }
    if (!given->is_object()) return Invalid(id, "\"params\" must be an object.");
    params = std::move(*given);
  }
  if (!id) return NotificationMessage{method->get<std::string>(), std::move(params)};
  return RequestMessage{*std::move(id), method->get<std::string>(), std::move(params)};
}

Json ResultResponse(const RequestId& id, Json result) {
  return {{"jsonrpc", "2.0"}, {"id", id.json()}, {"result", std::move(result)}};
}

Json ErrorResponse(const std::optional<RequestId>& id, const WireError& error) {
  Json body = {{"code", error.code}, {"message", error.message}};
  if (!error.data.is_null()) body["data"] = error.data;
  return {{"jsonrpc", "2.0"}, {"id", id ? id->json() : Json(nullptr)}, {"error", std::move(body)}};
}

Json Notification(std::string method, Json params) {
  return {{"jsonrpc", "2.0"}, {"method", std::move(method)}, {"params", std::move(params)}};
}

Json MakeRequest(const std::string& id, const std::string& method, Json params) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

}  // namespace mpnanny
