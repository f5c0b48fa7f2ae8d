#include "tools/diagnose_run/gather.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "tools/diagnose_run/onset.h"
#include "tools/diagnose_run/stat_signals.h"
#include "tools/diagnose_run/step_course.h"
#include "tools/diagnose_run/trend.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

Result<void> GatherAlerts(const runs::Source& source, runs::Layers& layers, Facts& facts) {
  std::optional<Error> failed;
  int64_t left_out = 0;
  auto read = runs::ForEachAlert(source, {}, [&](const runs::AlertRow& row) {
    if (facts.alerts.size() >= kAlertsKept) {
      ++left_out;
      return true;
    }
    SeenAlert alert;
    alert.row = row;
    if (row.layer_id) {
      auto layer = layers.Find(*row.layer_id);
      if (!layer) {
        failed = layer.error();
        return false;
      }
      alert.layer = layer->name;
    }
    facts.alerts.push_back(std::move(alert));
    return true;
  });
  if (!read) return read.error();
  if (failed) return *failed;
  if (left_out > 0) {
    facts.limits.push_back("Only the first " + std::to_string(kAlertsKept) +
                           " alerts were weighed, " + std::to_string(left_out) +
                           " later ones were not.");
  }
  return {};
}

// What steps prove and no alert says: types that the monitor raised itself are left to it.
void AddDerived(const StepCourse& course, Facts& facts) {
  std::set<std::string> known;
  for (const SeenAlert& alert : facts.alerts) known.insert(alert.row.type);
  for (SeenAlert& alert : course.DerivedAlerts()) {
    if (!known.contains(alert.row.type)) facts.alerts.push_back(std::move(alert));
  }
  std::stable_sort(facts.alerts.begin(), facts.alerts.end(),
                   [](const SeenAlert& a, const SeenAlert& b) { return a.row.step < b.row.step; });
}

Result<void> NoteLimits(const runs::Source& source, Facts& facts) {
  const runs::Run& run = source.run;
  std::vector<std::string>& limits = facts.limits;
  limits.insert(limits.end(), source.notes.begin(), source.notes.end());
  // Before the first bad step: a broken step may lack gradients that every other one has.
  const int64_t last = facts.onset ? facts.onset->step - 1 : std::numeric_limits<int64_t>::max();
  auto sampled = runs::LastSampledSteps(source, {std::numeric_limits<int64_t>::min(), last}, 4);
  if (!sampled) return sampled.error();
  if (sampled->empty()) {
    sampled = runs::LastSampledSteps(source, {}, 4);
    if (!sampled) return sampled.error();
  }
  if (sampled->empty()) {
    limits.push_back("No statistics of tensors were recorded, so no layer can be named from them.");
  } else {
    auto rows = runs::ReadSample(source, sampled->front());
    if (!rows) return rows.error();
    for (const runs::TensorRow& row : *rows) {
      facts.has_activations = facts.has_activations || row.kind == runs::kActivation;
      facts.has_gradients = facts.has_gradients || row.kind == runs::kGradient ||
                            row.kind == runs::kActivationGradient;
      facts.has_weights = facts.has_weights || row.kind == runs::kWeight;
    }
    if (run.trace_interval && *run.trace_interval > 1) {
      limits.push_back("Full statistics exist for every " + std::to_string(*run.trace_interval) +
                       "th step only (and for those after an ERROR); between them only a "
                       "non-finite flag a layer is watched.");
    }
    if (!facts.has_activations) limits.push_back("No activations were recorded.");
    if (!facts.has_gradients) limits.push_back("No gradients were recorded.");
  }
  if (facts.status == runs::Status::kKilled && !source.ring.present) {
    limits.push_back(
        "The run was killed and its flight recorder is not here: its last steps may be "
        "missing.");
  }
  if (facts.summary.steps > 0 && !facts.summary.loss_first) limits.push_back("No loss was logged.");
  if (facts.status == runs::Status::kRunning) {
    limits.push_back("The run still goes on: this is how it stands now.");
  }
  if (auto notes = ParseJson(run.notes); notes && notes->is_array()) {
    for (const Json& note : *notes) {
      if (limits.size() >= 10) break;
      limits.push_back(
          "The monitor notes: " +
          EscapeControl(note.is_string() ? note.get<std::string>() : DumpJson(note), 300));
    }
  }
  return {};
}

}  // namespace

Result<Facts> GatherRun(const runs::Source& source, const cases::CaseLibrary& library) {
  Facts facts;
  facts.status = source.run.status;
  facts.precision = source.run.precision;
  auto summary = run_summary::Summarize(source);
  if (!summary) return summary.error();
  facts.summary = *std::move(summary);

  runs::Layers layers(source);
  if (auto alerts = GatherAlerts(source, layers, facts); !alerts) return alerts.error();
  StepCourse course;
  auto steps = runs::ForEachStep(source, {}, [&](const runs::StepRow& row) {
    course.Add(row);
    return true;
  });
  if (!steps) return steps.error();
  course.Finish(facts);

  auto onset = FindOnset(source, facts, course, layers);
  if (!onset) return onset.error();
  facts.onset = *std::move(onset);
  AddDerived(course, facts);
  if (facts.onset) {
    auto trend = FindTrend(source, facts, layers);
    if (!trend) return trend.error();
    facts.trend = *std::move(trend);
  }
  auto hits = FindStatSignals(source, facts, library, layers);
  if (!hits) return hits.error();
  facts.stat_hits = *std::move(hits);
  if (auto limits = NoteLimits(source, facts); !limits) return limits.error();
  return facts;
}

}  // namespace mpnanny::diagnose_run
