// libFuzzer on the message parser alone, which takes ten times as many inputs in the same time as
// the whole dispatcher (message_fuzzer.cc): text → JSON → kind of message → envelope, and back.
//
// What must hold: what was read can be written and reads the same again, nested or not; every
// message is of one kind; an invalid one has an error to answer with.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "server/protocol/jsonrpc.h"
#include "server/protocol/versions.h"
#include "server/transport/http/header_rules.h"

namespace mpnanny::fuzz {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FUZZ: %s\n", what);
  std::abort();
}

template <typename Envelope>
void ExpectErrorOrEnvelope(const Envelope& envelope) {
  if (const auto* error = std::get_if<WireError>(&envelope)) {
    Require(error->code != 0 && !error->message.empty(), "an error that says nothing");
  }
}

void Classify(Json json) {
  const bool had_id = json.is_object() && json.contains("id");
  const Message message = ClassifyMessage(std::move(json));
  if (const auto* request = std::get_if<RequestMessage>(&message)) {
    Require(had_id && request->params.is_object(), "half a request");
    const Json answer = ResultResponse(request->id, Json::object());
    Require(answer["id"] == request->id.json(), "another id");
    if (IsModernRequest(request->method, request->params)) {
      ExpectErrorOrEnvelope(ReadModernEnvelope(request->params));
    }
    ExpectErrorOrEnvelope(ReadLegacyEnvelope(request->params, Envelope()));
  } else if (const auto* invalid = std::get_if<InvalidMessage>(&message)) {
    Require(invalid->error.code != 0 && !invalid->error.message.empty(), "nothing to answer with");
    const auto back = ParseJson(DumpJson(ErrorResponse(invalid->id, invalid->error)));
    Require(back.has_value(), "an error response that is no JSON");
  }
}

}  // namespace
}  // namespace mpnanny::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mpnanny;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(DecodeHeaderValue(text));
  auto json = ParseJson(text, kMaxJsonDepth, DuplicateKeys::kRefuse);
  if (!json) {
    fuzz::Require(!json.error().Text().empty(), "a refusal without a reason");
    return 0;
  }
  const auto again = ParseJson(DumpJson(*json), kMaxJsonDepth, DuplicateKeys::kRefuse);
  fuzz::Require(again && *again == *json, "changed by writing and reading");
  if (json->is_array()) {
    for (Json& each : *json) fuzz::Classify(each);
  } else {
    fuzz::Classify(*std::move(json));
  }
  return 0;
}
