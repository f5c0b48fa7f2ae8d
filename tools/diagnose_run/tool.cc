#include "tools/tool.h"

#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "tools/diagnose_run/code_evidence.h"
#include "tools/diagnose_run/diagnosis.h"
#include "tools/diagnose_run/gather.h"
#include "tools/diagnose_run/log_hits.h"
#include "tools/diagnose_run/other_models.h"
#include "tools/diagnose_run/report.h"
#include "tools/diagnose_run/watch.h"
#include "tools/pictures/run_pictures.h"
#include "tools/runs/asked_run.h"
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

// The facts of a run without monitor: its figures, and what its console output says in words.
Result<Facts> FactsOfLog(const runs::Source& source, const ToolContext& context,
                         const cases::CaseLibrary& library) {
  std::vector<LogHit> hits;
  for (const std::string& path : source.texts) {
    auto text = imports::ByteSource::OfFile(path);
    if (!text) return text.error();
    auto found = FindLogHits(*std::move(text), library, context.cancel, hits);
    if (!found) return found.error();
  }
  return GatherLog(source, std::move(hits), library);
}

Error NothingInLog(const std::string& counts) {
  return InvalidInput(
      "No loss, gradient norm, loss scale or learning rate was found in this log: " + counts + ".",
      "Lines like \"step 12 loss 2.31 lr 1e-4\", \"loss=2.31 grad_norm=nan\" or "
      "JSON pairs are understood; error messages of PyTorch as well.");
}

Result<Facts> FactsOfText(const std::string& text, const ToolContext& context,
                          const cases::CaseLibrary& library) {
  auto opened = imports::OpenText(text, "log_text", context.cancel);
  if (!opened) return opened.error();
  const std::string counts = opened->counts;
  auto source = runs::SourceOfLog(*std::move(opened), std::nullopt);
  if (!source) return source.error();
  std::vector<LogHit> hits;
  auto found = FindLogHits(imports::ByteSource::OfText(text), library, context.cancel, hits);
  if (!found) return found.error();
  auto facts = GatherLog(*source, std::move(hits), library);
  if (facts && facts->summary.steps == 0 && facts->log_hits.empty()) return NothingInLog(counts);
  return facts;
}

Result<Facts> FactsOfPath(const std::string& log_path, const ToolContext& context,
                          const cases::CaseLibrary& library, Subject& subject) {
  auto path = context.roots.Resolve(log_path);
  if (!path) return path.error();
  subject.name = EscapeControl(*path);
  if (runs::LooksLikeDatabase(*path)) {
    return InvalidInput(subject.name + " is a database, not a log.", "Give it as `run`.");
  }
  auto log = imports::OpenLog(*path, context.cancel, /*even_without_steps=*/true);
  if (!log) return log.error();
  if (!*log) {
    return InvalidInput(subject.name + " is no log that is understood.",
                        "TensorBoard and W&B folders, CSV, JSON and text logs are.");
  }
  const std::string counts = (*log)->counts;
  auto source = runs::SourceOfLog(**std::move(log), std::nullopt);
  if (!source) return source.error();
  auto facts = FactsOfLog(*source, context, library);
  if (facts && facts->summary.steps == 0 && facts->log_hits.empty()) return NothingInLog(counts);
  return facts;
}

// A diagnosis with what it is of and what it stands on.
struct Diagnosed {
  Subject subject;
  Facts facts;
  Diagnosis diagnosis;
};

// The diagnosis of a record whose facts are gathered: with the question and the code.
Result<Diagnosed> DiagnoseFacts(const Json& arguments, const ToolContext& context,
                                const cases::CaseLibrary& library, Subject subject, Facts facts) {
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
  Diagnosis diagnosis = Diagnose(facts, library);
  return Diagnosed{std::move(subject), std::move(facts), std::move(diagnosis)};
}

Result<Diagnosed> DiagnoseSource(const runs::Source& source, const Json& arguments,
                                 const ToolContext& context, const cases::CaseLibrary& library) {
  auto gathered =
      source.format.empty() ? GatherRun(source, library) : FactsOfLog(source, context, library);
  if (!gathered) return gathered.error();
  return DiagnoseFacts(arguments, context, library,
                       {runs::ShownHandle(source), runs::Name(source.run.name), ""},
                       *std::move(gathered));
}

