// server/discover for modern clients; initialize and ping for legacy ones.
#include <string>

#include "server/methods/methods.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

// What we are and offer does not change while the process runs.
constexpr int64_t kDiscoverTtlMs = 300'000;

// Advertised is what works: a family that nobody registered is not named.
Json Capabilities(const Registry& registry) {
  const ServedFeatures& features = registry.features;
  const Json list = features.list_changes ? Json{{"listChanged", true}} : Json::object();
  Json capabilities = Json::object();
  if (!registry.tools.empty()) capabilities["tools"] = list;
  if (registry.has_resources()) {
    capabilities["resources"] = list;
    if (features.subscriptions) capabilities["resources"]["subscribe"] = true;
  }
  if (registry.prompts) capabilities["prompts"] = list;
  if (features.logging) capabilities["logging"] = Json::object();
  if (!registry.resources.empty() || registry.prompts) capabilities["completions"] = Json::object();
  return capabilities;
}

Outcome Discover(const Registry& registry) {
  Json body = {{"supportedVersions", SupportedModernRevisions()},
               {"capabilities", Capabilities(registry)}};
  if (!registry.instructions.empty()) body["instructions"] = registry.instructions;
  return MethodResult{std::move(body), CacheHint{kDiscoverTtlMs, true}};
}

Outcome Initialize(const Registry& registry, const Json& params, const RequestContext& context) {
  const auto version = params.find("protocolVersion");
  if (version == params.end() || !version->is_string()) {
    return WireError{kInvalidParams,
                     "params.protocolVersion must be a string such as \"2025-11-25\"."};
  }
  for (const char* key : {"capabilities", "clientInfo"}) {
    if (const auto given = params.find(key); given != params.end() && !given->is_object()) {
      return WireError{kInvalidParams, "params." + std::string(key) + " must be an object."};
    }
  }
  const Revision revision = NegotiateLegacy(version->get<std::string>());
  context.connection->legacy.Agree(revision, params.value("capabilities", Json::object()));
  context.notices.AddLegacy(context.connection);
  Json body = {{"protocolVersion", RevisionName(revision)},
               {"capabilities", Capabilities(registry)},
               {"serverInfo", registry.server_info}};
  if (!registry.instructions.empty()) body["instructions"] = registry.instructions;
  return MethodResult{std::move(body)};
}

}  // namespace

void AddLifecycleMethods(const Registry& registry, MethodTable& methods) {
  methods["server/discover"] = {
      .eras = Eras::kModern,
      .run = [&registry](const Json&, const RequestContext&) { return Discover(registry); },
  };
  methods["initialize"] = {
      .eras = Eras::kLegacy,
      .run = [&registry](
                 const Json& params,
                 const RequestContext& context) { return Initialize(registry, params, context); },
      .before_initialize = true,
  };
  methods["ping"] = {
      .eras = Eras::kLegacy,
      .run = [](const Json&, const RequestContext&) -> Outcome { return MethodResult{}; },
      .before_initialize = true,
  };
}

}  // namespace mpnanny
