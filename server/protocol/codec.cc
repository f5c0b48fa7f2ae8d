#include "server/protocol/codec.h"

#include <initializer_list>
#include <utility>

#include "server/protocol/error_codes.h"

namespace mpnanny {
namespace {

// A field of an object and the first revision that has it.
struct Since {
  const char* field;
  Revision revision;
};

void Strip(Revision revision, Json& object, std::initializer_list<Since> fields) {
  if (!object.is_object()) return;
  for (const Since& field : fields) {
    if (revision < field.revision) object.erase(field.field);
  }
}

void StripEach(Revision revision, Json& result, const char* list,
               std::initializer_list<Since> fields) {
  const auto items = result.find(list);
  if (items == result.end()) return;
  for (Json& item : *items) Strip(revision, item, fields);
}

// Sources: the "Key Changes" pages of the specification's revisions.
void StripLegacy(Revision revision, std::string_view method, Json& result) {
  if (method == "tools/list") {
    // Before tools had a title of their own it stood among the annotations.
    if (revision == Revision::k2025_03_26) {
      for (Json& tool : result["tools"]) {
        if (tool.contains("title") && tool.contains("annotations"))
          tool["annotations"]["title"] = tool["title"];
      }
    }
    StripEach(revision, result, "tools",
              {{"annotations", Revision::k2025_03_26},
               {"title", Revision::k2025_06_18},
               {"outputSchema", Revision::k2025_06_18},
               {"_meta", Revision::k2025_06_18}});
  } else if (method == "tools/call") {
    Strip(revision, result, {{"structuredContent", Revision::k2025_06_18}});
  } else if (method == "resources/list") {
    StripEach(revision, result, "resources", {{"title", Revision::k2025_06_18}});
  } else if (method == "resources/templates/list") {
    StripEach(revision, result, "resourceTemplates", {{"title", Revision::k2025_06_18}});
  } else if (method == "prompts/list") {
    StripEach(revision, result, "prompts", {{"title", Revision::k2025_06_18}});
    for (Json& prompt : result["prompts"]) {
      StripEach(revision, prompt, "arguments", {{"title", Revision::k2025_06_18}});
    }
  } else if (method == "initialize") {
    // The request came before anything was agreed on; its answer is in the revision that it agrees
    // on.
    revision = NegotiateLegacy(result["protocolVersion"].get<std::string>());
    Strip(revision, result["capabilities"], {{"completions", Revision::k2025_03_26}});
    Strip(revision, result["serverInfo"],
          {{"title", Revision::k2025_06_18}, {"description", Revision::k2025_11_25}});
  }
}

}  // namespace

Json EncodeResult(Revision revision, std::string_view method, Json result,
                  const std::optional<CacheHint>& cache, const Json& server_info) {
  if (!IsModern(revision)) {
    StripLegacy(revision, method, result);
    return result;
  }
  if (!result.contains("resultType")) result["resultType"] = "complete";
  if (cache) {
    result["ttlMs"] = cache->ttl_ms;
    result["cacheScope"] = cache->is_public ? "public" : "private";
  }
  result["_meta"]["io.modelcontextprotocol/serverInfo"] = server_info;
  return result;
}

WireError EncodeError(Revision revision, WireError error) {
  if (IsModern(revision)) {
    if (error.code == kResourceNotFound) error.code = kInvalidParams;
  } else if (error.code == kMissingClientCapability) {
    error.code = kInvalidRequest;
  }
  return error;
}

Json EncodeProgress(Revision revision, const Json& token, double progress,
                    std::optional<double> total, const std::string& message) {
  Json params = {{"progressToken", token}, {"progress", progress}};
  if (total) params["total"] = *total;
  if (!message.empty() && revision >= Revision::k2025_03_26) params["message"] = message;
  return params;
}

}  // namespace mpnanny