bool IsBad(const Diagnosis& diagnosis) {
  return diagnosis.verdict == "broken" || diagnosis.verdict == "degraded";
}

// A program that trains several models is one training to its user: where the model asked about
// shows nothing, the one that does is the answer.
Result<Diagnosed> DiagnoseProgram(const runs::Source& source, const Json& arguments,
                                  const ToolContext& context, const cases::CaseLibrary& library) {
  auto asked = DiagnoseSource(source, arguments, context, library);
  if (!asked) return asked;
  std::vector<std::string> named;
  for (const runs::Source& model : OtherModels(source, context.roots, context.cancel)) {
    named.push_back(runs::ShownHandle(model));
    if (IsBad(asked->diagnosis)) continue;
    auto other = DiagnoseSource(model, arguments, context, library);
    if (!other || !IsBad(other->diagnosis)) continue;
    other->diagnosis.headline =
        "The fault is in another model of the same program; the one asked about shows none. " +
        other->diagnosis.headline;
    other->subject.asked = asked->subject.run;
    return other;
  }
  if (named.empty()) return asked;
  std::vector<std::string>& limits = asked->diagnosis.limits;
  limits.insert(
      limits.begin(),
      IsBad(asked->diagnosis)
          ? "The program trained other models as well: ask about " + Join(named, ", ") + ", too."
          : "The program trained other models as well, and they show no fault either: " +
                Join(named, ", ") + ".");
  return asked;
}

Result<Diagnosed> DiagnoseLog(const Json& arguments, const ToolContext& context,
                              const cases::CaseLibrary& library) {
  Subject subject;
  subject.name = "log_text";
  auto gathered =
      arguments.contains("log_path")
          ? FactsOfPath(arguments["log_path"].get<std::string>(), context, library, subject)
          : FactsOfText(arguments["log_text"].get<std::string>(), context, library);
  if (!gathered) return gathered.error();
  return DiagnoseFacts(arguments, context, library, std::move(subject), *std::move(gathered));
}

Result<Diagnosed> DiagnoseRun(const Json& arguments, const ToolContext& context,
                              const cases::CaseLibrary& library) {
  auto source = runs::OpenAskedRun(arguments, context);
  if (!source) return source.error();
  return DiagnoseProgram(*source, arguments, context, library);
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
  const auto library = cases::SharedLibrary(context.data);
  const auto diagnosed = arguments.contains("run") ? DiagnoseRun(arguments, context, *library)
                                                   : DiagnoseLog(arguments, context, *library);
  if (!diagnosed) return diagnosed.error();
  const auto& [subject, facts, diagnosis] = *diagnosed;
  const size_t bytes = runs::AnswerBytes(arguments, context);
  return ToolOutput{DiagnosisJson(subject, facts, diagnosis, *library, bytes),
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
      "it), or of a run without monitor its log (console output, TensorBoard, W&B, CSV, JSON) as "
      "run, log_text or log_path. `paths` of the training code "
      "add "
      "static findings. For figures alone call run_summary; to review code without a run "
      "static_check.";
  definition.brief =
      "Why a run went NaN, diverged or stopped learning: first bad step, layer, file:line, "
      "ranked causes with evidence for and against, fix, next measurement. Takes a "
      "monitored run (list_runs), or a log (console, TensorBoard, W&B, CSV, JSON) as run, "
      "log_text or log_path. For figures: run_summary; for code without a run: "
      "static_check.";
  definition.brief_arguments = {{"run", "Handle, database, folder or log"},
                                {"rank", "One rank of a distributed run"},
                                {"log_text", "Pasted console output"},
                                {"paths", "Training code: adds static findings"},
                                {"question", "What the user asked, with its error messages"}};
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"run", runs::RunProperty()},
        {"rank", runs::RankProperty()},
        {"log_text",
         {{"type", "string"}, {"description", "Console output of a run without monitor, pasted."}}},
        {"log_path",
         {{"type", "string"},
          {"minLength", 1},
          {"description", "A log of a run without monitor: file or folder."}}},
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
  definition.command = {.name = "diagnose",
                        .positional = "run",
                        .from_stdin = "run",
                        .state = StateOfRun,
                        .essence = Essence};
  return {std::move(definition), Run, pictures::OfDiagnosis};
}

}  // namespace mpnanny::diagnose_run
