#include "tools/tool.h"

#include <charconv>
#include <chrono>
#include <functional>
#include <string>

#include "base/text.h"
#include "tools/static_check/engine.h"
#include "tools/static_check/report_text.h"
#include "tools/static_check/sarif.h"
#include "tools/static_check/shared_rules.h"
#include "tools/static_check/sources.h"

namespace mpnanny::static_check {
namespace {

constexpr size_t kMaxGivenFiles = 500;
constexpr std::chrono::milliseconds kProgressEvery{250};
// Long before clients give up, and rarely enough to cost nothing.
constexpr std::chrono::seconds kFirstSoFar{5};
constexpr std::chrono::seconds kSoFarEvery{5};

Json Strings(const char* description) {
  return {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", description}};
}

Json InputSchema() {
  Json properties;
  properties["paths"] = Strings(
      "Python files, notebooks or folders to check. A folder is searched, without tests/ and "
      "docs/.");
  properties["code"] = {{"type", "string"},
                        {"description", "Python code to check, in place of paths."}};
  properties["files"] = {
      {"type", "array"},
      {"maxItems", kMaxGivenFiles},
      {"description",
       "Several sources at once, in place of paths; they are checked as one project."},
      {"items",
       {{"type", "object"},
        {"properties",
         {{"path",
           {{"type", "string"},
            {"description", "Name used in findings; .ipynb makes it a notebook."}}},
          {"text", {{"type", "string"}, {"description", "The file's content."}}}}},
        {"required", {"path", "text"}},
        {"additionalProperties", false}}}};
  properties["min_severity"] = {{"type", "string"},
                                {"enum", {"info", "warning", "error"}},
                                {"default", "info"},
                                {"description", "Leave out findings below this."}};
  properties["rules"] = Strings("Only these rules (ids, e.g. clip-before-unscale). Default: all.");
  properties["cursor"] = {{"type", "string"},
                          {"description", "next_cursor of an earlier answer to the same call."}};
  properties["detail"] = {
      {"type", "string"},
      {"enum", {"concise", "full"}},
      {"default", "concise"},
      {"description", "full explains every finding; concise explains each rule once."}};
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
  return {{"type", "object"},
          {"properties",
           {{"findings",
             {{"type", "array"},
              {"items", {{"type", "object"}, {"properties", finding}, {"required", required}}}}},
            {"total", count},
            {"files_scanned", count},
            {"files_skipped", count},
            {"suppressed", count},
            {"notes", {{"type", "array"}, {"items", text}}},
            {"next_cursor", text}}},
          {"required", {"findings", "files_scanned", "files_skipped", "notes"}}};
}

std::vector<std::string> ReadStrings(const Json& arguments, const char* key) {
  std::vector<std::string> values;
  if (const auto it = arguments.find(key); it != arguments.end()) {
    for (const Json& value : *it) values.push_back(value.get<std::string>());
  }
  return values;
}

Result<CollectedSources> ReadSources(const Json& arguments, const ToolContext& context) {
  const int given = static_cast<int>(arguments.contains("paths")) +
                    static_cast<int>(arguments.contains("code")) +
                    static_cast<int>(arguments.contains("files"));
  if (given != 1) {
    return InvalidInput(
        given == 0 ? "There is nothing to check."
                   : "Only one of paths, code and files can be given.",
        "Give paths (files or folders), code (a string) or files ([{path, text}]).");
  }
  CollectedSources collected;
  if (arguments.contains("code")) {
    collected.sources.push_back({"<code>", arguments["code"].get<std::string>()});
    return collected;
  }
  if (arguments.contains("files")) {
    for (const Json& file : arguments["files"]) {
      collected.sources.push_back(
          {file["path"].get<std::string>(), file["text"].get<std::string>()});
    }
    return collected;
  }
  const std::vector<std::string> paths = ReadStrings(arguments, "paths");
  if (paths.empty())
    return InvalidInput("paths is empty.", "Name a training script or its folder.");
  return CollectSources(paths, context.roots, context.cancel);
}

// Tells how far a check is, and now and then what it has found, to a client that may not wait for
// its end.
std::function<void(size_t, size_t, const Report&)> Watch(const ToolContext& context) {
  if (!context.progress && !context.so_far) return nullptr;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  return [&context, progress_at = start, so_far_at = start + kFirstSoFar](
             size_t done, size_t total, const Report& so_far) mutable {
    const Clock::time_point now = Clock::now();
    if (context.progress && now >= progress_at) {
      progress_at = now + kProgressEvery;
      context.progress(static_cast<double>(done), static_cast<double>(total),
                       std::to_string(so_far.files_scanned) + " files checked");
    }
    if (context.so_far && now >= so_far_at) {
      so_far_at = now + kSoFarEvery;
      context.so_far(ShowUnfinished(so_far, context.answer_bytes));
    }
  };
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  auto collected = ReadSources(arguments, context);
  if (!collected) return std::move(collected).error();
  const auto rules = SharedRules(context.data);
  if (!rules) return rules.error();
  Options options;
  options.rules = ReadStrings(arguments, "rules");
  const auto severity = ParseSeverity(arguments.value("min_severity", "info"));
  if (!severity) return severity.error();
  options.min_severity = *severity;
  size_t first = 0;
  const std::string cursor = arguments.value("cursor", "");
  if (!cursor.empty()) {
    const auto [end, error] =
        std::from_chars(cursor.data() + 1, cursor.data() + cursor.size(), first);
    if (cursor[0] != 'f' || error != std::errc() || end != cursor.data() + cursor.size()) {
      return InvalidInput("'" + EscapeControl(cursor, 40) + "' is no cursor of static_check.",
                          "Use next_cursor of the answer before, with the same arguments.");
    }
  }
  options.on_step = Watch(context);
  auto report = Check(collected->sources, options, **rules, context.cancel);
  if (!report) return std::move(report).error();
  report->files_skipped += collected->skipped;
  report->notes.insert(report->notes.begin(), collected->notes.begin(), collected->notes.end());
  if (first > 0 && first >= report->findings.size()) {
    return InvalidInput("The cursor lies behind the last finding; the code has changed since.",
                        "Call again without cursor.");
  }
  return ShowReport(*report, first, arguments.value("detail", "concise") == "full",
                    context.answer_bytes);
}

int ExitCode(const Json& structured, const Json& extra) {
  const auto limit =
      ParseSeverity(extra.is_object() ? extra.value("fail_on", "warning") : "warning");
  if (!limit) return 2;
  for (const Json& finding : structured["findings"]) {
    const auto severity = ParseSeverity(finding["severity"].get<std::string>());
    if (severity && *severity >= *limit) return 1;
  }
  return 0;
}

}  // namespace

Tool MakeTool() {
  Tool tool;
  ToolDefinition& definition = tool.definition;
  definition.name = "static_check";
  definition.title = "Check PyTorch code for mixed-precision defects";
  definition.description =
      "Which lines of this PyTorch code are numerically risky in FP16/BF16 training, why, and the "
      "fix: GradScaler protocol, "
      "gradient clipping, autocast misuse, constants that 16 bits cannot hold. Use it before "
      "training, or when the code of a "
      "broken run is at hand. Give paths (files, folders, notebooks), code, or files. It never "
      "runs the code. For a run that "
      "went wrong use diagnose_run.";
  definition.input_schema = InputSchema();
  definition.output_schema = OutputSchema();
  definition.command.name = "check";
  definition.command.positional = "paths";
  definition.command.extra_options = {
      {"fail_on",
       {{"type", "string"},
        {"enum", {"info", "warning", "error"}},
        {"default", "warning"},
        {"description", "Exit with 1 if there is a finding of this severity or a worse one."}}}};
  definition.command.exit_code = ExitCode;
  definition.command.shown_only = {"min_severity"};
  definition.command.formats["sarif"] = ToSarif;
  definition.may_go_on = true;
  tool.run = Run;
  return tool;
}

}  // namespace mpnanny::static_check
