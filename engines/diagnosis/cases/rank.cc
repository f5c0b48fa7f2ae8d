#include "engines/diagnosis/cases/rank.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/diagnosis/cases/signal_words.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using cases::Signal;
using runs::Form;
using runs::Name;
using runs::Number;
using runs::Sentence;

constexpr double kWeightScale = 2.2;
constexpr double kLeastConfidence = 0.15;
// What one matched signal is worth where it fits less than fully.
constexpr double kCarrierWorth = 0.25;     // an alert of a layer that only carries
constexpr double kConsequenceWorth = 0.3;  // what the scale does after the forward pass broke
constexpr double kFarCodeWorth = 0.6;      // a static finding that is not near the producer
constexpr double kWrongPrecision = 0.25;
constexpr double kFavoured = 0.5;  // added at full strength
constexpr double kOpposed = 0.7;   // taken away at full strength
// A sign of this weight all but proves its case, where its detector is that sure.
constexpr double kTelling = 3;
// A case that has a sign of this weight is defined by it: without the sign it is not that case.
constexpr double kDefining = 5;
constexpr double kUndefined = 0.4;
constexpr double kSure = 0.9;
constexpr double kTold = 2;  // weight of a missing sign that is worth a word
// Of a run that was watched: what shows less than this is no more than a guess.
constexpr double kWeak = 0.5;
// A fact that so many cases are known by tells none of them from the others.
constexpr size_t kSharedByMany = 4;

// Messages of rules end with a full stop already.
Sentence WithStop(Sentence sentence) {
  if (sentence.English().ends_with('.')) return sentence;
  return {Form("{0}.", "{0}。"), {std::move(sentence)}};
}

struct Match {
  double worth = 0;
  Sentence sentence;
};

bool IsValueType(const Word<AlertType>& type) {
  return type == AlertType::kNan || type == AlertType::kInf || type == AlertType::kOverflow ||
         type == AlertType::kLossNan;
}

bool IsOfScale(const Word<AlertType>& type) {
  return type == AlertType::kLossScaleLow || type == AlertType::kLossScaleDecline ||
         type == AlertType::kLossScaleCollapse || type == AlertType::kStepSkipped;
}

// Something that does not depend on the scale is broken, or the operator that breaks the gradients
// is known.
bool ScaleFollows(const Facts& facts) {
  return facts.monitored && facts.onset &&
         (facts.onset->phase != Phase::kBackward || !facts.origins.empty());
}

// A case speaks of NaN at the loss; the monitor's word for it is LOSS_NAN.
bool TypeFits(const Signal& signal, const SeenAlert& alert, const Facts& facts) {
  if (signal.name == alert.row.type.text()) return true;
  if (alert.row.type != AlertType::kLossNan || signal.phase != NameOf(Phase::kLoss) ||
      !facts.onset || facts.onset->phase != Phase::kLoss) {
    return false;
  }
  return (signal.name == "NAN" && facts.onset->is_nan) ||
         (signal.name == "INF" && facts.onset->is_inf);
}

Sentence AlertSentence(const SeenAlert& alert, Sentence how) {
  const Sentence phase = alert.row.phase.empty() ? Sentence()
                                                 : Sentence(Form(" in {0}", "（{0}）"),
                                                            {runs::PhaseNoun(alert.row.phase)});
  const Sentence layer =
      alert.layer.empty() ? Sentence()
                          : Sentence(Form(" at {0}", "，位于 {0}"), {LayerWord(Name(alert.layer))});
  Sentence text(Form("{0}{1}{2}, step {3}{4}", "{0}{1}{2}，第 {3} 步{4}"),
                {Name(alert.row.type), phase, layer, alert.row.step, std::move(how)});
  if (alert.row.type.text().starts_with("SHADOW_")) {
    return {Form("shadow steps tell it from step {0} on: {1}", "影子步从第 {0} 步起显示：{1}"),
            {alert.row.step, AlertMeaning(alert.row.type)}};
  }
  if (alert.row.message.empty()) return text;
  std::string message = EscapeControl(alert.row.message, 200);
  if (message.ends_with('.')) message.pop_back();
  return {Form("{0}: {1}", "{0}：{1}"), {std::move(text), std::move(message)}};
}

