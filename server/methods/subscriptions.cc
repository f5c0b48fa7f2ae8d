// subscriptions/listen for modern clients; resources/subscribe and unsubscribe for legacy ones.
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>

#include "base/text.h"
#include "server/methods/methods.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

// What the client asked for, as far as this server ever tells it.
std::variant<ListenFilter, WireError> ReadFilter(const Registry& registry, const Json& params) {
  const auto wanted = params.find("notifications");
  if (wanted == params.end() || !wanted->is_object()) {
    return WireError{kInvalidParams, "params.notifications must be an object."};
  }
  ListenFilter filter;
  const bool lists = registry.features.list_changes;
  for (const auto& [field, flag, offered] :
       std::initializer_list<std::tuple<const char*, bool*, bool>>{
           {"toolsListChanged", &filter.tools_changed, lists && !registry.tools.empty()},
           {"promptsListChanged", &filter.prompts_changed, lists && registry.prompts != nullptr},
           {"resourcesListChanged", &filter.resources_changed,
            lists && registry.has_resources()}}) {
    const auto given = wanted->find(field);
    if (given == wanted->end()) continue;
    if (!given->is_boolean()) {
      return WireError{kInvalidParams,
                       "params.notifications." + std::string(field) + " must be true or false."};
    }
    *flag = offered && given->get<bool>();
  }
  const auto uris = wanted->find("resourceSubscriptions");
  if (uris == wanted->end()) return filter;
  if (!uris->is_array() || uris->size() > NoticeHub::kMaxUrisEach) {
    return WireError{kInvalidParams,
                     "params.notifications.resourceSubscriptions must be a list of at most " +
                         std::to_string(NoticeHub::kMaxUrisEach) + " resource URIs."};
  }
  for (const Json& uri : *uris) {
    if (!uri.is_string()) {
      return WireError{kInvalidParams,
                       "params.notifications.resourceSubscriptions must hold strings."};
    }
    const std::string& text = uri.get_ref<const std::string&>();
    if (registry.features.subscriptions && KnowsResource(registry, text)) {
      filter.resource_uris.insert(text);
    }
  }
  return filter;
}

// The resource that a legacy client names.
std::variant<std::string, WireError> ReadUri(const Registry& registry, const Json& params) {
  const auto given = params.find("uri");
  if (given == params.end() || !given->is_string()) {
    return WireError{kInvalidParams, "params.uri must be the URI of a resource."};
  }
  const std::string& uri = given->get_ref<const std::string&>();
  if (KnowsResource(registry, uri)) return uri;
  return WireError{
      kResourceNotFound, "Unknown resource '" + EscapeControl(uri, 200) + "'.", {{"uri", uri}}};
}

}  // namespace

void AddSubscriptionMethods(const Registry& registry, MethodTable& methods) {
  methods["subscriptions/listen"] = {
      .eras = Eras::kModern,
      .run = [&registry](const Json& params, const RequestContext&) -> Outcome {
        auto filter = ReadFilter(registry, params);
        if (auto* error = std::get_if<WireError>(&filter)) return std::move(*error);
        return Listening{std::get<ListenFilter>(std::move(filter))};
      },
  };
  if (!registry.features.subscriptions) return;
  methods["resources/subscribe"] = {
      .eras = Eras::kLegacy,
      .run = [&registry](const Json& params, const RequestContext& context) -> Outcome {
        auto uri = ReadUri(registry, params);
        if (auto* error = std::get_if<WireError>(&uri)) return std::move(*error);
        if (context.notices.Subscribe(context.connection, std::get<std::string>(uri))) {
          return MethodResult{};
        }
        return WireError{kInvalidParams, "This client watches " +
                                             std::to_string(NoticeHub::kMaxUrisEach) +
                                             " resources already. Unsubscribe from some first."};
      },
  };
  methods["resources/unsubscribe"] = {
      .eras = Eras::kLegacy,
      .run = [&registry](const Json& params, const RequestContext& context) -> Outcome {
        auto uri = ReadUri(registry, params);
        if (auto* error = std::get_if<WireError>(&uri)) return std::move(*error);
        context.notices.Unsubscribe(context.connection, std::get<std::string>(uri));
        return MethodResult{};
      },
  };
}

}  // namespace mpnanny
