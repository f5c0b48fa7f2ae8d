#include "engines/diagnosis/facts/gather.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/json.h"
#include "base/text.h"
#include "engines/diagnosis/facts/earlier_messages.h"
#include "engines/diagnosis/facts/onset.h"
#include "engines/diagnosis/facts/step_pass.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/mismatch/judge.h"
#include "engines/mismatch/record.h"
#include "engines/runs/remembered.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

constexpr double kOfStart = 30;  // times the first gradient norms

Result<void> GatherAlerts(const runs::Source& source, runs::Layers& layers, Facts& facts) {
  std::optional<Error> failed;
  int64_t left_out = 0;
  MPN_TRY(runs::ForEachAlert(source, {}, [&](const runs::AlertRow& row) {
    if (facts.alerts.size() >= kAlertsKept) {
      ++left_out;
      return true;
    }
    SeenAlert alert;
    alert.row = row;
    alert.detail =
        row.detail.empty() ? ParseEarlierMessage(row.message) : runs::ParseAlertDetail(row.detail);
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
  }));
  if (failed) return *failed;
  if (left_out > 0) {
    facts.limits.push_back(
        {runs::Form("Only the first {0} alerts were weighed, {1} later ones were not.",
                    "只考虑了前 {0} 条告警，之后的 {1} 条没有考虑。"),
         {static_cast<int64_t>(kAlertsKept), static_cast<int64_t>(left_out)}});
  }
  return {};
}

// What steps prove and no alert says: types that the monitor raised itself are left to it.
void AddDerived(const StepCourse& course, Facts& facts) {
  std::vector<Word<AlertType>> known;
  for (const SeenAlert& alert : facts.alerts) known.push_back(alert.row.type);
  for (SeenAlert& alert : course.DerivedAlerts()) {
    if (std::find(known.begin(), known.end(), alert.row.type) == known.end())
      facts.alerts.push_back(std::move(alert));
  }
  std::stable_sort(facts.alerts.begin(), facts.alerts.end(),
                   [](const SeenAlert& a, const SeenAlert& b) { return a.row.step < b.row.step; });
}

// A fixed bound on gradients assumes a loss of ordinary size: what is no more than the run began
// with is the scale of its loss, a sum over many samples for instance.
void RemoveThoseOfScale(Facts& facts) {
  const std::optional<double>& first = facts.turns.first_norm;
  if (!first || !(*first > 0)) return;
  std::erase_if(facts.alerts, [&](const SeenAlert& alert) {
    const bool fixed_bound = alert.row.type == AlertType::kGradExplosion && alert.row.kind;
    return fixed_bound && alert.row.value && *alert.row.value <= kOfStart * *first;
  });
}

// NaN in a state of the optimizer after a step on finite gradients was there before: sums and
// products of finite numbers make none.
Result<void> GatherBadStates(const runs::Source& source, runs::Layers& layers, Facts& facts) {
  if (!facts.onset->detail.finite_before) return {};
  MPN_TRY_ASSIGN(auto rows, runs::ReadSample(source, facts.onset->step));
  for (const runs::TensorRow& row : rows) {
    if (row.kind != runs::kOptimizerState || row.nan == 0) continue;
    // States stand beside their parameter, the alert names its module.
    MPN_TRY_ASSIGN(auto parameter, layers.Find(row.layer_id));
    const std::string& module = facts.onset->layer;
    if (parameter.name != module && !parameter.name.starts_with(module + ".")) continue;
    auto name = runs::StateName(source, row.slot);
    if (!name) return name.error();
    if (std::find(facts.bad_states.begin(), facts.bad_states.end(), *name) ==
        facts.bad_states.end()) {
      facts.bad_states.push_back(*std::move(name));
    }
  }
  return {};
}

// The samples before the onset: what detectors look at, the last clean one.
Result<void> GatherSamples(const runs::Source& source, runs::Layers& layers, Facts& facts) {
  const int64_t last = facts.onset ? facts.onset->step - 1 : std::numeric_limits<int64_t>::max();
  MPN_TRY_ASSIGN(auto steps, ChooseSamples(source, facts.summary.first_step.value_or(0), last));
  auto profile = ReadProfile(source, steps, layers);
  if (!profile) return profile.error();
  facts.profile = *std::move(profile);
  if (facts.onset) {
    SetLastClean(facts.profile.last_clean, *facts.onset);
    if (facts.onset->layer_id) MPN_TRY(GatherBadStates(source, layers, facts));
  }
  for (const Series& series : facts.profile.series) {
    facts.has_activations = facts.has_activations || series.kind == runs::kActivation;
    facts.has_gradients = facts.has_gradients || series.kind == runs::kGradient ||
                          series.kind == runs::kActivationGradient;
    facts.has_weights = facts.has_weights || series.kind == runs::kWeight;
  }
  return {};
}

// The newest figures of the run that this one resumes.
Result<void> GatherParent(const runs::Source& source, Facts& facts) {
  if (!source.run.parent) return {};
  MPN_TRY_ASSIGN(auto rows,
                 source.database->Prepare(
                     "SELECT step, loss, loss_scale FROM step WHERE run_id=?1 AND step < ?2 "
                     "ORDER BY step DESC LIMIT 1"));
  rows.Bind(1, *source.run.parent)
      .Bind(2, facts.summary.first_step.value_or(std::numeric_limits<int64_t>::max()));
  MPN_TRY_ASSIGN(auto there, rows.Next());
  if (there) {
    facts.parent = Parent{*source.run.parent, rows.IntOr(0, 0), rows.Real(1), rows.Real(2)};
  }
  return {};
}