// "layers.2" of "layers.2: aten.add.Tensor (model.py:20)", an operator of a module's own.
std::string ModuleOf(const std::string& layer) { return layer.substr(0, layer.find(": ")); }

// Only what came no later than the onset can be a cause; at its step the chosen place counts fully,
// others as carriers.
std::optional<Match> MatchAlert(const Signal& signal, const Facts& facts) {
  std::optional<Match> best;
  for (const SeenAlert& alert : facts.alerts) {
    if (!TypeFits(signal, alert, facts)) continue;
    double worth = 1;
    Sentence how;
    Word<Phase> phase = alert.row.phase;
    if (IsValueType(alert.row.type)) {
      if (!facts.onset || alert.row.step > facts.onset->step) continue;
      const bool chosen = alert.row.layer_id == facts.onset->layer_id;
      if (chosen) phase = facts.onset->phase;
      if (alert.row.step == facts.onset->step && !chosen && alert.row.producer != 1) {
        worth = kCarrierWorth;
        how = Form(" (carrier)", "（被传播）");
      } else if (alert.row.producer == 1) {
        how = Form(" (producer: its inputs were finite)", "（源头：其输入是有限的）");
      }
    } else if (IsOfScale(alert.row.type)) {
      // A forward pass, a batch or a loss that is not finite drags the scale down by itself.
      if (ScaleFollows(facts)) worth = kConsequenceWorth;
    } else if (facts.onset && alert.row.step > facts.onset->step &&
               alert.row.phase != Phase::kOptimizer) {
      continue;  // what gradients and losses do after the first bad value follows from it
    }
    if (!signal.phase.empty() && signal.phase != phase.text()) continue;
    if (!cases::FitsLayer(signal, ModuleOf(alert.layer))) continue;
    if (!best || worth > best->worth) best = Match{worth, AlertSentence(alert, how)};
    if (best->worth == 1) break;
  }
  return best;
}

std::optional<Match> MatchSignal(const Signal& signal, const Facts& facts,
                                 const std::vector<Claim>& claims) {
  switch (signal.kind) {
    case Signal::Kind::kAlert:
      return MatchAlert(signal, facts);
    case Signal::Kind::kScale: {
      const ScaleTrack& scale = facts.scale;
      const bool fits = (signal.name == "declining" && scale.declining) ||
                        (signal.name == "collapsed" && scale.collapsed) ||
                        (signal.name == "stuck" && scale.stuck);
      if (!fits) return std::nullopt;
      return Match{ScaleFollows(facts) ? kConsequenceWorth : 1,
                   {Form("the loss scale is {0}: {1} at first, {2} at the end",
                         "损失缩放{0}：开始 {1}，结束 {2}"),
                    {signal.name == "declining"   ? Sentence(Form("declining", "下降"))
                     : signal.name == "collapsed" ? Sentence(Form("collapsed", "崩塌"))
                                                  : Sentence(Form("stuck", "卡住")),
                     Number(facts.summary.scale_first), Number(facts.summary.scale_last)}}};
    }
    case Signal::Kind::kRule:
      for (const StaticFinding& finding : facts.findings) {
        if (finding.rule != signal.name) continue;
        return Match{finding.near_source ? 1 : kFarCodeWorth,
                     {Form("the code: {0} {1}: {2}", "代码：{0} {1}：{2}"),
                      {finding.place, finding.rule, finding.message}}};
      }
      return std::nullopt;
    case Signal::Kind::kLog:
      for (const LogHit& hit : facts.log_hits) {
        if (hit.signal == signal.text)
          return Match{
              1, {Form("the log holds: {0}", "日志中有：{0}"), {EscapeControl(signal.name, 120)}}};
      }
      return std::nullopt;
    case Signal::Kind::kSign:
      if (const Claim* claim = FindClaim(claims, signal.name)) {
        return Match{claim->strength, claim->sentence};
      }
      return std::nullopt;
  }
  return std::nullopt;
}

