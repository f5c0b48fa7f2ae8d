#include "tools/tool.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/check/candidates/candidate_report.h"
#include "engines/check/engine.h"
#include "engines/check/fix/apply_fixes.h"
#include "engines/check/inputs/changed_lines.h"
#include "engines/check/inputs/sources.h"
#include "engines/check/map/map_report.h"
#include "engines/check/report/report_text.h"
#include "engines/check/report/sarif.h"
#include "engines/check/report/terminal_text.h"
#include "engines/check/schema.h"
#include "engines/check/shared_rules.h"
#include "engines/python_code/child.h"
#include "tools/static_check/prove.h"

namespace mpnanny::check {
namespace {

constexpr std::chrono::milliseconds kProgressEvery{250};
// Long before clients give up, and rarely enough to cost nothing.
constexpr std::chrono::seconds kFirstSoFar{5};
constexpr std::chrono::seconds kSoFarEvery{5};

std::vector<std::string> ReadStrings(const Json& arguments, const char* key) {
  std::vector<std::string> values;
  if (const auto it = arguments.find(key); it != arguments.end()) {
    for (const Json& value : *it) values.push_back(value.get<std::string>());
  }
  return values;
}

Result<CollectedSources> ReadSources(const Json& arguments, const ToolContext& context,
                                     const RuleSet& rules) {
  const int given = static_cast<int>(arguments.contains("paths")) +
                    static_cast<int>(arguments.contains("code")) +
                    static_cast<int>(arguments.contains("files"));
  if (given != 1) {
    return InvalidInput(given == 0 ? "There is nothing to check."
                                   : "Only one of `paths`, `code` and `files` can be given.",
                        "Give `paths` (files or folders) or `code` (a string).");
  }
  if (arguments.contains("diff") && !arguments.contains("paths"))
    return InvalidInput("`diff` compares files with git.", "Give `paths` with it.");
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
    return InvalidInput("`paths` is empty.", "Name a training script or its folder.");
  return CollectSources(paths, context.roots, context.cancel,
                        arguments.value("config", true) ? rules.Ids() : std::vector<std::string>(),
                        arguments.value("force_exclude", false));
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
      // Each file is read once and checked once, and a project is read whole before.
      const auto checked = static_cast<size_t>(so_far.files_scanned + so_far.files_skipped);
      const size_t read = std::max(done, checked) - checked;
      context.progress(static_cast<double>(done), static_cast<double>(total),
                       std::to_string(read) + " of " + std::to_string(total / 2) + " files read, " +
                           std::to_string(checked) + " checked");
    }
    if (context.so_far && now >= so_far_at) {
      so_far_at = now + kSoFarEvery;
      context.so_far(ShowUnfinished(so_far, context.answer_bytes));
    }
  };
}

// The least of what the projects ask for; nullopt where none asks.
std::optional<Severity> Strictest(const std::vector<Pyproject>& projects,
                                  std::optional<Severity> Pyproject::*wish) {
  std::optional<Severity> least;
  for (const Pyproject& project : projects) {
    if (project.*wish && (!least || *(project.*wish) < *least)) least = project.*wish;
  }
  return least;
}

// The files in which gradients are computed: a check that only makes the map.
Result<std::vector<std::string>> TrainingFiles(const std::vector<Source>& sources,
                                               const RuleSet& rules, const CancelToken& cancel) {
  Options options;
  options.map = true;
  MPN_TRY_ASSIGN(const auto report, Check(sources, options, rules, cancel));
  std::vector<std::string> files;
  for (const MapPlace& place : report.map) {
    if (place.part == MapPart::kEntryPoints) files.push_back(place.path);
  }
  return files;
}

