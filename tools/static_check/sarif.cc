#include "tools/static_check/sarif.h"

#include <map>

#include "base/run_handle.h"
#include "base/version.h"

namespace mpnanny::static_check {
namespace {

Json Region(const Json& at) {
  return {{"startLine", at["line"]},
          {"startColumn", at["column"]},
          {"endLine", at["end_line"]},
          {"endColumn", at["end_column"]}};
}

// A path as a URI: relative ones stay relative, separators stay.
std::string ToUri(const std::string& path) {
  std::string uri;
  for (size_t start = 0; start <= path.size();) {
    size_t end = path.find('/', start);
    if (end == std::string::npos) end = path.size();
    uri += PercentEncode(std::string_view(path).substr(start, end - start));
    if (end < path.size()) uri += '/';
    start = end + 1;
  }
  return path.starts_with('/') ? "file://" + uri : uri;
}

}  // namespace

std::string ToSarif(const Json& structured) {
  Json rules = Json::array();
  Json results = Json::array();
  std::map<std::string, size_t> index;
  for (const Json& finding : structured["findings"]) {
    const std::string id = finding["rule"];
    const std::string level =
        finding["severity"] == "info" ? "note" : finding["severity"].get<std::string>();
    const auto [it, is_new] = index.emplace(id, rules.size());
    if (is_new) {
      rules.push_back({{"id", id},
                       {"shortDescription", {{"text", finding["why"]}}},
                       {"help", {{"text", finding["fix"]}}},
                       {"defaultConfiguration", {{"level", level}}}});
    }
    const Json artifact = {{"uri", ToUri(finding["path"])}};
    Json result = {
        {"ruleId", id},
        {"ruleIndex", it->second},
        {"level", level},
        {"message",
         {{"text",
           finding["message"].get<std::string>() + " " + finding["fix"].get<std::string>()}}},
        {"locations",
         Json::array({{{"physicalLocation",
                        {{"artifactLocation", artifact}, {"region", Region(finding)}}}}})},
        {"properties", {{"confidence", finding["confidence"]}, {"cases", finding["cases"]}}}};
    if (!finding["edits"].empty()) {
      Json replacements = Json::array();
      for (const Json& edit : finding["edits"]) {
        replacements.push_back(
            {{"deletedRegion", Region(edit)}, {"insertedContent", {{"text", edit["text"]}}}});
      }
      result["fixes"] = Json::array(
          {{{"description", {{"text", finding["fix"]}}},
            {"artifactChanges",
             Json::array({{{"artifactLocation", artifact}, {"replacements", replacements}}})}}});
    }
    results.push_back(std::move(result));
  }
  Json notifications = Json::array();
  for (const Json& note : structured["notes"])
    notifications.push_back({{"level", "note"}, {"message", {{"text", note}}}});
  const Json run = {
      {"tool",
       {{"driver",
         {{"name", "mpnanny"}, {"semanticVersion", std::string(kVersion)}, {"rules", rules}}}}},
      {"invocations", Json::array({{{"executionSuccessful", true},
                                    {"toolExecutionNotifications", notifications}}})},
      {"columnKind", "unicodeCodePoints"},
      {"results", results}};
  return DumpJsonPretty({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                         {"version", "2.1.0"},
                         {"runs", Json::array({run})}});
}

}  // namespace mpnanny::static_check
