#include "engines/diagnosis/causes/fault_place.h"

#include "base/text.h"
#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

using runs::Number;

namespace {

constexpr runs::Form kMeasuredHow(
    "its inputs and its result were compared with the same step in FP64",
    "它的输入和结果与 FP64 中的同一步做了比较");
constexpr runs::Form kRelationHow("the run's own values were compared from step to step",
                                  "对训练自身的数值逐步做了比较");

}  // namespace

bool IsFirstCompared(const Facts& facts, int64_t step) {
  const auto& steps = facts.measured.steps;
  const auto& first = facts.summary.first_step;
  return !steps.empty() && first && steps.front().step == step && *first < step;
}

Onset PlaceOfMeasured(const Facts& facts) {
  const size_t index = LeadingMechanism(facts)->findings.front();
  const MeasuredFinding& lead = facts.measured.findings[index];
  Onset onset;
  onset.finding = index;
  onset.step = lead.finding.since.value_or(lead.finding.step);
  onset.phase = lead.finding.phase;
  onset.place = Onset::Place::kProducer;
  onset.layer_id = lead.finding.layer_id;
  onset.layer = lead.module;
  onset.source = lead.finding.source;
  onset.what = runs::WordsOf(lead.finding, lead.module).what.Bare();
  onset.how = ComparesWithItself(lead.finding) ? kRelationHow : kMeasuredHow;
  if (!ComparesWithItself(lead.finding) && IsFirstCompared(facts, onset.step)) {
    onset.how = {runs::Form("{0}; it shows from the first compared step on (step {1}), and earlier "
                            "steps were not compared",
                            "{0}；从首个比较过的步（第 {1} 步）起就已出现，更早的步没有比较"),
                 {std::move(onset.how), onset.step}};
  }
  return onset;
}

void JoinMeasured(const Facts& facts, Onset& onset) {
  const Mechanism& mechanism = *LeadingMechanism(facts);
  if (!ExplainsOnset(facts, mechanism)) return;
  const Onset measured = PlaceOfMeasured(facts);
  onset.finding = measured.finding;
  if (measured.step < onset.step) {
    onset.step = measured.step;
    onset.phase = measured.phase;
    onset.layer = measured.layer;
    onset.layer_type.clear();
  } else if (onset.layer.empty() && onset.phase == measured.phase) {
    onset.layer = measured.layer;
  }
  if (!measured.source.empty()) onset.source = measured.source;
  onset.place = Onset::Place::kProducer;
  onset.what = measured.what;
  onset.how = measured.how;
  if (measured.step > onset.step &&
      !ComparesWithItself(facts.measured.findings[*measured.finding].finding)) {
    onset.how = {runs::Form("step {0} was compared with FP64; this one was not, and shows the same",
                            "第 {0} 步与 FP64 做了比较；这一步没有，但表现相同"),
                 {measured.step}};
  }
}

std::optional<Onset> PlaceOfFault(const Facts& facts, const std::vector<Claim>& claims,
                                  const cases::Case* best) {
  const Claim* chosen = nullptr;
  double weight = 0;
  if (best) {
    for (const cases::Signal& signal : best->signals) {
      if (signal.kind != cases::Signal::Kind::kSign || signal.weight <= weight) continue;
      const Claim* claim = FindClaim(claims, signal.name);
      if (!claim || !claim->place) continue;
      chosen = claim;
      weight = signal.weight;
    }
  }
  for (const Claim& claim : claims) {
    if (!chosen && claim.fault && claim.place) chosen = &claim;
  }
  if (!chosen) return std::nullopt;
  Onset onset;
  onset.step = chosen->place->step;
  onset.phase = chosen->place->phase;
  onset.layer = chosen->place->layer;
  onset.layer_type = chosen->place->layer_type;
  onset.source = chosen->place->source;
  onset.what = chosen->place->what;
  onset.place = onset.layer.empty() ? Onset::Place::kUnplaced : Onset::Place::kFirstSeen;
  onset.how = !facts.monitored ? runs::Form("a log names no layer", "日志不指明层")
              : onset.layer.empty()
                  ? runs::Form("what was seen is of the training as a whole and names no layer",
                               "故障在训练循环中，不在任何层")
                  : runs::Form("it is the first sampled tensor that shows it",
                               "它是首个显示该故障的采样张量");
  return onset;
}

std::optional<Onset> PlaceOfSkips(const Facts& facts) {
  const auto burst = std::find_if(facts.turns.bursts.begin(), facts.turns.bursts.end(),
                                  [](const Burst& b) { return !b.scalers_own; });
  if (burst == facts.turns.bursts.end()) return std::nullopt;
  Onset onset;
  onset.step = burst->first;
  onset.phase = Phase::kBackward;
  onset.what =
      runs::Form("the first step that was skipped and that growing the scale does not explain",
                 "首个被跳过、且不能用损失缩放的增大来解释的步");
  onset.how = runs::Form("no sample tells which layer it was", "没有采样能说明是哪一层");
  double largest = 0;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kGradient) continue;
    for (const Measured& point : series.points) {
      if (point.step >= burst->first || point.absmax.value_or(0) <= largest) continue;
      largest = *point.absmax;
      onset.layer = series.layer;
      onset.layer_type = series.type;
      onset.source = series.source;
    }
  }
  if (!onset.layer.empty()) {
    onset.place = Onset::Place::kFirstSeen;
    onset.how = {runs::Form("its gradient was the largest in the samples before, {0}{1}",
                            "它的梯度在此前的采样中最大，为 {0}{1}"),
                 {Number(largest), burst->scale_first
                                       ? runs::Sentence(runs::Form(", times a loss scale of {0}",
                                                                   "，乘以损失缩放 {0}"),
                                                        {Number(burst->scale_first)})
                                       : runs::Sentence()}};
  }
  return onset;
}

}  // namespace mpnanny::diagnosis
