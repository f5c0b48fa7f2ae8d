#include "tools/tool.h"

#include "engines/diagnosis/summary/markdown.h"
#include "engines/diagnosis/summary/report.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/pictures/run_pictures.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/log_lines.h"
#include "engines/runs/page.h"
#include "engines/runs/schema.h"

namespace mpnanny::summary {
namespace {

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  MPN_TRY_ASSIGN(auto summary, Summarize(source, context));
  const size_t bytes = runs::AnswerBytes(arguments, context);
  const runs::LogLines lines(source);
  for (std::string& reason : summary.reasons) reason = lines.Located(std::move(reason));
  return ToolOutput{SummaryJson(source, summary, bytes), SummaryText(source, summary, bytes)};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "run_summary";
  definition.title = "Summarize a run";
  definition.description =
      "Tells how one monitored run went: status, steps, loss, loss scale and its moves, skipped "
      "steps, alerts by type, what shadow steps found, the verdict that diagnose_run gives and "
      "its reason. Works on a run that still trains. For the cause of a failure call diagnose_run, "
      "for single alerts query_alerts; list_runs finds runs.";
  definition.brief =
      "How a run went: status, steps, loss, loss scale, skipped steps, alerts by type, the verdict "
      "that diagnose_run gives and its reason. Also of a run that still trains. For the cause of a "
      "failure: diagnose_run; for single alerts: query_alerts.";
  definition.input_schema = {{"type", "object"},
                             {"properties",
                              {{"run", runs::RunProperty()},
                               {"rank", runs::RankProperty()},
                               {"detail", runs::DetailProperty()}}},
                             {"required", {"run"}},
                             {"additionalProperties", false}};
  definition.output_schema = SummarySchema();
  definition.command = {.name = "summary", .positional = "", .options = {{"run", "db"}}};
  definition.command.from_stdin = "run";
  definition.command.formats["md"] = [](const Json& structured, const FormatContext&) {
    return SummaryMarkdown(structured);
  };
  return {std::move(definition), Run, pictures::OfSummary};
}

}  // namespace mpnanny::summary