// Operators are told at the step of the onset; in an alert beside the chosen one if that has none.
void GatherOrigins(Facts& facts) {
  if (!facts.onset) return;
  facts.origins = facts.onset->detail.operators;
  for (const SeenAlert& alert : facts.alerts) {
    if (!facts.origins.empty() || alert.row.step > facts.onset->step) break;
    if (alert.row.step == facts.onset->step) facts.origins = alert.detail.operators;
  }
}

Result<void> NoteLimits(const runs::Source& source, Facts& facts) {
  const runs::Run& run = source.run;
  using runs::Form;
  std::vector<runs::Sentence>& limits = facts.limits;
  limits.insert(limits.end(), source.notes.begin(), source.notes.end());
  limits.insert(limits.end(), facts.measured.notes.begin(), facts.measured.notes.end());
  if (facts.profile.steps.empty()) {
    limits.push_back(
        facts.summary.sampled_steps > 0
            ? Form("No statistics of tensors were recorded before the first bad step.",
                   "首个异常步之前没有记录张量统计。")
            : Form("No statistics of tensors were recorded, so no layer can be named from them.",
                   "没有记录张量统计，因此无法由此指出层。"));
  } else {
    if (run.trace_interval && *run.trace_interval > 1) {
      limits.push_back(
          {Form("Full statistics exist for every {0}th step only (and for those after "
                "an ERROR); of the steps between, only whether a layer's values were finite.",
                "完整的统计只有每 {0} 步一次（以及 ERROR 之后的步）；"
                "其间每层只监视是否出现非有限值。"),
           {*run.trace_interval}});
    }
    if (!facts.has_activations)
      limits.push_back(Form("No activations were recorded.", "没有记录激活。"));
    if (!facts.has_gradients)
      limits.push_back(Form("No gradients were recorded.", "没有记录梯度。"));
  }
  if (facts.status == runs::Status::kKilled && !source.ring.present) {
    limits.push_back(Form(
        "The run was killed and its flight recorder is not here: its last steps may be missing.",
        "训练被终止，而飞行记录器的文件不在这里：最后几步可能缺失。"));
  }
  if (facts.summary.steps > 0 && !facts.summary.loss_first) {
    limits.push_back(Form("No loss was logged.", "没有记录损失。"));
  }
  if (facts.status == runs::Status::kRunning) {
    limits.push_back(Form("The run still goes on: this is how it stands now.",
                          "训练仍在进行：这是目前的状态。"));
  }
  if (auto notes = ParseJson(run.notes); notes && notes->is_array()) {
    for (const Json& note : *notes) {
      if (limits.size() >= 10) break;
      limits.push_back(
          {Form("The monitor notes: {0}", "监视器的说明：{0}"),
           {EscapeControl(note.is_string() ? note.get<std::string>() : DumpJson(note), 300)}});
    }
  }
  return {};
}

// Of whom a conversation asks: the run, one that it is compared with, other models of the program.
// The profile of a large model is some megabytes.
constexpr size_t kRemembered = 4;

Result<Facts> Gather(const runs::Source& source, CancelToken::Clock::duration limit) {
  Facts facts;
  facts.status = source.run.status;
  facts.ended_by_signal = source.run.end_reason == EndReason::kSignal;
  facts.precision = source.run.precision;
  runs::Layers layers(source);
  MPN_TRY(GatherAlerts(source, layers, facts));
  StepPass steps(limit);
  MPN_TRY(steps.Read(source, facts));
  auto loop = ReadLoopCalls(source);
  if (!loop) return loop.error();
  facts.loop = *std::move(loop);
  MPN_TRY(GatherParent(source, facts));

  auto measured = ReadShadowEvidence(source, layers);
  if (!measured) return measured.error();
  facts.measured = *std::move(measured);
  auto ranks = ranks::ReadTruths(source);
  if (!ranks) return ranks.error();
  facts.ranks = *std::move(ranks);
  MPN_TRY_ASSIGN(auto logprobs, mismatch::ReadCalls(source));
  facts.logprobs = std::move(logprobs.calls);
  facts.mismatch = mismatch::Judge(facts.logprobs);
  auto onset = FindOnset(source, facts, steps.course(), layers, facts.masked);
  if (!onset) return onset.error();
  facts.onset = *std::move(onset);
  AddDerived(steps.course(), facts);
  RemoveThoseOfScale(facts);
  GatherOrigins(facts);
  SetAsideConsequences(facts.measured,
                       facts.onset ? std::optional(facts.onset->step) : std::nullopt);
  SetAsideMinor(facts.summary, facts.measured);
  MPN_TRY(GatherSamples(source, layers, facts));
  if (facts.onset) facts.trend = FindTrend(facts);
  MPN_TRY(NoteLimits(source, facts));
  return facts;
}

}  // namespace

Result<Facts> GatherRun(const runs::Source& source, CancelToken::Clock::duration limit) {
  static runs::Remembered<Facts> remembered(kRemembered);
  const std::string key = runs::StampOfRun(source);
  auto known = remembered.Find(key);
  if (!known) {
    auto facts = Gather(source, limit);
    if (!facts) return facts.error();
    known = remembered.Keep(facts->summary.ended_after ? "" : key, *std::move(facts));
  }
  return *known;
}

}  // namespace mpnanny::diagnosis