// Tries what `show` shows of the report's `items`, findings or candidates, and shows it again with
// what came of it.
template <typename Item>
Result<ToolOutput> Proven(std::vector<Item>& items, std::vector<std::string>& notes, size_t first,
                          const Json& arguments, const std::vector<Source>& sources,
                          const RuleSet& rules, const std::function<ToolOutput(size_t most)>& show,
                          const char* key, const ToolContext& context) {
  for (size_t at = first; at < items.size(); ++at) items[at].proof = LargestProof();
  const size_t shown = show(SIZE_MAX).structured[key].size();
  std::vector<Suspect> suspects;
  for (size_t at = first; at < items.size(); ++at) items[at].proof.reset();
  for (size_t at = first; at < first + shown; ++at)
    suspects.push_back({items[at].rule, items[at].path, items[at].line, &items[at].proof});
  if (suspects.empty()) return show(SIZE_MAX);
  ToolContext quiet = context;
  if (context.so_far) quiet.so_far = [&](const ToolOutput&) { context.so_far(show(shown)); };
  MPN_TRY_ASSIGN(const auto training, TrainingFiles(sources, rules, context.cancel));
  MPN_TRY(Prove(suspects, sources, training,
                {.limit = std::chrono::seconds(arguments.value("timeout_s", 60)),
                 .python = arguments.value("python", "")},
                quiet, notes));
  return show(shown);
}

// `prove` runs files: what is wrong with the call is said before anything is read.
Result<void> CheckMayProve(const Json& arguments, const ToolContext& context) {
  if (!arguments.contains("paths"))
    return InvalidInput("`prove` runs what files define.", "Give `paths` with it.");
  if (arguments.value("detail", "") == "map")
    return InvalidInput("A map claims nothing that could be proven.", "Leave out `prove`.");
  if (!context.allow_exec) return python_code::MayNotRun("prove", "check --prove", context);
  return {};
}

Result<ToolOutput> RunCheck(const Json& arguments, const ToolContext& context) {
  const bool prove = arguments.value("prove", false);
  if (prove) MPN_TRY(CheckMayProve(arguments, context));
  MPN_TRY_ASSIGN(const auto rules, SharedRules(context.data));
  MPN_TRY_ASSIGN(auto collected, ReadSources(arguments, context, *rules));
  Options options;
  options.rules = ReadStrings(arguments, "rules");
  options.also = ReadStrings(arguments, "also");
  options.ignore = ReadStrings(arguments, "ignore");
  options.report_unused_ignores = arguments.value("report_unused_ignores", false);
  options.min_severity =
      Strictest(collected.projects, &Pyproject::min_severity).value_or(Severity::kInfo);
  if (arguments.contains("min_severity")) {
    MPN_TRY_ASSIGN(const auto severity,
                   ParseSeverity(arguments["min_severity"].get<std::string>()));
    options.min_severity = severity;
  }
  std::optional<ChangedLines> changed;
  if (arguments.contains("diff")) {
    auto since =
        ChangedLines::Since(arguments["diff"].get<std::string>(), collected.sources, context.roots);
    if (!since) return std::move(since).error();
    changed = *std::move(since);
    options.keep = [&changed](const Finding& finding) {
      return changed->Touches(finding.path, finding.line, finding.end_line);
    };
  }
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
  const std::string detail = arguments.value("detail", "concise");
  options.map = detail == "map";
  options.on_step = Watch(context);
  MPN_TRY_ASSIGN(auto report, Check(collected.sources, options, *rules, context.cancel));
  report.files_skipped += collected.skipped;
  report.notes.insert(report.notes.begin(), collected.notes.begin(), collected.notes.end());
  if (options.map) return ShowMap(report, context.answer_bytes);
  if (changed) {
    std::erase_if(report.candidates, [&](const Candidate& one) {
      return !changed->Touches(one.path, one.line, one.end_line);
    });
  }
  if (detail == "candidates") {
    if (first > 0 && first >= report.candidates.size())
      return InvalidInput("The cursor lies behind the last candidate; the code has changed since.",
                          "Call again without cursor.");
    const auto show = [&](size_t most) {
      return ShowCandidates(report, first, context.answer_bytes, most);
    };
    if (!prove) return show(SIZE_MAX);
    return Proven(report.candidates, report.notes, first, arguments, collected.sources, *rules,
                  show, "candidates", context);
  }
  if (report.not_kept > 0) {
    report.notes.push_back(std::to_string(report.not_kept) +
                           " findings on lines that did not change since " +
                           arguments["diff"].get<std::string>() + " are left out.");
  }
  if (first > 0 && first >= report.findings.size()) {
    return InvalidInput("The cursor lies behind the last finding; the code has changed since.",
                        "Call again without cursor.");
  }
  const auto show = [&](size_t most) {
    return ShowReport(report, first, detail == "full", context.answer_bytes, most);
  };
  ToolOutput output;
  if (prove) {
    MPN_TRY_ASSIGN(output, Proven(report.findings, report.notes, first, arguments,
                                  collected.sources, *rules, show, "findings", context));
  } else {
    output = show(SIZE_MAX);
  }
  if (const auto fail_on = Strictest(collected.projects, &Pyproject::fail_on))
    output.structured["fail_on"] = SeverityName(*fail_on);
  return output;
}

