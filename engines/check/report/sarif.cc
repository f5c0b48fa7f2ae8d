#include "engines/check/report/sarif.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>

#include "base/run_handle.h"
#include "base/version.h"

namespace mpnanny::check {
namespace {

constexpr std::string_view kCell = ".ipynb:cell ";

// "nb.ipynb:cell 3" as the file and "cell 3"; the second is empty for what is no notebook.
std::pair<std::string, std::string> SplitCell(const std::string& path) {
  const size_t at = path.rfind(kCell);
  if (at == std::string::npos) return {path, ""};
  return {path.substr(0, at + 6), path.substr(at + 7)};
}

Json Region(const Json& at) {
  return {{"startLine", at["line"]},
          {"startColumn", at["column"]},
          {"endLine", at["end_line"]},
          {"endColumn", at["end_column"]}};
}

// A path as a URI: relative ones stay relative, separators stay.
std::string ToUri(std::string path) {
  while (path.starts_with("./")) path.erase(0, path.find_first_not_of('/', 1));
  std::string uri;
  for (size_t start = 0; start <= path.size();) {
    size_t end = path.find('/', start);
    if (end == std::string::npos) end = path.size();
    uri += PercentEncode(std::string_view(path).substr(start, end - start));
    if (end < path.size()) uri += '/';
    start = end + 1;
  }
  if (path.starts_with('/')) return "file://" + uri;
  return std::filesystem::path(path).is_absolute() ? "file:///" + uri : uri;  // C:/folder/file
}

std::string Level(const std::string& severity) { return severity == "info" ? "note" : severity; }

// The first web page among a rule's references.
std::string FirstReference(const std::string& body) {
  const size_t heading = body.find("\n## References");
  const size_t at = heading == std::string::npos ? heading : body.find("https://", heading);
  if (at == std::string::npos) return "";
  return body.substr(at, body.find_first_of(" \t\n)>]\"'`", at) - at);
}

Json RuleInfo(const Json& finding, const RulePage* page) {
  const std::string id = finding["rule"];
  Json rule = {{"id", id}};
  if (page == nullptr) {
    rule["shortDescription"] = {{"text", finding["message"]}};
    return rule;
  }
  rule["shortDescription"] = {{"text", page->summary}};
  rule["fullDescription"] = {{"text", page->why}};
  rule["help"] = {{"text", page->fix}, {"markdown", page->body}};
  if (const std::string uri = FirstReference(page->body); !uri.empty()) rule["helpUri"] = uri;
  rule["defaultConfiguration"] = {
      {"level", Level(SeverityName(page->severity.value_or(Severity::kInfo)))}, {"enabled", true}};
  Json tags = {"mixed-precision", "pytorch", "numerics"};
  if (page->status != "stable") tags.push_back(page->status);
  rule["properties"] = {{"tags", tags}, {"precision", page->confidence}, {"cases", page->cases}};
  return rule;
}

// What stays the same when lines above a finding come or go: the rule, the file, its line without
// spaces, and which of several alike it is.
class Fingerprints {
 public:
  std::string Of(const Json& finding) {
    const std::string path = finding["path"];
    std::string line;
    for (const char c : finding.value("source", Json::object()).value("text", std::string())) {
      if (c != ' ' && c != '\t') line += c;
    }
    const std::string rule = finding["rule"];
    const int number = ++seen_[{rule, path, line}];
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const std::string& part : {rule, path, line, std::to_string(number)}) {
      for (const char c : part + '\0') {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
      }
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, hash);
    return text;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, int> seen_;
};

Json Location(const Json& finding) {
  const auto [file, cell] = SplitCell(finding["path"]);
  Json physical = {{"artifactLocation", {{"uri", ToUri(file)}}}};
  if (!cell.empty()) {
    return {{"physicalLocation", physical},
            {"logicalLocations", Json::array({{{"name", cell}, {"kind", "module"}}})},
            {"message", {{"text", cell + ", line " + std::to_string(finding["line"].get<int>())}}}};
  }
  physical["region"] = Region(finding);
  if (finding.contains("source"))
    physical["region"]["snippet"] = {{"text", finding["source"]["text"]}};
  return {{"physicalLocation", physical}};
}

Json Fixes(const Json& finding) {
  Json replacements = Json::array();
  for (const Json& edit : finding["edits"]) {
    replacements.push_back(
        {{"deletedRegion", Region(edit)}, {"insertedContent", {{"text", edit["text"]}}}});
  }
  return Json::array(
      {{{"description", {{"text", finding["fix"]}}},
        {"artifactChanges", Json::array({{{"artifactLocation", {{"uri", ToUri(finding["path"])}}},
                                          {"replacements", replacements}}})}}});
}

}  // namespace

std::string ToSarif(const Json& structured, const RuleSet* rules) {
  Json infos = Json::array();
  Json results = Json::array();
  std::map<std::string, size_t> index;
  Fingerprints fingerprints;
  for (const Json& finding : structured["findings"]) {
    const std::string id = finding["rule"];
    const auto [it, is_new] = index.emplace(id, infos.size());
    if (is_new) infos.push_back(RuleInfo(finding, rules == nullptr ? nullptr : rules->Find(id)));
    Json result = {
        {"ruleId", id},
        {"ruleIndex", it->second},
        {"level", Level(finding["severity"])},
        {"message",
         {{"text",
           finding["message"].get<std::string>() + " " + finding["fix"].get<std::string>()}}},
        {"locations", Json::array({Location(finding)})},
        {"partialFingerprints", {{"mpnanny/v1", fingerprints.Of(finding)}}},
        {"properties", {{"confidence", finding["confidence"]}, {"cases", finding["cases"]}}}};
    if (finding.contains("proof")) result["properties"]["proof"] = finding["proof"];
    if (!finding["edits"].empty() && SplitCell(finding["path"]).second.empty())
      result["fixes"] = Fixes(finding);
    results.push_back(std::move(result));
  }
  Json notifications = Json::array();
  for (const Json& note : structured["notes"])
    notifications.push_back({{"level", "warning"}, {"message", {{"text", note}}}});
  const Json driver = {{"name", "mpnanny"},
                       {"version", std::string(kVersion)},
                       {"semanticVersion", std::string(kVersion)},
                       {"rules", infos}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"invocations", Json::array({{{"executionSuccessful", true},
                                                  {"toolExecutionNotifications", notifications}}})},
                    {"columnKind", "unicodeCodePoints"},
                    {"results", results}};
  return DumpJsonPretty({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                         {"version", "2.1.0"},
                         {"runs", Json::array({run})}});
}

std::string ToGithub(const Json& structured) {
  const auto escape = [](std::string text, bool property) {
    std::string out;
    for (const char c : text) {
      const bool special =
          c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
      if (!special) {
        out += c;
        continue;
      }
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(c));
      out += code;
    }
    return out;
  };
  std::string text;
  for (const Json& finding : structured["findings"]) {
    const auto [file, cell] = SplitCell(finding["path"]);
    const std::string severity = finding["severity"];
    const std::string where = cell.empty() ? "" : cell + ": ";
    text += "::" + std::string(severity == "info" ? "notice" : severity) +
            " file=" + escape(file, true);
    if (cell.empty()) {
      for (const auto& [name, key] : {std::pair{"line", "line"},
                                      {"endLine", "end_line"},
                                      {"col", "column"},
                                      {"endColumn", "end_column"}}) {
        text += std::string(",") + name + "=" + std::to_string(finding[key].get<int>());
      }
    }
    text += ",title=" + escape(finding["rule"], true) + "::" +
            escape(where + finding["message"].get<std::string>() + " " +
                       finding["fix"].get<std::string>(),
                   false) +
            "\n";
  }
  return text;
}

}  // namespace mpnanny::check