// Could the signal have been seen in this record at all?
bool Visible(const Signal& signal, const Facts& facts) {
  switch (signal.kind) {
    case Signal::Kind::kAlert:
    case Signal::Kind::kSign:
      return facts.monitored;
    case Signal::Kind::kScale:
      return facts.summary.scale_first.has_value();
    case Signal::Kind::kRule:  // a checker that finds nothing proves nothing
    case Signal::Kind::kLog:
      return false;  // a log tells what its program chose to print
  }
  return false;
}

template <typename T>
bool Holds(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool CaseIs(const cases::Case& entry, std::string_view what) {
  if (what.starts_with("!")) return !CaseIs(entry, what.substr(1));
  const size_t colon = what.find(':');
  const std::string_view field = what.substr(0, colon);
  const std::string word(what.substr(colon + 1));
  if (field == "category") return entry.category == word;
  if (field == "component") return Holds(entry.components, word);
  return field == "precision" && Holds(entry.precision, word);
}

bool AnyOf(const cases::Case& entry, const std::vector<std::string>& whats) {
  return std::any_of(whats.begin(), whats.end(),
                     [&](const std::string& what) { return CaseIs(entry, what); });
}

// INF and OVERFLOW of one place are two words for one thing: with one of them seen, the other is
// not missed.
bool AlternativeSeen(const cases::Case& entry, const Signal& missed, const Facts& facts,
                     const std::vector<Claim>& claims) {
  return std::any_of(entry.signals.begin(), entry.signals.end(), [&](const Signal& signal) {
    return &signal != &missed && signal.kind == Signal::Kind::kAlert &&
           missed.kind == signal.kind && signal.phase == missed.phase &&
           signal.layer_glob == missed.layer_glob && MatchSignal(signal, facts, claims);
  });
}

// Several signals of one case may be met by one and the same fact, which counts once.
class Weights {
 public:
  double Add(const Signal& signal, const Sentence& sentence, double worth) {
    const bool repeated = !sentences_.insert(sentence.English()).second;
    const double weight = repeated ? 0 : signal.weight * worth;
    total_ += weight;
    return weight;
  }
  double total() const { return total_; }

 private:
  std::set<std::string> sentences_;
  double total_ = 0;
};

Hypothesis Weigh(const cases::Case& entry, const Facts& facts, const std::vector<Claim>& claims) {
  Hypothesis hypothesis;
  hypothesis.cause = &entry;
  Weights weights;
  double missed = 0;
  const Signal* strongest_miss = nullptr;
  std::vector<std::pair<double, Sentence>> seen;
  for (const Signal& signal : entry.signals) {
    if (auto match = MatchSignal(signal, facts, claims)) {
      const double weight = weights.Add(signal, match->sentence, match->worth);
      if (weight > 0) seen.emplace_back(weight, WithStop(match->sentence));
      continue;
    }
    hypothesis.unseen.push_back(&signal);
    if (!Visible(signal, facts) || AlternativeSeen(entry, signal, facts, claims)) continue;
    missed += signal.weight;
    if (!strongest_miss || signal.weight > strongest_miss->weight) strongest_miss = &signal;
  }
  hypothesis.weight = weights.total();
  if (hypothesis.weight <= 0) return hypothesis;
  std::stable_sort(seen.begin(), seen.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [weight, sentence] : seen) hypothesis.evidence.push_back(std::move(sentence));

  double weight = hypothesis.weight;
  double factor = 1;
  // What a detector established for this very case outweighs what speaks against its kind.
  bool& telling = hypothesis.telling;
  bool defined = false, undefined = false;
  for (const Signal& signal : entry.signals) {
    const Claim* claim =
        signal.kind == Signal::Kind::kSign ? FindClaim(claims, signal.name) : nullptr;
    if (claim && signal.weight >= kTelling && claim->strength >= kSure) {
      telling = true;
      if (claim->ground == Ground::kMeasured) hypothesis.ground = Ground::kMeasured;
    }
    if (signal.kind == Signal::Kind::kSign && signal.weight >= kDefining) {
      (claim ? defined : undefined) = true;
    }
  }
  if (undefined && !defined && facts.monitored) factor *= kUndefined;
  for (const Claim& claim : claims) {
    if (AnyOf(entry, claim.favours)) {
      weight += kFavoured * claim.strength * std::min(1.0, hypothesis.weight);
      if (!Holds(hypothesis.evidence, WithStop(claim.sentence))) {
        hypothesis.evidence.push_back(claim.sentence);
      }
    } else if ((!telling || claim.measured) && AnyOf(entry, claim.opposes)) {
      factor *= 1 - kOpposed * claim.strength;
      hypothesis.against.push_back(claim.sentence);
    }
  }
  if (!facts.precision.empty() && facts.precision != Precision::kMixed &&
      !Holds(entry.precision, std::string(facts.precision.text()))) {
    factor *= kWrongPrecision;
    hypothesis.against.push_back(
        {Form("The run computes in {0}; the case is known in {1}.",
              "训练以 {0} 计算；该案例见于 {1}。"),
         {std::string(facts.precision.text()), Join(entry.precision, ", ")}});
  }
  // The more of what would have been visible is missing, the less it is this case; alternatives of
  // one signature (INF or OVERFLOW) are the rule, so a miss takes little.
  factor *= 0.8 + 0.2 * hypothesis.weight / (hypothesis.weight + missed);
  if (strongest_miss && strongest_miss->weight >= kTold) {
    hypothesis.against.push_back(UnseenSentence(*strongest_miss));
  }
  hypothesis.confidence = (1 - std::exp(-weight / kWeightScale)) * factor;
  return hypothesis;
}

// Cases that have nothing to show but facts that many others show as well: a spike, a scale that
// falls.
void MarkGuesses(const Facts& facts, std::vector<Hypothesis>& ranked) {
  std::map<std::string, size_t> cases_by_fact;
  for (const Hypothesis& each : ranked) {
    for (const Sentence& fact : each.evidence) ++cases_by_fact[fact.English()];
  }
  for (Hypothesis& each : ranked) {
    const bool weak = !facts.monitored || each.confidence < kWeak;
    each.is_guess =
        weak && !each.telling &&
        std::all_of(each.evidence.begin(), each.evidence.end(), [&](const Sentence& fact) {
          return cases_by_fact[fact.English()] >= kSharedByMany;
        });
  }
}

}  // namespace

bool IsKnownBy(const cases::Case& entry, std::string_view sign) {
  return std::any_of(entry.signals.begin(), entry.signals.end(), [&](const Signal& signal) {
    return signal.kind == Signal::Kind::kSign && signal.name == sign && signal.weight >= kTelling;
  });
}

bool SpeaksFor(const Claim& claim, const cases::Case& entry) { return AnyOf(entry, claim.favours); }

std::vector<Hypothesis> Rank(const Facts& facts, const std::vector<Claim>& claims,
                             const cases::CaseLibrary& library) {
  std::vector<Hypothesis> ranked;
  for (const cases::Case& entry : library.all()) {
    if (entry.kind != "failure") continue;
    Hypothesis hypothesis = Weigh(entry, facts, claims);
    if (hypothesis.weight > 0 && hypothesis.confidence >= kLeastConfidence) {
      ranked.push_back(std::move(hypothesis));
    }
  }
  MarkGuesses(facts, ranked);
  std::stable_sort(ranked.begin(), ranked.end(), [](const Hypothesis& a, const Hypothesis& b) {
    return a.confidence > b.confidence;
  });
  return ranked;
}

}  // namespace mpnanny::diagnosis
