#include "engines/diagnosis/summary/summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "engines/diagnosis/other_models.h"
#include "engines/diagnosis/program.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/alerts.h"
#include "engines/runs/discarded.h"
#include "engines/runs/remembered.h"
#include "engines/runs/samples.h"
#include "engines/runs/steps.h"

namespace mpnanny::summary {
namespace {

Result<void> AddAlerts(const runs::Source& source, Summary& summary) {
  std::map<std::pair<std::string, std::string>, AlertGroup> groups;
  std::map<std::pair<std::string, std::string>, std::set<int64_t>> seen;
  runs::Layers layers(source);
  std::optional<Error> failed;
  MPN_TRY(runs::ForEachAlert(source, {}, [&](const runs::AlertRow& row) {
    const std::pair key{std::string(row.severity.text()), std::string(row.type.text())};
    AlertGroup& group = groups[key];
    if (group.count++ == 0) {
      group.type = row.type;
      group.severity = row.severity;
      group.first_step = row.step;
    }
    group.repeats += row.repeats;
    if (runs::SeverityRank(row.severity) == 0) {
      auto discarded = runs::GradientsWereDiscarded(source, row);
      if (!discarded) {
        failed = discarded.error();
        return false;
      }
      group.discarded += *discarded ? 1 : 0;
    }
    if (row.layer_id && seen[key].insert(*row.layer_id).second) {
      ++group.layer_count;
      if (group.layers.size() < kLayersShown) {
        auto layer = layers.Find(*row.layer_id);
        if (!layer) {
          failed = layer.error();
          return false;
        }
        group.layers.push_back(layer->name);
      }
    }
    return true;
  }));
  if (failed) return *failed;
  for (auto& [key, group] : groups) summary.alerts.push_back(std::move(group));
  std::stable_sort(summary.alerts.begin(), summary.alerts.end(),
                   [](const AlertGroup& a, const AlertGroup& b) {
                     const int left = runs::SeverityRank(a.severity);
                     const int right = runs::SeverityRank(b.severity);
                     return left != right ? left < right : a.first_step < b.first_step;
                   });
  return {};
}

Result<void> AddShadow(const runs::Source& source, Summary& summary) {
  ShadowSummary& shadow = summary.shadow;
  MPN_TRY_ASSIGN(auto steps, runs::ReadShadowSteps(source));
  shadow.steps = static_cast<int64_t>(steps.steps.size());
  shadow.seconds = steps.seconds;
  if (steps.extra_seconds && summary.total_duration > 0) {
    shadow.overhead_share = std::min(1.0, *steps.extra_seconds / summary.total_duration);
  }
  std::vector<int64_t> numbers;
  for (const runs::ShadowStep& step : steps.steps) numbers.push_back(step.step);
  auto formats = ReadFormatLosses(source, numbers);
  if (!formats) return formats.error();
  shadow.formats = *std::move(formats);
  MPN_TRY_ASSIGN(auto findings, runs::ReadShadowFindings(source));
  shadow.total = static_cast<int64_t>(findings.rows.size());
  runs::Layers layers(source);
  for (runs::ShadowFinding& finding : findings.rows) {
    if (shadow.findings.size() == kFindingsShown) break;
    MPN_TRY(runs::CompleteFinding(source, finding));
    ShadowSummary::Shown shown{std::move(finding), ""};
    if (shown.finding.layer_id) {
      MPN_TRY_ASSIGN(auto layer, layers.Find(*shown.finding.layer_id));
      shown.module = layer.name;
    }
    shadow.findings.push_back(std::move(shown));
  }
  shadow.notes = std::move(steps.notes);
  for (std::string& note : findings.notes) {
    if (std::find(shadow.notes.begin(), shadow.notes.end(), note) == shadow.notes.end()) {
      shadow.notes.push_back(std::move(note));
    }
  }
  return {};
}

}  // namespace

Result<Summary> Summarize(const runs::Source& source, const ToolContext& context,
                          CancelToken::Clock::duration limit) {
  static runs::Remembered<Summary> remembered(runs::kRunsRemembered);
  // The verdict looks at the program's other models, whose files have stamps of their own.
  const bool alone = diagnosis::OtherModels(source, context.roots, context.cancel).empty();
  const std::string stamp = alone ? runs::StampOfRun(source) : "";
  Summary summary;
  if (const auto known = remembered.Find(stamp)) {
    summary = *known;
    JudgeStability(source.run, summary);
    return summary;
  }
  MPN_TRY_ASSIGN(auto judged, diagnosis::JudgeRun(source, context, limit));
  summary = std::move(judged.steps);
  summary.verdict = std::move(judged.verdict);
  MPN_TRY(AddAlerts(source, summary));
  MPN_TRY(AddShadow(source, summary));
  auto forecasts = ReadForecasts(source);
  if (!forecasts) return forecasts.error();
  summary.forecasts = *std::move(forecasts);
  if (!summary.ended_after) remembered.Keep(stamp, summary);
  JudgeStability(source.run, summary);
  return summary;
}

Result<void> FinishSummary(const runs::Source& source, Summary& summary) {
  MPN_TRY(AddAlerts(source, summary));
  JudgeStability(source.run, summary);
  return {};
}

}  // namespace mpnanny::summary
