#include "engines/diagnosis/diagnosis.h"

#include <algorithm>

#include "base/text.h"
#include "engines/diagnosis/answer/next_measurement.h"
#include "engines/diagnosis/answer/timeline.h"
#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/causes/fault_place.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/diagnosis/verdict/tested.h"
#include "engines/diagnosis/verdict/verdict.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kMostHypotheses = 6;
constexpr size_t kMostObservations = 6;

// The layer whose gradient is seen first did not make it.
void ClearPlace(Onset& onset) {
  onset.layer.clear();
  onset.layer_type.clear();
  onset.source.clear();
  onset.place = Onset::Place::kUnplaced;
  onset.how = runs::Form("what was seen is of the training as a whole and names no layer",
                         "故障在训练循环中，不在任何层");
}

// The line that the exception names, where that alone ended the run.
std::optional<Onset> PlaceOfException(const Facts& facts) {
  const auto& failed = facts.loop.failed;
  if (!failed || failed->source.empty()) return std::nullopt;
  Onset onset;
  onset.step = failed->step;
  onset.source = failed->source;
  onset.what = {runs::Form("{0} ended the training", "{0} 终止了训练"),
                {EscapeControl(failed->error, 80)}};
  onset.place = Onset::Place::kProducer;
  onset.how = runs::Form("the exception names the line", "异常指明了该行");
  return onset;
}

std::optional<Onset> FirstBad(const Facts& facts, const std::vector<Claim>& claims,
                              const std::vector<Hypothesis>& hypotheses) {
  const cases::Case* best = hypotheses.empty() ? nullptr : hypotheses[0].cause;
  const bool measured = !hypotheses.empty() && hypotheses[0].mechanism;
  if (facts.onset) {
    Onset first_bad = *facts.onset;
    if (measured) JoinMeasured(facts, first_bad);
    if (first_bad.phase == Phase::kBackward && best && StandsOnLoop(claims, *best)) {
      ClearPlace(first_bad);
      if (!hypotheses[0].lines.empty()) first_bad.source = hypotheses[0].lines.front();
    }
    return first_bad;
  }
  std::optional<Onset> recorded = PlaceOfFault(facts, claims, best);
  if (!recorded) recorded = PlaceOfException(facts);
  if (!recorded) recorded = PlaceOfSkips(facts);
  if (recorded && recorded->phase == Phase::kBackward && best && StandsOnLoop(claims, *best)) {
    ClearPlace(*recorded);
  }
  if (!measured) return recorded;
  Onset first_bad = PlaceOfMeasured(facts);
  // Steps that a scaler left out are not where a fault began that only the measurement shows.
  const bool shown = std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
    return claim.fault || (claim.place && best && IsKnownBy(*best, claim.id));
  });
  if (!recorded || !shown || recorded->step >= first_bad.step) return first_bad;
  recorded->finding = first_bad.finding;
  return recorded;
}

void AddObservations(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d) {
  for (const Claim& claim : claims) {
    if (!claim.told) d.observations.push_back(claim.sentence);
  }
  if (facts.onset && facts.trend && !FindClaim(claims, "forward-overflow")) {
    d.observations.push_back(
        {runs::Form("Before it: {0}.", "在此之前：{0}。"), {TrendText(*facts.trend)}});
  }
  if (facts.loop.failed) {
    const runs::Sentence text = FailedCallText(*facts.loop.failed);
    if (d.headline.English().find(text.English()) == std::string::npos)
      d.observations.push_back(text);
  }
  if (facts.loop.left > 0) {
    d.observations.push_back(
        {runs::Form("The loop went on without an optimizer step in {0:step}, first in step {1}: "
                    "the weights did not change there.",
                    "训练循环有 {0} 步没有执行优化器更新就继续，首次在第 {1} 步："
                    "权重在那里没有变化。"),
         {facts.loop.left, facts.loop.first_left}});
  }
  for (const StaticFinding& finding : facts.findings) {
    if (!finding.near_source || d.observations.size() >= kMostObservations) break;
    d.observations.push_back({runs::Form("The code near the producer: {0} {1} ({2}): {3}",
                                         "源头附近的代码：{0} {1}（{2}）：{3}"),
                              {finding.place, finding.rule, finding.severity, finding.message}});
  }
}

}  // namespace

Diagnosis Diagnose(const Facts& facts, const cases::CaseLibrary& library) {
  Diagnosis d;
  const std::vector<Claim> claims = RunDetectors(facts);
  Judge(facts, claims, d);
  AddObservations(facts, claims, d);
  ListTested(facts, d);
  if (d.verdict == Health::kHealthy) {
    d.first_bad = facts.onset;
  } else {
    d.hypotheses = FindCauses(facts, claims, library);
    if (d.hypotheses.size() > kMostHypotheses) d.hypotheses.resize(kMostHypotheses);
    d.first_bad = FirstBad(facts, claims, d.hypotheses);
  }
  d.timeline = TimelineOf(facts, d.first_bad);
  d.limits = facts.limits;
  if (d.first_bad && facts.onset && d.first_bad->place == Onset::Place::kUnplaced) {
    d.limits.insert(
        d.limits.begin(),
        runs::Sentence(runs::Form("Which layer made the first bad value is not known: {0}.",
                                  "首个异常值由哪一层产生尚不清楚：{0}。"),
                       {d.first_bad->how}));
  }
  if (d.verdict != Health::kHealthy && d.hypotheses.empty()) {
    d.limits.push_back(runs::Form("No documented case fits what was recorded.",
                                  "没有已记录的案例与所记录的内容相符。"));
  }
  d.next_measurement = NextMeasurement(facts, d);
  return d;
}

}  // namespace mpnanny::diagnosis
