#include "tools/tool.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include "base/text.h"
#include "engines/cases/vocabulary.h"
#include "engines/runs/alert_detail.h"
#include "engines/runs/alerts.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/page.h"
#include "engines/runs/ranks.h"
#include "engines/runs/samples.h"
#include "engines/runs/schema.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"
#include "tools/query_alerts/alert_cases.h"
#include "tools/query_alerts/alert_counts.h"
#include "tools/query_alerts/alert_finding.h"

namespace mpnanny::query_alerts {
namespace {

using runs::Number;

constexpr size_t kReservedBytes = 1600;
constexpr size_t kMessageBytes = 240;
constexpr std::chrono::seconds kTimeLimit{8};
constexpr size_t kRanksShown = 16;

Result<Cursor> ParseCursor(const std::string& text) {
  Cursor cursor;
  const char* const end = text.data() + text.size();
  auto [dot, first] = std::from_chars(text.data(), end, cursor.step);
  if (first == std::errc() && dot != end && *dot == '.') {
    const auto [rest, second] = std::from_chars(dot + 1, end, cursor.alert_id);
    if (second == std::errc() && rest == end) return cursor;
  }
  return InvalidInput("cursor '" + EscapeControl(text, 60) + "' is not one of query_alerts.",
                      "Give next_cursor of the answer before, with the same filters.");
}

std::string CursorAfter(const runs::AlertRow& row) {
  return std::to_string(row.step) + "." + std::to_string(row.alert_id);
}

Result<runs::AlertFilter> ReadFilter(const Json& arguments, runs::Layers& layers) {
  runs::AlertFilter filter;
  const auto words = [&](const char* key) {
    std::vector<std::string> list;
    for (const Json& word : arguments.value(key, Json::array())) list.push_back(word);
    return list;
  };
  filter.severities = words("severity");
  filter.types = words("type");
  if (const std::string steps = arguments.value("steps", ""); !steps.empty()) {
    MPN_TRY_ASSIGN(auto range, runs::ParseStepRange(steps));
    filter.steps = range;
  }
  if (const auto globs = words("layer"); !globs.empty()) {
    auto ids = layers.Matching(globs, /*all_ranks=*/true);
    if (!ids) return ids.error();
    if (ids->empty()) {
      return NotFound(
          "No layer of this run fits '" + EscapeControl(Join(globs, "', '"), 200) + "'.",
          "Globs are matched with the whole name: '*attn*' finds 'blocks.0.attn.q'.");
    }
    filter.layer_ids = *std::move(ids);
  }
  return filter;
}

using Finding = std::optional<runs::ShadowFinding>;

// Of an alert that a shadow step raised the sentence is made here, from its finding.
std::string Message(const runs::AlertRow& row, const std::string& layer, const Finding& finding) {
  if (finding) return runs::FindingText(*finding, layer);
  const std::string batch = runs::BatchText(runs::ParseAlertDetail(row.detail), row.step);
  return EscapeControl(row.message, kMessageBytes) + (batch.empty() ? "" : " The " + batch + ".");
}

Json RowJson(const runs::AlertRow& row, const std::string& layer, const Finding& finding,
             const std::vector<std::string>& cases) {
  Json json = {{"step", row.step},
               {"phase", row.phase.empty() ? Json(nullptr) : Json(EscapeControl(row.phase, 40))},
               {"layer", layer.empty() ? Json(nullptr) : Json(runs::Name(layer))},
               {"type", runs::Name(row.type)},
               {"severity", runs::Name(row.severity)},
               {"value", JsonNumber(row.value)},
               {"threshold", JsonNumber(row.threshold)},
               {"producer", row.producer ? Json(*row.producer != 0) : Json(nullptr)},
               {"message", Message(row, layer, finding)},
               {"cases", cases}};
  if (finding) json["finding"] = runs::FindingJson(*finding, layer, /*full=*/false);
  if (row.kind) json["kind"] = runs::KindName(row.kind);
  if (row.repeats > 1) {
    json["repeats"] = row.repeats;
    if (row.last_step) json["last_step"] = *row.last_step;
  }
  if (!row.ranks.empty()) {
    json["ranks"] = Json(std::vector<int64_t>(
        row.ranks.begin(),
        row.ranks.begin() + static_cast<ptrdiff_t>(std::min(kRanksShown, row.ranks.size()))));
    json["rank_count"] = row.ranks.size();
  }
  return json;
}

std::string RowText(const runs::AlertRow& row, int64_t world_size, const std::string& layer,
                    const Finding& finding, const std::vector<std::string>& cases) {
  std::string line = "step " + std::to_string(row.step) + "  " + runs::Name(row.severity) + " " +
                     runs::Name(row.type);
  // A finding's text names both.
  if (!finding && !row.phase.empty()) line += " in " + EscapeControl(row.phase, 40);
  if (!finding && !layer.empty()) line += " at " + runs::Name(layer);
  if (row.kind) line += " (" + runs::KindName(row.kind) + ")";
  if (!row.ranks.empty()) line += " on " + runs::RanksText(row.ranks, world_size);
  line += ": " + Message(row, layer, finding);
  if (row.value) line += " [value " + Number(row.value);
  if (row.value && row.threshold) line += ", limit " + Number(row.threshold);
  if (row.value) line += "]";
  if (row.producer) line += *row.producer != 0 ? " PRODUCER" : " carrier";
  if (row.repeats > 1) {
    line += ", seen " + std::to_string(row.repeats) + " times" +
            (row.last_step ? " up to step " + std::to_string(*row.last_step) : "");
  }
  if (!cases.empty()) line += "; cases: " + Join(cases, ", ");
  return line;
}

using Groups = decltype(AlertCounts::groups);

std::string GroupsText(const Groups& groups) {
  std::vector<std::string> parts;
  for (const auto& [key, group] : groups) {
    if (parts.size() == 12) {
      parts.push_back("and " + std::to_string(groups.size() - 12) + " more types");
      break;
    }
    parts.push_back(std::to_string(group.count) + " " + runs::Name(std::get<1>(key)) + " " +
                    runs::Name(std::get<2>(key)) + " from step " +
                    std::to_string(group.first_step));
  }
  return Join(parts, ", ");
}

// Reading begins where the next alert of a type asked for is: errors may come after a million
// warnings.
void SkipTo(const AlertCounts& counts, const std::optional<Cursor>& after,
            runs::AlertFilter& filter) {
  std::optional<int64_t> first;
  for (const auto& [key, group] : counts.groups) {
    if (!first || group.first_step < *first) first = group.first_step;
  }
  if (first) filter.steps.first = std::max(filter.steps.first, *first);
  if (after) filter.steps.first = std::max(filter.steps.first, after->step);
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  source.database->LimitTime(kTimeLimit);
  runs::Layers layers(source);
  MPN_TRY_ASSIGN(auto filter, ReadFilter(arguments, layers));
  std::optional<Cursor> after;
  if (const std::string text = arguments.value("cursor", ""); !text.empty()) {
    MPN_TRY_ASSIGN(auto cursor, ParseCursor(text));
    after = cursor;
  }

  const auto shared_library = cases::SharedLibrary(context.data);
  const cases::CaseLibrary& library = *shared_library;
  AlertCases explaining(library);
  runs::Page page(runs::AnswerBytes(arguments, context), kReservedBytes);
  AlertCounts counts;
  Groups& groups = counts.groups;
  int64_t &total = counts.total, &before = counts.before;
  const bool counted = CanCount(source, filter);
  if (counted) {
    auto read = CountAlerts(source, filter, after);
    if (!read) return read.error();
    counts = *std::move(read);
    SkipTo(counts, after, filter);
  }
  bool full = false;
  std::string next_cursor;
  int64_t last_step = 0;
  std::optional<Error> failed;
  auto read = runs::ForEachAlert(source, filter, [&](const runs::AlertRow& row) {
    if (!counted) {
      ++total;
      Group& group = groups[{runs::SeverityRank(row.severity), std::string(row.severity.text()),
                             std::string(row.type.text())}];
      if (group.count++ == 0) group.first_step = row.step;
      last_step = row.step;
    }
    if (after && std::pair(row.step, row.alert_id) <= std::pair(after->step, after->alert_id)) {
      if (!counted) ++before;
      return true;
    }
    if (full) return !counted;
    std::string layer;
    if (row.layer_id) {
      auto found = layers.Find(*row.layer_id);
      if (!found) {
        failed = found.error();
        return false;
      }
      layer = found->name;
    }
    const std::vector<std::string>& cases = explaining.Of(row, layer);
    auto finding = FindingOf(source, row);
    if (!finding) {
      failed = finding.error();
      return false;
    }
    if (page.Add(RowJson(row, layer, *finding, cases),
                 RowText(row, source.run.world_size, layer, *finding, cases))) {
      next_cursor = CursorAfter(row);
    } else {
      full = true;
    }
    return !counted || !full;
  });
  if (!read) {
    // Stopped by the tool's own limit: what there is, and so it says.
    const bool ours = read.error().kind == ErrorKind::kDeadlineExceeded &&
                      !source.database->cancel().stop_requested();
    if (!ours || page.size() == 0) return read.error();
    source.notes.insert(source.notes.begin(),
                        "Stopped at the time limit: alerts after step " +
                            std::to_string(last_step) +
                            " are not counted. A narrower `steps` looks at all of its own.");
  }
  if (failed) return *failed;

  const std::string handle = runs::ShownHandle(source);
  const auto shown = static_cast<int64_t>(page.size());
  ToolOutput output;
  Json by_type = Json::array();
  for (const auto& [key, group] : groups) {
    if (by_type.size() == 12) break;
    by_type.push_back({{"severity", runs::Name(std::get<1>(key))},
                       {"type", runs::Name(std::get<2>(key))},
                       {"count", group.count},
                       {"first_step", group.first_step}});
  }
  const std::string text_rows = page.text();
  output.structured = {{"alerts", page.TakeRows()}, {"total", total}};
  if (full) output.structured["next_cursor"] = next_cursor;
  output.structured["run"] = handle;
  output.structured["by_type"] = std::move(by_type);
  output.structured["notes"] = source.notes;

  if (total == 0) {
    const bool filtered = arguments.contains("severity") || arguments.contains("type") ||
                          arguments.contains("layer") || arguments.contains("steps");
    output.text = handle + ": no alert" + (filtered ? " fits these filters" : "") + ".\n";
  } else {
    output.text = handle + ": " + runs::Count(total, "alert") + ": " + GroupsText(groups) + ".\n" +
                  (before > 0 ? "(" + std::to_string(before) + " on earlier pages)\n" : "") +
                  text_rows;
  }
  for (const std::string& note : source.notes) output.text += "Note: " + note + "\n";
  if (full) {
    output.text += std::to_string(total - before - shown) +
                   " more: call query_alerts with cursor \"" + next_cursor + "\".\n";
  }
  if (total > 0) {
    output.text +=
        "Next: diagnose_run ranks the causes; mpnanny://alerts/{type} explains an alert.\n";
  }
  return output;
}

Json OutputSchema() {
  Json alert = runs::ObjectSchema(
      {{"step", runs::IntegerSchema("Step of the first.")},
       {"phase", runs::TextSchema("data, forward, loss, backward or optimizer.", true)},
       {"layer", runs::TextSchema("Module or parameter.", true)},
       {"type", runs::TextSchema("Alert type; mpnanny://alerts/{type} explains it.")},
       {"severity", runs::TextSchema("ERROR, WARNING or INFO.")},
       {"value", runs::NumberSchema("What was measured.")},
       {"threshold", runs::NumberSchema("The limit it passed.")},
       {"producer",
        {{"type", {"boolean", "null"}},
         {"description", "true: its inputs were clean; false: it only carries."}}},
       {"message", runs::TextSchema("In words.")},
       {"cases", runs::ListSchema({{"type", "string"}}, "Knowledge cases that show this alert.")}});
  alert["properties"]["kind"] = runs::TextSchema("Which tensor of the layer.");
  alert["properties"]["finding"] = runs::FindingSchema("Of a SHADOW_ alert.");
  alert["properties"]["ranks"] = runs::ListSchema(
      {{"type", "integer"}}, "Ranks of a distributed run that told it, the first 16.");
  alert["properties"]["rank_count"] = runs::IntegerSchema("How many ranks told it.");
  alert["properties"]["repeats"] = runs::IntegerSchema("Times it was seen, if more than once.");
  alert["properties"]["last_step"] = runs::IntegerSchema("Step at which it was last seen.");
  const Json group =
      runs::ObjectSchema({{"severity", runs::TextSchema("Severity.")},
                          {"type", runs::TextSchema("Type.")},
                          {"count", runs::IntegerSchema("Alerts that fit.")},
                          {"first_step", runs::IntegerSchema("Step of the first.")}});
  Json schema = runs::ObjectSchema(
      {{"alerts", runs::ListSchema(alert, "In order of time.")},
       {"total", runs::IntegerSchema("Alerts that fit the filters, shown or not.")},
       {"run", runs::TextSchema("Handle.")},
       {"by_type", runs::ListSchema(group, "All that fit, counted; worst first.")},
       {"notes", runs::ListSchema({{"type", "string"}}, "What limits the record.")}});
  schema["properties"]["next_cursor"] = runs::TextSchema("Give it as `cursor` for more.");
  return schema;
}

Json WordList(const std::vector<std::string>& words, const std::string& description) {
  return {{"type", "array"},
          {"items", {{"type", "string"}, {"enum", words}}},
          {"description", description}};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "query_alerts";
  definition.title = "List a run's alerts";
  definition.description =
      "Lists the alerts of one monitored run in order of time, by severity, type, layer and step, "
      "each with its value, limit, whether the layer produced or only carried it, and the "
      "knowledge cases that explain it. For the cause of a failure call diagnose_run first; "
      "run_summary counts alerts by type.";
  definition.brief =
      "Lists a run's alerts in order of time: value, limit, whether the layer produced or "
      "only carried it, knowledge cases. For the cause of a failure: diagnose_run first; "
      "run_summary counts alerts by type.";
  definition.brief_arguments = {{"type", "NAN, OVERFLOW, LOSS_SPIKE …"},
                                {"layer", "Names or globs (*attn*)"}};
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"run", runs::RunProperty()},
        {"rank", runs::RankProperty()},
        {"severity", WordList({"ERROR", "WARNING", "INFO"}, "Only these severities.")},
        {"type", WordList(cases::NameList(cases::kAlertTypes), "Only these alert types.")},
        {"layer",
         {{"type", "array"},
          {"items", {{"type", "string"}}},
          {"description", "Layer names or globs (\"*attn*\"); one of them must fit."}}},
        {"steps",
         {{"type", "string"},
          {"description", "\"100..200\" (both ends in), \"100..\", \"..200\" or \"100\"."}}},
        {"cursor", {{"type", "string"}, {"description", "next_cursor of the answer before."}}},
        {"detail", runs::DetailProperty()}}},
      {"required", {"run"}},
      {"additionalProperties", false}};
  definition.output_schema = OutputSchema();
  definition.command = {.name = "alerts", .positional = "", .options = {{"run", "db"}}};
  definition.command.from_stdin = "run";
  return {std::move(definition), Run};
}

}  // namespace mpnanny::query_alerts
