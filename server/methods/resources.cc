// resources/list, resources/templates/list, resources/read.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "server/methods/methods.h"
#include "server/methods/paging.h"
#include "server/methods/resource_uri.h"
#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

constexpr int64_t kBuiltInTtlMs = 300'000;

// Built-in data may be kept and shared; what comes out of the user's files is fresh and private.
CacheHint HintFor(bool is_public) { return {is_public ? kBuiltInTtlMs : 0, is_public}; }

bool AllPublic(const Registry& registry) {
  return std::all_of(registry.resources.begin(), registry.resources.end(),
                     [](const ResourceTemplate& family) { return family.is_public; }) &&
         std::all_of(registry.fixed_resources.begin(), registry.fixed_resources.end(),
                     [](const ServedResource& fixed) { return fixed.is_public; });
}

constexpr char kIndex[] = "index";

bool HasIndex(const ResourceTemplate& family, size_t entries) {
  return family.is_public && entries > family.most_listed;
}

std::string IndexPage(const ResourceTemplate& family,
                      const std::vector<ResourceTemplate::Entry>& entries) {
  std::string page = "# " + family.title + ": all " + std::to_string(entries.size()) + " of " +
                     family.uri_template + "\n\n" + family.description + "\n\n";
  for (const ResourceTemplate::Entry& entry : entries) {
    const bool named = !entry.title.empty() && entry.title != entry.value;
    page += "- `" + entry.value + "`: " + (named ? entry.title : entry.description) + "\n";
  }
  return page;
}

Outcome ListResources(const Registry& registry, const Json& params, const RequestContext& context) {
  Json resources = Json::array();
  for (const ServedResource& fixed : registry.fixed_resources) {
    resources.push_back({{"uri", fixed.uri},
                         {"name", fixed.name},
                         {"title", fixed.title},
                         {"description", fixed.description},
                         {"mimeType", fixed.mime_type}});
  }
  const ToolContext tool_context = registry.tool_context(context);
  for (const ResourceTemplate& family : registry.resources) {
    if (!family.list) continue;
    std::vector<ResourceTemplate::Entry> entries = family.list(tool_context);
    if (HasIndex(family, entries.size())) {
      const std::string about =
          "Names all " + std::to_string(entries.size()) + " of " + family.uri_template + ".";
      resources.push_back({{"uri", ResourceUri(family, kIndex)},
                           {"name", family.name},
                           {"title", family.title + ": all of them"},
                           {"description", about},
                           {"mimeType", family.mime_type}});
      continue;
    }
    if (entries.size() > family.most_listed) entries.resize(family.most_listed);
    for (const ResourceTemplate::Entry& entry : entries) {
      Json resource = {
          {"uri", ResourceUri(family, entry.value)}, {"name", entry.value}, {"title", entry.title}};
      if (!entry.description.empty()) resource["description"] = entry.description;
      resource["mimeType"] = family.mime_type;
      resources.push_back(std::move(resource));
    }
  }
  auto page = Page("resources", resources, params);
  if (auto* error = std::get_if<WireError>(&page)) return std::move(*error);
  return MethodResult{std::get<Json>(std::move(page)), HintFor(AllPublic(registry))};
}

Json Templates(const Registry& registry) {
  Json templates = Json::array();
  for (const ResourceTemplate& family : registry.resources) {
    templates.push_back({{"uriTemplate", family.uri_template},
                         {"name", family.name},
                         {"title", family.title},
                         {"description", family.description},
                         {"mimeType", family.mime_type}});
  }
  return templates;
}

Outcome ListTemplates(const Json& templates, const Json& params) {
  auto page = Page("resourceTemplates", templates, params);
  if (auto* error = std::get_if<WireError>(&page)) return std::move(*error);
  return MethodResult{std::get<Json>(std::move(page)), HintFor(true)};
}

WireError ReadError(const std::string& uri, const Error& error) {
  if (error.kind == ErrorKind::kInternal) {
    const std::string log_id = LogError("resources/read: " + error.Text());
    return {kInternalError, "Internal error " + log_id + "; the server's stderr has the details."};
  }
  // What cannot be read for a reason of its own (busy, damaged) exists all the same.
  const bool unknown = error.kind == ErrorKind::kNotFound || error.kind == ErrorKind::kInvalidInput;
  return {unknown ? kResourceNotFound : kInternalError, error.Text(), {{"uri", uri}}};
}

const ServedResource* FixedResource(const Registry& registry, const std::string& uri) {
  for (const ServedResource& fixed : registry.fixed_resources) {
    if (fixed.uri == uri) return &fixed;
  }
  return nullptr;
}

Outcome Read(const Registry& registry, const Json& params, const RequestContext& context) {
  const auto given = params.find("uri");
  if (given == params.end() || !given->is_string()) {
    return WireError{kInvalidParams, "params.uri must be the URI of a resource."};
  }
  const std::string& uri = given->get_ref<const std::string&>();
  if (const ServedResource* fixed = FixedResource(registry, uri)) {
    Outcome outcome = fixed->read(context);
    if (auto* result = std::get_if<MethodResult>(&outcome))
      result->cache = HintFor(fixed->is_public);
    return outcome;
  }
  for (const ResourceTemplate& family : registry.resources) {
    const auto value = MatchResourceUri(family, uri);
    if (!value) continue;
    const ToolContext tool_context = registry.tool_context(context);
    Result<std::string> text = std::string();
    if (*value == kIndex && family.is_public && family.list) {
      const auto entries = family.list(tool_context);
      text = HasIndex(family, entries.size()) ? IndexPage(family, entries)
                                              : family.read(*value, tool_context);
    } else {
      text = family.read(*value, tool_context);
    }
    if (!text) {
      if (text.error().kind == ErrorKind::kCancelled && context.cancel.cancelled())
        return Stopped{};
      return ReadError(uri, text.error());
    }
    Json contents = {{"uri", uri}, {"mimeType", family.mime_type}, {"text", *std::move(text)}};
    return MethodResult{{{"contents", Json::array({std::move(contents)})}},
                        HintFor(family.is_public)};
  }
  std::vector<std::string> templates;
  for (const ResourceTemplate& family : registry.resources)
    templates.push_back(family.uri_template);
  return WireError{kResourceNotFound,
                   "Unknown resource '" + EscapeControl(uri, 200) + "'. Known are " +
                       Join(templates, ", ") + ".",
                   {{"uri", uri}}};
}

}  // namespace

bool KnowsResource(const Registry& registry, const std::string& uri) {
  return FixedResource(registry, uri) ||
         std::any_of(registry.resources.begin(), registry.resources.end(),
                     [&](const ResourceTemplate& family) {
                       return MatchResourceUri(family, uri).has_value();
                     });
}

void AddResourceMethods(const Registry& registry, MethodTable& methods) {
  methods["resources/list"] = {
      .runs_on = RunsOn::kPool,  // the first one may have to read all cases, or look for runs
      .run =
          [&registry](const Json& params, const RequestContext& context) {
            return ListResources(registry, params, context);
          },
  };
  methods["resources/templates/list"] = {
      .run = [templates = Templates(registry)](
                 const Json& params,
                 const RequestContext&) { return ListTemplates(templates, params); },
  };
  methods["resources/read"] = {
      .runs_on = RunsOn::kPool,
      .run = [&registry](const Json& params,
                         const RequestContext& context) { return Read(registry, params, context); },
      .may_ask_client = true,
  };
}

}  // namespace mpnanny
