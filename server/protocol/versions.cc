#include "server/protocol/versions.h"

#include <array>
#include <string>
#include <utility>

#include "base/text.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

constexpr std::array<std::string_view, 5> kRevisionNames = {
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"};

constexpr char kMetaLogLevelKey[] = "io.modelcontextprotocol/logLevel";

WireError BadMeta(const std::string& what) { return {kInvalidParams, what, nullptr}; }

// The _meta object, or null when there is none.
const Json* Meta(const Json& params) {
  const auto meta = params.find("_meta");
  return meta == params.end() ? nullptr : &*meta;
}

std::variant<Json, WireError> ProgressToken(const Json& meta) {
  const auto token = meta.find("progressToken");
  if (token == meta.end()) return Json(nullptr);
  if (!token->is_string() && !token->is_number_integer()) {
    return BadMeta("_meta.progressToken must be a string or an integer.");
  }
  if (token->is_string() && token->get_ref<const std::string&>().size() > kMaxTokenBytes) {
    return BadMeta("_meta.progressToken is longer than " + std::to_string(kMaxTokenBytes) +
                   " bytes.");
  }
  return *token;
}

}  // namespace

std::string_view RevisionName(Revision revision) {
  return kRevisionNames[static_cast<size_t>(revision)];
}

Revision NegotiateLegacy(std::string_view asked) {
  for (size_t i = 0; i <= static_cast<size_t>(kNewestLegacy); ++i) {
    if (kRevisionNames[i] == asked) return static_cast<Revision>(i);
  }
  return kNewestLegacy;
}

Json SupportedModernRevisions() { return Json::array({RevisionName(Revision::k2026_07_28)}); }

bool IsModernRequest(std::string_view method, const Json& params) {
  if (method == "server/discover" || method == "subscriptions/listen") return true;
  const Json* meta = Meta(params);
  if (!meta || !meta->is_object()) return false;
  for (const char* key :
       {kMetaVersionKey, kMetaCapabilitiesKey, kMetaClientInfoKey, kMetaLogLevelKey}) {
    if (meta->contains(key)) return true;
  }
  return false;
}

std::variant<Envelope, WireError> ReadModernEnvelope(const Json& params) {
  const Json* meta = Meta(params);
  if (!meta)
    return BadMeta("params._meta is missing; it must hold " + std::string(kMetaVersionKey) + ".");
  if (!meta->is_object()) return BadMeta("params._meta must be an object.");
  const auto version = meta->find(kMetaVersionKey);
  if (version == meta->end() || !version->is_string()) {
    return BadMeta(std::string("params._meta must hold the string ") + kMetaVersionKey + ".");
  }
  const std::string asked = version->get<std::string>();
  if (asked != RevisionName(Revision::k2026_07_28)) {
    return WireError{
        kUnsupportedProtocolVersion,
        "Protocol version '" + EscapeControl(asked, 100) + "' is not supported in _meta.",
        {{"supported", SupportedModernRevisions()}, {"requested", asked}}};
  }
  const auto capabilities = meta->find(kMetaCapabilitiesKey);
  if (capabilities == meta->end() || !capabilities->is_object()) {
    return BadMeta(std::string("params._meta must hold the object ") + kMetaCapabilitiesKey + ".");
  }
  if (const auto info = meta->find(kMetaClientInfoKey); info != meta->end() && !info->is_object()) {
    return BadMeta(std::string("params._meta: ") + kMetaClientInfoKey + " must be an object.");
  }
  std::optional<LogLevel> log_level;
  if (const auto level = meta->find(kMetaLogLevelKey); level != meta->end()) {
    if (level->is_string()) log_level = LogLevelFromName(level->get_ref<const std::string&>());
    if (!log_level) {
      return BadMeta(std::string("params._meta: ") + kMetaLogLevelKey + " must be one of " +
                     LogLevelNames() + ".");
    }
  }
  auto token = ProgressToken(*meta);
  if (auto* error = std::get_if<WireError>(&token)) return std::move(*error);
  return Envelope{Revision::k2026_07_28, *capabilities, std::get<Json>(std::move(token)),
                  log_level};
}

std::variant<Envelope, WireError> ReadLegacyEnvelope(const Json& params, Envelope agreed) {
  const Json* meta = Meta(params);
  if (!meta || meta->is_null()) return agreed;
  if (!meta->is_object()) return BadMeta("params._meta must be an object.");
  auto token = ProgressToken(*meta);
  if (auto* error = std::get_if<WireError>(&token)) return std::move(*error);
  agreed.progress_token = std::get<Json>(std::move(token));
  return agreed;
}

}  // namespace mpnanny
