#include "tools/query_stats/findings_report.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/runs/page.h"
#include "engines/runs/samples.h"
#include "engines/runs/shadow.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::query_stats {
namespace {

constexpr size_t kFindingsReserve = 1500;
constexpr char kMeaning[] =
    "relative L2 error of an operator's result against the same step computed in FP64";

std::string FindingCursor(const runs::ShadowFinding& finding) {
  return std::to_string(finding.part) + "." + std::to_string(finding.finding_id);
}

Result<size_t> FindingAfter(const std::vector<runs::ShadowFinding>& rows,
                            const std::string& cursor) {
  if (cursor.empty()) return size_t{0};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (FindingCursor(rows[i]) == cursor) return i + 1;
  }
  return InvalidInput("cursor '" + EscapeControl(cursor, 60) + "' is not one of this question.",
                      "Give next_cursor of the answer before, with the same arguments.");
}

Json RowJson(const runs::ShadowFinding& finding, const std::string& module) {
  const Json error = JsonNumber(finding.error_out, 3);
  Json points = Json::array();
  points.push_back(Json::array({finding.step, error}));
  if (finding.last_step && *finding.last_step > finding.step) {
    points.push_back(Json::array({*finding.last_step, error}));
  }
  return {{"layer", module.empty() ? Json(nullptr) : Json(runs::Name(module))},
          {"kind", EscapeControl(finding.kind, 40)},
          {"points", std::move(points)},
          {"finding", runs::FindingJson(finding, module)}};
}

std::string WhyNone(const runs::ShadowSteps& steps, const Question& question) {
  if (!steps.steps.empty() && question.layers.all) {
    return "Shadow steps found nothing: what was held agrees with FP64.\n";
  }
  if (!steps.steps.empty()) return "Shadow steps found nothing in these layers.\n";
  return "No shadow step lies in this range: they are few, and runs of an earlier monitor have "
         "none.\n";
}

}  // namespace

Result<ToolOutput> ReportFindings(const runs::Source& source, const Question& question,
                                  const ReportOptions& options) {
  MPN_TRY_ASSIGN(auto steps, runs::ReadShadowSteps(source, question.steps));
  runs::ShadowFilter filter{question.steps, {}};
  if (!question.layers.all) filter.layer_ids = question.layers.ids;
  MPN_TRY_ASSIGN(auto found, runs::ReadShadowFindings(source, filter));
  std::vector<runs::ShadowFinding>& rows = found.rows;
  MPN_TRY_ASSIGN(auto first, FindingAfter(rows, options.cursor));
  const size_t total =
      question.top ? std::min(rows.size(), static_cast<size_t>(*question.top)) : rows.size();

  runs::Layers layers(source);
  runs::Page page(options.bytes, kFindingsReserve);
  size_t shown = std::min(first, total);
  const size_t begin = shown;
  for (; shown < total; ++shown) {
    MPN_TRY(runs::CompleteFinding(source, rows[shown]));
    std::string module;
    if (rows[shown].layer_id) {
      MPN_TRY_ASSIGN(auto layer, layers.Find(*rows[shown].layer_id));
      module = layer.name;
    }
    if (!page.Add(RowJson(rows[shown], module),
                  runs::FindingLine(rows[shown], module, source.run.world_size))) {
      break;
    }
  }

  std::vector<std::string> notes = options.notes;
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& note : more) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
  };
  add(found.notes);
  add(steps.notes);
  add(source.notes);
  const auto looked_at = static_cast<int64_t>(steps.steps.size());
  const std::string handle = runs::ShownHandle(source);
  ToolOutput output;
  output.text = handle + ": " + runs::Count(static_cast<int64_t>(total), "finding") + " of " +
                runs::Count(looked_at, "shadow step") + " (" + kMeaning + ")";
  if (begin > 0) output.text += ", " + std::to_string(begin) + " on earlier pages";
  output.text += ".\n" + page.text();
  if (rows.empty()) output.text += WhyNone(steps, question);
  for (const std::string& note : notes) output.text += "Note: " + note + "\n";
  output.structured = {{"metric", "findings"},
                       {"unit", "ratio"},
                       {"series", page.TakeRows()},
                       {"omitted", 0},
                       {"total", total},
                       {"run", handle},
                       {"meaning", kMeaning},
                       {"aggregate", "finding"},
                       {"steps",
                        {{"looked_at", looked_at},
                         {"recorded", looked_at},
                         {"all", true},
                         {"first", looked_at > 0 ? Json(steps.steps.front().step) : Json(nullptr)},
                         {"last", looked_at > 0 ? Json(steps.steps.back().step) : Json(nullptr)}}},
                       {"notes", notes}};
  if (shown < total) {
    const std::string cursor = FindingCursor(rows[shown - 1]);
    output.structured["next_cursor"] = cursor;
    output.text += std::to_string(total - shown) +
                   " more findings: call query_stats with cursor \"" + cursor + "\".\n";
  }
  if (total > 0) {
    output.text +=
        "Next: metric \"shadow_error\" shows how far each layer is from FP64; diagnose_run ranks "
        "the causes.\n";
  }
  return output;
}

}  // namespace mpnanny::query_stats
