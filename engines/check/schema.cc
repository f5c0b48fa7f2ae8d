#include "engines/check/schema.h"

#include "engines/check/report/proof_report.h"

namespace mpnanny::check {
namespace {

Json Strings(const char* description) {
  return {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", description}};
}

// On the command line also as one word: "a,b".
Json RuleIds(const char* description) {
  Json ids = Strings(description);
  ids["items"]["pattern"] = "^[^,]*$";
  return ids;
}

}  // namespace

Json InputSchema() {
  Json properties;
  properties["paths"] = Strings(
      "Python files, notebooks, configuration (DeepSpeed, Accelerate ...: .json, .yaml, .sh) or "
      "folders to check. A folder is searched, without tests/ and docs/.");
  properties["code"] = {{"type", "string"},
                        {"description", "Python code to check, in place of `paths`."}};
  properties["files"] = {
      {"type", "array"},
      {"maxItems", kMaxGivenFiles},
      {"description",
       "Several sources at once, in place of `paths`; they are checked as one project."},
      {"items",
       {{"type", "object"},
        {"properties",
         {{"path",
           {{"type", "string"},
            {"description", "Name used in findings; .ipynb makes it a notebook."}}},
          {"text", {{"type", "string"}, {"description", "The file's content."}}}}},
        {"required", {"path", "text"}},
        {"additionalProperties", false}}}};
  properties["min_severity"] = {
      {"type", "string"},
      {"enum", {"info", "warning", "error"}},
      {"description",
       "Leave out findings below this. Default: what pyproject.toml says, "
       "else info."}};
  properties["rules"] = RuleIds("Only these rules (ids, e.g. clip-before-unscale). Default: all.");
  properties["also"] = RuleIds("These rules, too.");
  properties["ignore"] = RuleIds("Not these rules.");
  properties["diff"] = {
      {"type", "string"},
      {"description", "A git revision: only findings on lines that were added or changed since."}};
  properties["config"] = {
      {"type", "boolean"},
      {"default", true},
      {"description", "Follow [tool.mpnanny] in the project's pyproject.toml."}};
  properties["force_exclude"] = {
      {"type", "boolean"},
      {"default", false},
      {"description", "Leave out what pyproject.toml excludes even where `paths` names it."}};
  properties["report_unused_ignores"] = {
      {"type", "boolean"},
      {"default", false},
      {"description", "A note for each `# mpnanny: ignore` comment that silences nothing."}};
  properties["cursor"] = {{"type", "string"},
                          {"description", "next_cursor of an earlier answer to the same call."}};
  properties["detail"] = {
      {"type", "string"},
      {"enum", {"concise", "full", "map", "candidates"}},
      {"default", "concise"},
      {"description",
       "full explains every finding, concise each rule once; map: the lines where precision is "
       "decided, to read first; candidates: places that may fail in 16 bits, for you to judge, the "
       "worst and likeliest first."}};
  properties["prove"] = {
      {"type", "boolean"},
      {"default", false},
      {"description",
       "Run what is shown, each finding and each candidate, in 16 bits and in FP64, and say which "
       "are proven. Needs --allow-exec; the code of `paths` runs confined."}};
  properties["timeout_s"] = {{"type", "integer"},
                             {"minimum", 1},
                             {"maximum", 1800},
                             {"default", 60},
                             {"description", "With `prove`: seconds in all."}};
  properties["python"] = {
      {"type", "string"},
      {"description", "With `prove`: the interpreter; the project's .venv by default."}};
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

Json OutputSchema() {
  const Json text = {{"type", "string"}};
  const Json count = {{"type", "integer"}, {"minimum", 0}};
  const Json position = {{"type", "integer"}, {"minimum", 1}};
  const Json range = {
      {"line", position}, {"column", position}, {"end_line", position}, {"end_column", position}};
  Json edit = range;
  edit["text"] = text;
  Json finding = {{"rule", text},
                  {"severity", {{"type", "string"}, {"enum", {"error", "warning", "info"}}}},
                  {"confidence", {{"type", "string"}, {"enum", {"high", "medium", "low"}}}},
                  {"path", text}};
  finding.update(range);
  finding.update(Json{
      {"message", text},
      {"why",
       {{"type", "string"},
        {"description", "Empty where an earlier finding of the rule told it."}}},
      {"fix", text},
      {"edits",
       {{"type", "array"},
        {"description", "Replacements that repair it; all together; offered, never applied."},
        {"items",
         {{"type", "object"}, {"properties", edit}, {"required", {"line", "column", "text"}}}}}},
      {"cases", {{"type", "array"}, {"items", text}}}});
  Json required = Json::array();
  for (const auto& [key, value] : finding.items()) required.push_back(key);
  finding["source"] = {
      {"type", "object"},
      {"description", "The source line and the finding's column in it; only in whole answers."},
      {"properties", {{"text", text}, {"column", position}}}};
  finding["proof"] = ProofSchema();
  return {{"type", "object"},
          {"properties",
           {{"findings",
             {{"type", "array"},
              {"items", {{"type", "object"}, {"properties", finding}, {"required", required}}}}},
            {"total", count},
            {"to_judge", count},
            {"counts",
             {{"type", "object"},
              {"description", "Also below `min_severity`."},
              {"properties", {{"error", count}, {"warning", count}, {"info", count}}}}},
            {"fail_on", text},
            {"files_scanned", count},
            {"files_skipped", count},
            {"suppressed", count},
            {"notes", {{"type", "array"}, {"items", text}}},
            {"candidates",
             {{"type", "array"},
              {"description",
               "path, line, rule, hazard, known, unknown, question, code, try; proof."}}},
            {"map", {{"type", "object"}, {"description", "By part: {at, what}; left_out."}}},
            {"next_cursor", text}}},
          {"required", {"findings", "files_scanned", "files_skipped", "notes"}}};
}

}  // namespace mpnanny::check