// What the command is told goes over what the project says.

int ExitCode(const Json& structured, const Json& extra) {
  const std::string by_project = structured.value("fail_on", "warning");
  const auto limit = ParseSeverity(extra.value("fail_on", by_project));
  if (!limit) return 2;
  // A map and candidates find no fault.
  if (!structured.contains("counts")) return 0;
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
    if (severity >= *limit && structured["counts"][SeverityName(severity)] != 0) return 1;
  }
  return 0;
}

// The rules that SARIF describes; null where they cannot be read.
std::string SarifOf(const Json& structured, const FormatContext& context) {
  const auto rules = SharedRules(context.data);
  return ToSarif(structured, rules ? rules->get() : nullptr);
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
      "broken run is at hand. Give `paths` (files, folders, notebooks) or `code`. It runs the code "
      "only with `prove`, which says of each place whether it is proven. Needs --allow-exec; the "
      "code runs confined. For a run that went wrong use diagnose_run.";
  definition.brief =
      "Which lines of PyTorch code are risky in FP16/BF16 training, why, and the fix: "
      "GradScaler protocol, clipping, autocast misuse, constants beyond 16 bits. Give paths "
      "(files, folders, notebooks), code, or files. Runs the code only with prove. For a run "
      "that went wrong: diagnose_run.";
  definition.brief_arguments = {
      {"paths", "Python, notebooks, settings (JSON, YAML, sh), folders"},
      {"diff", "Git revision: only lines changed since"},
      {"detail",
       "map: where precision is decided, read first; candidates: places for you to judge"}};
  definition.input_schema = InputSchema();
  definition.output_schema = OutputSchema();
  definition.command.name = "check";
  definition.command.positional = "paths";
  definition.command.extra_options = {{"fail_on",
                                       {{"type", "string"},
                                        {"enum", {"info", "warning", "error"}},
                                        {"description",
                                         "Exit with 1 if there is a finding of this severity or a "
                                         "worse one, shown or not. Default: "
                                         "what pyproject.toml says, else warning."}}}};
  definition.command.extra_options["fix"] = {
      {"type", "boolean"},
      {"description", "Show the edits that findings offer as a diff, and make them."}};
  definition.command.extra_options["diff_only"] = {
      {"type", "boolean"},
      {"description", "Print that diff and nothing else, and change no file."}};
  definition.command.afterwards = [](const Json& structured,
                                     const Json& extra) -> Result<Afterwards> {
    const bool fix = extra.value("fix", false);
    if (!fix && !extra.value("diff_only", false)) return Afterwards();
    return ApplyFixes(structured, fix && !extra.value("diff_only", false));
  };
  definition.command.only_afterwards = [](const Json& extra) {
    return extra.value("diff_only", false);
  };
  definition.command.exit_code = ExitCode;
  definition.command.options = {{"rules", "select"}, {"also", "extend-select"}};
  definition.command.aliases = {{"rules", "rules"}};
  definition.command.formats["sarif"] = SarifOf;
  definition.command.formats["github"] = [](const Json& structured, const FormatContext&) {
    return ToGithub(structured);
  };
  definition.command.terminal = [](const Json& structured, const FormatContext& context) {
    if (structured.contains("map")) return MapText(structured);
    if (structured.contains("candidates")) return CandidatesText(structured);
    return ToTerminal(structured, context.colour);
  };
  definition.may_go_on = true;
  definition.may_run_code = true;
  tool.run = RunCheck;
  return tool;
}

}  // namespace mpnanny::check
