#include "tools/tool.h"

#include "base/text.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/page.h"
#include "engines/runs/schema.h"
#include "engines/runs/show.h"
#include "tools/list_runs/listing.h"
#include "tools/list_runs/verdicts.h"

namespace mpnanny::list_runs {
namespace {

using runs::Number;

constexpr size_t kReservedBytes = 1500;

std::string Handle(const ListedRun& listed) {
  return EscapeControl(FormatRunHandle(listed.run.handle));
}

// "ERROR LOSS_NAN"
std::string WorstAlert(const ListedRun& listed) {
  return runs::Name(std::string(listed.worst_severity.text()) + " " +
                    std::string(listed.worst_type.text()));
}

Json RowJson(const ListedRun& listed, std::optional<Health> verdict) {
  const runs::Run& run = listed.run;
  Json row = {
      {"run", Handle(listed)},
      {"name", runs::Name(run.name)},
      {"status", NameOf(run.status)},
      {"verdict", verdict ? Json(NameOf(*verdict)) : Json(nullptr)},
      {"started_at", runs::Time(run.started_at)},
      {"steps", listed.steps},
      {"last_loss", JsonNumber(listed.last_loss)},
      {"precision", run.precision.empty() ? Json(nullptr) : Json(run.precision.text())},
      {"worst_alert", listed.worst_severity.empty() ? Json(nullptr) : Json(WorstAlert(listed))}};
  if (!listed.place.empty()) row["place"] = runs::Name(listed.place);
  if (!listed.format.empty()) row["format"] = listed.format;
  if (run.world_size > 1) {
    row["ranks"] = listed.ranks.size();
    row["world_size"] = run.world_size;
    row["worst_rank"] = listed.worst_rank ? Json(*listed.worst_rank) : Json(nullptr);
  }
  return row;
}

std::string RowText(const ListedRun& listed, std::optional<Health> verdict) {
  const runs::Run& run = listed.run;
  std::string line = Handle(listed) + "  " +
                     (verdict ? summary::VerdictWords(*verdict, run.status) + ", " : "") +
                     NameOf(run.status) + ", " + runs::Count(listed.steps, "step") +
                     ", last loss " + Number(listed.last_loss);
  if (run.world_size > 1) {
    const auto here = static_cast<int64_t>(listed.ranks.size());
    line += ", " + (here < run.world_size ? std::to_string(here) + " of " : "") +
            std::to_string(run.world_size) + " ranks";
  }
  if (!run.precision.empty()) line += ", " + std::string(run.precision.text());
  if (!listed.worst_severity.empty()) {
    line += ", worst alert " + WorstAlert(listed) + " at step " +
            std::to_string(listed.worst_step.value_or(0));
    if (listed.worst_rank) line += " on rank " + std::to_string(*listed.worst_rank);
  } else if (listed.format.empty()) {
    line += ", no alerts";
  } else {
    line += ", read from " + listed.format;
  }
  const std::string started = runs::Time(run.started_at);  // not every log tells it
  return line + (started.empty() ? "" : ", started " + started) + ", \"" + runs::Name(run.name) +
         "\"" + (listed.place.empty() ? "" : " in " + runs::Name(listed.place));
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  const std::string path = arguments.value("path", ".");
  MPN_TRY_ASSIGN(auto listing, ListRuns(path, context.roots, context.cancel));

  // The cursor is the handle of the last run shown: what is added meanwhile moves nothing.
  size_t first = 0;
  if (const std::string cursor = arguments.value("cursor", ""); !cursor.empty()) {
    while (first < listing.runs.size() && Handle(listing.runs[first]) != cursor) ++first;
    if (first++ == listing.runs.size()) {
      return InvalidInput("cursor '" + EscapeControl(cursor, 200) + "' names no run of this path.",
                          "Give next_cursor of the answer before, with the same path.");
    }
  }
  size_t notes_bytes = 0;
  for (const std::string& note : listing.notes) notes_bytes += note.size() + 4;
  runs::Page page(runs::AnswerBytes(arguments, context), kReservedBytes + notes_bytes);
  size_t next = first;
  Verdicts verdicts(context);
  for (; next < listing.runs.size(); ++next) {
    MPN_TRY(context.cancel.Check());
    const ListedRun& listed = listing.runs[next];
    const std::optional<Health> verdict = verdicts.Of(listed);
    if (!page.Add(RowJson(listed, verdict), RowText(listed, verdict))) break;
  }
  if (const int64_t left_out = verdicts.left_out(); left_out > 0) {
    listing.notes.push_back(runs::Count(left_out, "run") +
                            (left_out == 1 ? " has no verdict here" : " have no verdict here") +
                            ": the time for it was over. diagnose_run tells it.");
  }

  const size_t total = listing.runs.size();
  ToolOutput output;
  output.structured = {{"runs", page.TakeRows()}, {"total", total}};
  if (next < total) output.structured["next_cursor"] = Handle(listing.runs[next - 1]);
  output.structured["databases"] = listing.databases;
  output.structured["notes"] = listing.notes;

  if (total == 0) {
    output.text =
        "No monitored run, and no log of another program, at or below " + EscapeControl(path, 500) +
        ". `mpnanny run -- python train.py`, or MixedPrecisionNanny(model) in the script, "
        "records a run into nanny_logs/metrics.db.\n";
  } else {
    output.text =
        runs::Count(static_cast<int64_t>(total), "run") + " in " +
        runs::Count(static_cast<int64_t>(listing.databases), "database") +
        (listing.logs > 0 ? " and " + runs::Count(static_cast<int64_t>(listing.logs), "log") +
                                " of other programs"
                          : "") +
        ", newest first" + (first > 0 ? " (from number " + std::to_string(first + 1) + ")" : "") +
        ":\n" + page.text();
  }
  for (const std::string& note : listing.notes) output.text += "Note: " + note + "\n";
  if (next < total) {
    output.text += std::to_string(total - next) + " more: call list_runs with cursor \"" +
                   Handle(listing.runs[next - 1]) + "\".\n";
  }
  if (total > 0) {
    output.text +=
        "Next: diagnose_run with a run tells why it went wrong, run_summary how it went.\n";
  }
  return output;
}

Json OutputSchema() {
  Json run = runs::ObjectSchema(
      {{"run", runs::TextSchema("What other tools take as `run`.")},
       {"name", runs::TextSchema("The run's name.")},
       {"status", {{"enum", {"running", "closed", "exception", "killed"}}}},
       {"verdict",
        {{"enum", {"healthy", "broken", "degraded", "not_established", nullptr}},
         {"description",
          "diagnose_run's; null: not read (of a team's database none is), or not in time "
          "(notes)."}}},
       {"started_at", runs::TextSchema("ISO 8601, UTC.")},
       {"steps", runs::IntegerSchema("Recorded steps.")},
       {"last_loss", runs::NumberSchema("The last logged loss.")},
       {"precision", runs::TextSchema("What values are judged by.", true)},
       {"worst_alert",
        runs::TextSchema("\"<severity> <type>\" of the first among the worst.", true)}});
  run["properties"]["place"] =
      runs::TextSchema("Folder or file that tells it from others of its name; absent: no other.");
  run["properties"]["format"] = runs::TextSchema("Of another program's log.");
  run["properties"]["ranks"] = runs::IntegerSchema("Ranks whose databases are here.");
  run["properties"]["world_size"] = runs::IntegerSchema("Ranks it had.");
  run["properties"]["worst_rank"] = runs::IntegerSchema("The rank of worst_alert.", true);
  Json schema = runs::ObjectSchema(
      {{"runs", runs::ListSchema(run, "Newest first.")},
       {"total", runs::IntegerSchema("Runs found, shown or not.")},
       {"databases", runs::IntegerSchema("Databases they lie in.")},
       {"notes", runs::ListSchema({{"type", "string"}}, "What could not be read.")}});
  schema["properties"]["next_cursor"] = runs::TextSchema("Give it as `cursor` for more.");
  return schema;
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "list_runs";
  definition.title = "List training runs";
  definition.description =
      "Lists the training runs at a database or anywhere below a folder, newest first: handle, "
      "verdict, status, steps, last loss, worst alert; the monitor's, and logs of other programs "
      "(TensorBoard and W&B folders, trainer_state.json, metrics.csv). Use it to find the run "
      "that run_summary, query_alerts and diagnose_run take. It finds no console logs: give "
      "diagnose_run the path of one.";
  definition.brief =
      "Finds runs (monitored, TensorBoard, W&B, HF, Lightning) below a file or folder, newest "
      "first: verdict, status, steps, last loss, worst alert, and the handle that the other tools "
      "take. Then: diagnose_run.";
  definition.brief_arguments = {{"path", "File or folder"}};
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"path",
         {{"type", "string"},
          {"default", "."},
          {"description",
           "A monitor's database (metrics.db), a folder to search, or a team's database "
           "(postgresql://host/db)."}}},
        {"cursor", {{"type", "string"}, {"description", "next_cursor of the answer before."}}},
        {"detail", runs::DetailProperty()}}},
      {"additionalProperties", false}};
  definition.output_schema = OutputSchema();
  definition.command = {.name = "runs", .positional = "path"};
  return {std::move(definition), Run};
}

}  // namespace mpnanny::list_runs
