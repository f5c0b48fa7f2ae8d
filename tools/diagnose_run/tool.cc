#include "tools/tool.h"

#include "base/files.h"
#include "base/text.h"
#include "engines/diagnosis/answer/report.h"
#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/gather.h"
#include "engines/diagnosis/facts/log_hits.h"
#include "engines/diagnosis/program.h"
#include "engines/diagnosis/watch.h"
#include "engines/pictures/run_pictures.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/page.h"
#include "engines/runs/run.h"
#include "engines/runs/schema.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

Error NothingInLog(const std::string& counts) {
  return InvalidInput(
      "No loss, gradient norm, loss scale or learning rate was found in this log: " + counts + ".",
      "Lines like \"step 12 loss 2.31 lr 1e-4\", \"loss=2.31 grad_norm=nan\" or "
      "JSON pairs are understood; error messages of PyTorch as well.");
}

bool ShowsNothing(const Facts& facts) {
  return facts.summary.steps == 0 && facts.log_hits.empty() && facts.evaluations.count == 0 &&
         facts.spoken.empty();
}

Result<Facts> FactsOfText(const std::string& text, const ToolContext& context,
                          const cases::CaseLibrary& library) {
  auto opened = imports::OpenText(text, "log_text", context.cancel);
  if (!opened) return opened.error();
  const std::string counts = opened->counts;
  MPN_TRY_ASSIGN(auto source, runs::SourceOfLog(*std::move(opened), std::nullopt));
  auto facts = FactsOfLog(source, context, library, &text);
  if (facts && ShowsNothing(*facts)) return NothingInLog(counts);
  return facts;
}

Result<Facts> FactsOfPath(const std::string& log_path, const ToolContext& context,
                          const cases::CaseLibrary& library, Subject& subject) {
  MPN_TRY_ASSIGN(auto path, context.roots.Resolve(log_path));
  subject.name = EscapeControl(path);
  if (runs::LooksLikeDatabase(path) && !imports::IsDatabaseOfLog(path)) {
    return InvalidInput(subject.name + " is a database, not a log.", "Give it as `run`.");
  }
  auto log = imports::OpenLog(path, context.cancel, /*even_without_steps=*/true);
  if (!log) return log.error();
  if (!*log) {
    return InvalidInput(subject.name + " is no log that is understood.",
                        "TensorBoard and W&B folders, CSV, JSON and text logs are.");
  }
  const std::string counts = (*log)->counts;
  MPN_TRY_ASSIGN(auto source, runs::SourceOfLog(**std::move(log), std::nullopt));
  auto facts = FactsOfLog(source, context, library, nullptr);
  if (facts && ShowsNothing(*facts)) return NothingInLog(counts);
  return facts;
}

Request RequestOf(const Json& arguments) {
  Request request{arguments.value("question", "")};
  for (const Json& path : arguments.value("paths", Json::array())) {
    request.paths.push_back(path.get<std::string>());
  }
  return request;
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
  return DiagnoseFacts(RequestOf(arguments), context, library, std::move(subject),
                       *std::move(gathered));
}

Result<Diagnosed> DiagnoseRun(const Json& arguments, const ToolContext& context,
                              const cases::CaseLibrary& library) {
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  return DiagnoseProgram(source, RequestOf(arguments), context, library);
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
  MPN_TRY_ASSIGN(const auto diagnosed, arguments.contains("run")
                                           ? DiagnoseRun(arguments, context, *library)
                                           : DiagnoseLog(arguments, context, *library));
  const auto& [subject, facts, diagnosis] = diagnosed;
  const size_t bytes = runs::AnswerBytes(arguments, context);
  return ToolOutput{DiagnosisJson(subject, facts, diagnosis, *library, bytes, context.chinese_too),
                    DiagnosisText(subject, facts, diagnosis, bytes)};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "diagnose_run";
  definition.title = "Diagnose a training run";
  definition.description =
      "Answers \"why did my loss go NaN?\" (or diverge, or stop learning): verdict, first bad "
      "step, the layer that produced it with file:line, ranked documented causes with evidence and "
      "counter-evidence, fix, time line, next measurement. Takes a monitored run (list_runs finds "
      "it), or of a run without monitor its log (console output, TensorBoard, W&B, CSV, JSON) as "
      "`run`, `log_text` or `log_path`. `paths` of the training code add static findings. For "
      "figures alone call run_summary; to review code without a run static_check.";
  definition.brief =
      "Why a run went NaN, diverged or stopped learning: first bad step, layer, file:line, "
      "ranked causes with evidence for and against, fix, next measurement. Takes a "
      "monitored run (list_runs), or a log (console, TensorBoard, W&B, CSV, JSON) as run, "
      "log_text or log_path. For figures: run_summary; for code without a run: "
      "static_check.";
  definition.brief_arguments = {{"run", "Handle, database, folder or log"},
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

}  // namespace mpnanny::diagnosis
