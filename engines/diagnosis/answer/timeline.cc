#include "engines/diagnosis/answer/timeline.h"

#include <algorithm>

#include "base/layer_word.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

using runs::Count;
using runs::Name;
using runs::Number;

namespace {

// What an OVERFLOW tells of is finite where it lies.
constexpr char kBeyondJudged[] =
    " (a finite value, too large for the narrow format that it is judged by)";

std::string MeasuredFirst(const MeasuredFinding& lead) {
  return "measured first: " + runs::FindingName(lead.finding) +
         (lead.finding.source.empty() ? "" : " at " + Name(lead.finding.source));
}

}  // namespace

std::vector<Moment> TimelineOf(const Facts& facts, const std::optional<Onset>& first_bad) {
  const summary::Summary& s = facts.summary;
  std::vector<Moment> line;
  if (!s.first_step) return line;
  std::string start = "starts";
  const std::string& name = facts.progress.loss_name;
  const std::string loss = name.empty() ? "loss" : "loss \"" + Name(name) + '"';
  const bool at_once = s.loss_first_step == s.first_step;
  if (s.loss_first && at_once) start += ", " + loss + ' ' + Number(s.loss_first);
  if (s.scale_first) start += ", loss scale " + Number(s.scale_first);
  line.push_back({*s.first_step, start});
  if (s.loss_first && !at_once) {
    line.push_back({*s.loss_first_step, "first " + loss + ", " + Number(s.loss_first)});
  }
  if (facts.scale.startup_skips > 0) {
    line.push_back({*s.first_step, Count(facts.scale.startup_skips, "step") +
                                       " skipped while the scaler looks for its scale (normal)"});
  }
  // A loss of 0 past the first bad step stands for NaN.
  const bool stands_for_nan =
      s.loss_min == 0.0 && facts.onset && s.loss_min_step >= facts.onset->step;
  if (s.loss_min && s.loss_min_step && !stands_for_nan) {
    line.push_back({*s.loss_min_step, "least " + loss + ", " + Number(s.loss_min)});
  }
  for (const Excursion& each : facts.turns.excursions) {
    std::string what = "the " + loss + " rises from about " + Number(each.before) + " to " +
                       Number(each.peak) + " (step " + std::to_string(each.peak_step) + ")";
    if (each.norm_before && each.norm_peak && *each.norm_peak > 3 * *each.norm_before) {
      what +=
          ", the gradient norm from " + Number(each.norm_before) + " to " + Number(each.norm_peak);
    }
    what += each.over
                ? "; three quarters of the rise are gone at step " + std::to_string(*each.over)
            : *s.last_step - each.step < kAnotherLevel
                ? ", and is not back there at the end"
                : ", and is not back there " + std::to_string(kAnotherLevel) + " steps later";
    line.push_back({each.step, what});
  }
  if (facts.trend && facts.trend->absmax.size() > 1) {
    // First, middle and last point tell the shape; the sentence about it stands in the evidence.
    const auto& points = facts.trend->absmax;
    for (const size_t i : {size_t{0}, points.size() / 2, points.size() - 1}) {
      const std::string what =
          "absmax of " + LayerWord(Name(facts.trend->layer)) + " " + Number(points[i].second, 4);
      if (line.empty() || line.back().what != what) line.push_back({points[i].first, what});
    }
  }
  if (facts.onset && facts.onset->last_clean_sample) {
    line.push_back({*facts.onset->last_clean_sample, "last sample that is finite everywhere"});
  }
  for (const Mechanism& mechanism : facts.measured.mechanisms) {
    const MeasuredFinding& lead = facts.measured.Lead(mechanism);
    line.push_back({lead.finding.step, MeasuredFirst(lead)});
  }
  // The first alert of each type.
  std::vector<Word<AlertType>> types;
  for (const SeenAlert& alert : facts.alerts) {
    if (std::find(types.begin(), types.end(), alert.row.type) != types.end()) continue;
    // What was measured stands in the time line itself.
    if (runs::IsShadowAlert(alert.row.type)) continue;
    types.push_back(alert.row.type);
    if (types.size() > 10) break;
    line.push_back(
        {alert.row.step, "first " + Name(alert.row.type) +
                             (alert.row.type == AlertType::kOverflow ? kBeyondJudged : "") +
                             (alert.layer.empty() ? "" : " at " + LayerWord(Name(alert.layer))) +
                             (alert.derived ? " (from the steps)" : "")});
  }
  if (first_bad)
    line.push_back(
        {first_bad->step, "FIRST BAD" + (first_bad->finding ? std::string(" (as measured)")
                                                            : ": " + first_bad->what.English())});
  if (s.first_nonfinite_loss) {
    line.push_back({*s.first_nonfinite_loss, "first loss that is not finite"});
  }
  if (facts.scale.first_fall)
    line.push_back({*facts.scale.first_fall,
                    "the loss scale falls for the first time, its search at the start aside"});
  if (facts.scale.collapsed_from) {
    line.push_back({*facts.scale.collapsed_from,
                    "loss scale at 1 or below from here on, for 20 steps or more"});
  }
  if (facts.scale.longest_skip_run > 2 && facts.scale.longest_skip_first) {
    line.push_back({*facts.scale.longest_skip_first,
                    Count(facts.scale.longest_skip_run, "step") + " in a row skipped from here"});
  }
  std::string end = std::string("ends (") + NameOf(facts.status) + ")";
  if (!facts.monitored) {
    end = facts.of_file && facts.of_file->run_id != 1 ? "the run ends" : "the log ends";
  }
  if (s.loss_last) end += ", " + loss + ' ' + Number(s.loss_last);
  if (s.scale_last) end += ", loss scale " + Number(s.scale_last);
  line.push_back({*s.last_step, end});
  std::stable_sort(line.begin(), line.end(),
                   [](const Moment& a, const Moment& b) { return a.step < b.step; });
  return line;
}

}  // namespace mpnanny::diagnosis
