#include "tools/tool.h"

#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "tools/diagnose_run/code_evidence.h"
#include "tools/diagnose_run/diagnosis.h"
#include "tools/diagnose_run/gather.h"
#include "tools/diagnose_run/log_reader.h"
#include "tools/diagnose_run/report.h"
#include "tools/runs/page.h"
#include "tools/runs/run.h"
#include "tools/runs/schema.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// Error messages that the question quotes are evidence as a log's lines are.
void AddQuestionHits(const std::string& question, const cases::CaseLibrary& library, Facts& facts) {
  if (question.empty()) return;
  for (const cases::Case& entry : library.all()) {
    for (const cases::Signal& signal : entry.signals) {
      if (signal.kind == cases::Signal::Kind::kLog && cases::FitsLogLine(signal, question) &&
          std::none_of(facts.log_hits.begin(), facts.log_hits.end(),
                       [&](const LogHit& hit) { return hit.signal == signal.text; })) {
        facts.log_hits.push_back({signal.text, signal.weight, question.substr(0, 400), true});
      }
    }
  }
}

Result<Facts> FactsOfLog(const Json& arguments, const ToolContext& context,
                         const cases::CaseLibrary& library, Subject& subject) {
  std::string text = arguments.value("log_text", "");
  subject.name = "log_text";
  if (arguments.contains("log_path")) {
    auto path = context.roots.Resolve(arguments["log_path"].get<std::string>());
    if (!path) return path.error();
    auto file = ReadFile(*path, kMaxLogBytes);
    if (!file) return file.error();
    if (file->starts_with("SQLite format 3")) {
      return InvalidInput(EscapeControl(*path) + " is a database, not a text log.",
                          "Give it as `run`.");
    }
    text = *std::move(file);
    subject.name = EscapeControl(*path);
  }
  auto log = ReadLog(text, library, context.cancel);
  if (!log) return log.error();
  if (log->steps.empty() && log->hits.empty()) {
    return InvalidInput("No loss, gradient norm, loss scale or learning rate was found in " +
                            runs::Count(log->lines, "line") + " of this log.",
                        "Lines like \"step 12 loss 2.31 lr 1e-4\", \"loss=2.31 grad_norm=nan\" or "
                        "JSON pairs are understood; error messages of PyTorch as well.");
  }
  return GatherLog(*log, library);
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  const int sources = static_cast<int>(arguments.contains("run")) +
                      static_cast<int>(arguments.contains("log_text")) +
                      static_cast<int>(arguments.contains("log_path"));
  if (sources != 1) {
    return InvalidInput(
        sources == 0 ? "Nothing to diagnose was given."
                     : "`run`, `log_text` and `log_path` exclude one another.",
        "Give `run` (list_runs finds them), or for a run without monitor its console "
        "output as `log_text` or `log_path`.");
  }
  const auto shared_library = cases::SharedLibrary(context.data);
  const cases::CaseLibrary& library = *shared_library;
  Subject subject;
  Facts facts;
  if (arguments.contains("run")) {
    auto source = runs::OpenRun(arguments["run"].get<std::string>(), context.roots, context.cancel);
    if (!source) return source.error();
    subject.run = EscapeControl(FormatRunHandle(source->run.handle));
    subject.name = runs::Name(source->run.name);
    auto gathered = GatherRun(*source, library);
    if (!gathered) return gathered.error();
    facts = *std::move(gathered);
  } else {
    auto gathered = FactsOfLog(arguments, context, library, subject);
    if (!gathered) return gathered.error();
    facts = *std::move(gathered);
  }
  constexpr std::string_view kRuleFolder = "tools/static_check/rules/";
  for (const std::string& path : context.data.List(kRuleFolder, ".md")) {
    facts.known_rules.insert(path.substr(kRuleFolder.size(), path.size() - kRuleFolder.size() - 3));
  }
  AddQuestionHits(arguments.value("question", ""), library, facts);
  if (arguments.contains("paths") && !arguments["paths"].empty()) {
    std::vector<std::string> paths;
    for (const Json& path : arguments["paths"]) paths.push_back(path.get<std::string>());
    if (auto checked = CheckCode(paths, context, facts); !checked) return checked.error();
  }
  const Diagnosis diagnosis = Diagnose(facts, library);
  const size_t bytes = runs::AnswerBytes(arguments, context);
  return ToolOutput{DiagnosisJson(subject, facts, diagnosis, library, bytes),
                    DiagnosisText(subject, facts, diagnosis, bytes)};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "diagnose_run";
  definition.title = "Diagnose a training run";
  definition.description =
      "Answers \"why did my loss go NaN?\" (or diverge, or stop learning): verdict, first bad "
      "step, "
      "the layer that produced it with file:line, ranked documented causes with evidence and "
      "counter-evidence, fix, time line, next measurement. Takes a monitored run (list_runs finds "
      "it), or the console log of any run as log_text or log_path. `paths` of the training code "
      "add "
      "static findings. For figures alone call run_summary; to review code without a run "
      "static_check.";
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"run", {{"type", "string"}, {"minLength", 1}, {"description", runs::kRunArgument}}},
        {"log_text",
         {{"type", "string"}, {"description", "Console output of a run without monitor, pasted."}}},
        {"log_path",
         {{"type", "string"},
          {"minLength", 1},
          {"description", "A text log of a run without monitor."}}},
        {"paths",
         {{"type", "array"},
          {"items", {{"type", "string"}}},
          {"description", "The training code: files or folders."}}},
        {"question",
         {{"type", "string"},
          {"description", "What the user asked; error messages it quotes are evidence."}}},
        {"detail", runs::DetailProperty()}}},
      {"additionalProperties", false}};
  definition.output_schema = DiagnosisSchema();
  definition.command = {.name = "diagnose", .positional = "run"};
  return {std::move(definition), Run};
}

}  // namespace mpnanny::diagnose_run
