#include "engines/diagnosis/causes/causes.h"

#include <algorithm>
#include <iterator>

#include "engines/diagnosis/causes/measured_fix.h"
#include "engines/diagnosis/causes/measured_signs.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "engines/diagnosis/facts/onset.h"
#include "engines/runs/relation_text.h"

namespace mpnanny::diagnosis {
namespace {

// A case is named as the cause of something measured from here on.
constexpr double kFits = 0.4;
// What was measured of a training that had run away already.
constexpr double kAfterDivergence = 0.5;
// A measurement this sure stays before documented cases, but for those of the training loop, which
// no comparison with FP64 shows.
constexpr double kStrong = 0.75;
// Weight of a `log:` signal from which on its line all but proves the case.
constexpr double kProvingWeight = 3;
constexpr double kOwnWeight = 2;  // of a signal that tells a case from others of its kind
// What was measured and does not explain the first value that is not finite may be another fault.
constexpr double kElsewhere = 0.7;
constexpr double kLeastOfCause = 0.5;
constexpr double kMostOfRecord = 0.9;  // what the record shows without a comparison
constexpr double kCameNear = 0.6;      // measured before, and not at the step itself
constexpr double kNotCompared = 0.75;  // seen as it came in, and not how it was made

// Measured, and not so doubtful that it may as well come of something else.
bool IsCause(const Hypothesis& each) {
  return each.ground == Ground::kMeasured && each.confidence >= kLeastOfCause;
}

// Alerts of the monitor that say what a kind of finding says by comparison.
bool SameThing(const Word<FindingKind>& kind, const cases::Signal& signal) {
  const std::string& name = signal.name;
  if (signal.kind != cases::Signal::Kind::kAlert) return false;
  if (kind == FindingKind::kLostChange) return name == "STALE_UPDATE" || name == "ABSORPTION";
  if (kind == FindingKind::kFlushed) return name == "UNDERFLOW";
  if (kind == FindingKind::kClipped) return name == "SATURATION" || name == "OVERFLOW";
  return false;
}

// Whether a signal of the case was seen in the run.
bool IsSeen(const Hypothesis& fitting, const cases::Signal& signal) {
  return std::find(fitting.unseen.begin(), fitting.unseen.end(), &signal) == fitting.unseen.end();
}

// Whether the run shows more of the case than the kind of operator that went wrong, which it shares
// with others.
bool ShowsMoreThanItsKind(const runs::ShadowFinding& lead, const Hypothesis& fitting) {
  const auto signs = SignsOf(lead);
  return std::any_of(fitting.cause->signals.begin(), fitting.cause->signals.end(),
                     [&](const cases::Signal& signal) {
                       const bool of_kind =
                           signal.kind == cases::Signal::Kind::kSign &&
                           std::find(signs.begin(), signs.end(), signal.name) != signs.end();
                       return !of_kind && IsSeen(fitting, signal);
                     });
}

// Whether something that is the case's own was looked for and not seen.
bool LacksItsOwn(const Hypothesis& fitting) {
  return std::any_of(fitting.unseen.begin(), fitting.unseen.end(), [](const cases::Signal* signal) {
    return signal->weight >= kOwnWeight && signal->kind == cases::Signal::Kind::kAlert;
  });
}

// Whether it is known by what a detector would have been sure of, and none of that was seen.
bool LacksItsSigns(const Hypothesis& fitting) {
  bool any = false;
  for (const cases::Signal& signal : fitting.cause->signals) {
    if (signal.kind != cases::Signal::Kind::kSign || signal.weight < kProvingWeight) continue;
    any = true;
    if (IsSeen(fitting, signal)) return false;
  }
  return any;
}

// Whether the case speaks of what was measured: of the first value that is not finite, or of a
// phenomenon that an alert names as well.
bool SpeaksOf(const Facts& facts, const std::vector<Claim>& claims, const Mechanism& mechanism,
              const Hypothesis& fitting) {
  const runs::ShadowFinding& lead = facts.measured.Lead(mechanism).finding;
  // What came in bad is a matter of data and checkpoints.
  if (IsNoOperatorsMistake(lead)) {
    const auto& parts = fitting.cause->components;
    return std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
      return part == "data" || part == "checkpoint";
    });
  }
  if (ExplainsOnset(facts, mechanism)) {
    // Updates that change nothing make nothing infinite; both may be seen in one run.
    if (fitting.cause->category == "stale-update") return false;
    if (LacksItsSigns(fitting)) return false;
    return ShowsMoreThanItsKind(lead, fitting) || !LacksItsOwn(fitting);
  }
  const Word<FindingKind>& kind = lead.kind;
  // A detector that is sure of its sign found it in the same part of the step.
  const bool same_place =
      fitting.telling &&
      std::any_of(fitting.cause->signals.begin(), fitting.cause->signals.end(),
                  [&](const cases::Signal& signal) {
                    const Claim* claim = signal.kind == cases::Signal::Kind::kSign
                                             ? FindClaim(claims, signal.name)
                                             : nullptr;
                    return claim && claim->place && claim->place->phase == lead.phase;
                  });
  if (same_place) return true;
  return std::any_of(fitting.cause->signals.begin(), fitting.cause->signals.end(),
                     [&](const cases::Signal& signal) {
                       return SameThing(kind, signal) && IsSeen(fitting, signal);
                     });
}

// What the reference says of precision, as a claim that cases are weighed by.
std::vector<Claim> ReferenceClaims(const Facts& facts) {
  const Mechanism* mechanism = LeadingMechanism(facts);
  if (!mechanism || IsAfterDivergence(facts, *mechanism)) return {};
  const runs::ShadowFinding& lead = facts.measured.Lead(*mechanism).finding;
  // What the loop does wrong says nothing of a format's part in what else is seen.
  if (runs::IsRelation(lead.kind)) return {};
  Claim claim;
  claim.sentence = PrecisionSentence(facts.measured, *mechanism);
  claim.strength = 1;
  claim.measured = true;
  if (lead.proof == Proof::kProven) claim.opposes = {"category:not-precision"};
  if (lead.proof == Proof::kExcluded) claim.opposes = {"!precision:fp32"};
  if (claim.opposes.empty() || IsTinyChange(lead) || lead.lost_before) return {};
  std::vector<Claim> claims = {claim};
  if (lead.proof == Proof::kProven && lead.kind == FindingKind::kRange && lead.cure &&
      lead.cure->what == "float32") {
    claim.sentence =
        runs::Form("In FP32 the values stay finite, and this case happens in FP32 as well.",
                   "在 FP32 中数值保持有限，而该案例在 FP32 中也会发生。");
    claim.opposes = {"precision:fp32"};
    claim.measured = false;  // not what a detector established
    claims.push_back(std::move(claim));
  }
  return claims;
}

// A case about another operator's mistake than the measured one is not what happened there.
void PutAsideOtherOperators(const Facts& facts, std::vector<Hypothesis>& cases) {
  const Mechanism* mechanism = LeadingMechanism(facts);
  if (!mechanism || !ExplainsOnset(facts, *mechanism)) return;
  const runs::ShadowFinding& lead = facts.measured.Lead(*mechanism).finding;
  std::erase_if(cases,
                [&](const Hypothesis& each) { return IsOfAnotherOperator(*each.cause, lead); });
}

// Names the case that documents what was measured: its evidence and its fix come after the
// measurement's.
void JoinMeasured(Hypothesis& measured, Hypothesis fitting) {
  measured.cause = fitting.cause;
  measured.evidence.insert(
      measured.evidence.begin(),
      runs::Sentence(runs::Form("A documented case: {0}.", "已记录的案例：{0}。"),
                     {runs::Sentence::InEach(fitting.cause->title, fitting.cause->title_zh)}));
  std::move(fitting.evidence.begin(), fitting.evidence.end(),
            std::back_inserter(measured.evidence));
  std::move(fitting.against.begin(), fitting.against.end(), std::back_inserter(measured.against));
  measured.unseen = std::move(fitting.unseen);
  measured.weight = fitting.weight;
  measured.telling = fitting.telling;
}

// Faults that a detector established and that no case is defined by; the best case is named if it
// is of the kind that the claim speaks for.
void AddUndocumented(const std::vector<Claim>& claims, std::vector<Hypothesis>& causes) {
  for (const Claim& claim : claims) {
    if (claim.title.empty()) continue;
    const bool documented = std::any_of(causes.begin(), causes.end(), [&](const Hypothesis& cause) {
      return cause.cause && cause.telling && IsKnownBy(*cause.cause, claim.id);
    });
    if (documented) continue;
    Hypothesis cause;
    cause.title = claim.title;
    cause.fix = claim.fix;
    cause.evidence = {claim.sentence};
    cause.lines = claim.lines;
    cause.ground = claim.ground;
    cause.confidence = std::min(claim.strength, kMostOfRecord);
    const auto fitting = std::find_if(causes.begin(), causes.end(), [&](const Hypothesis& each) {
      return each.cause && !each.mechanism;
    });
    if (fitting != causes.end() && fitting->confidence >= kFits &&
        SpeaksFor(claim, *fitting->cause)) {
      Hypothesis named = std::move(*fitting);
      causes.erase(fitting);
      JoinMeasured(cause, std::move(named));
    }
    causes.push_back(std::move(cause));
  }
}

// Where no step that was compared shows the first bad value: what came near the end of its format
// in one before. That it passed it is likely, and not measured.
void AddNearLimit(const Facts& facts, std::vector<Hypothesis>& causes) {
  if (!facts.onset) return;
  for (const MeasuredFinding& each : facts.measured.near_limit) {
    const runs::ShadowFinding& finding = each.finding;
    if (finding.step >= facts.onset->step || finding.was_bad_before) continue;
    if (runs::PhaseRank(finding.phase) > runs::PhaseRank(facts.onset->phase)) continue;
    Hypothesis cause;
    cause.title = NearLimitTitle(finding, each.module);
    cause.fix = NearLimitFix(finding);
    cause.evidence = {NearLimitEvidence(finding, facts.onset->step)};
    cause.lines = LinesOf(finding);
    cause.ground = Ground::kMeasured;
    cause.confidence = kCameNear;
    causes.push_back(std::move(cause));
    return;
  }
}

// A batch that came in with values that are not finite: a file may hold them, or the program made
// them of good ones before the model, in 16 bits too.
void DoubtData(const Facts& facts, std::vector<Hypothesis>& causes) {
  if (!facts.onset || facts.onset->phase != Phase::kData) return;
  for (Hypothesis& each : causes) {
    if (each.mechanism || !each.cause || each.cause->category != "not-precision") continue;
    each.confidence = std::min(each.confidence, kNotCompared);
    each.precision = runs::Form(
        "Whether precision has a part in it is not established: a file may hold such values, or "
        "the program may make them before the model; that step was not compared with FP64.",
        "是否与精度有关尚未确定：可能是文件中就有这样的值，也可能是程序在模型之前产生的；"
        "那一步没有与 FP64 比较。");
  }
}

Hypothesis FromMechanism(const Facts& facts, size_t index) {
  const Mechanism& mechanism = facts.measured.mechanisms[index];
  Hypothesis hypothesis;
  hypothesis.mechanism = index;
  hypothesis.ground = Ground::kMeasured;
  hypothesis.title = MeasuredTitle(facts.measured, mechanism);
  hypothesis.precision = PrecisionSentence(facts.measured, mechanism);
  hypothesis.fix = MeasuredFix(facts.measured, mechanism);
  hypothesis.evidence = MeasuredEvidence(facts.measured, mechanism);
  hypothesis.confidence = MeasuredConfidence(facts.measured, mechanism);
  if (facts.onset && !ExplainsOnset(facts, mechanism)) hypothesis.confidence *= kElsewhere;
  if (IsAfterDivergence(facts, mechanism)) {
    hypothesis.confidence *= kAfterDivergence;
    hypothesis.against.push_back(
        runs::Form("Loss or gradients had left their level before: this can be what came of it.",
                   "此前损失或梯度已偏离原来的水平：这可能是其结果。"));
  }
  return hypothesis;
}

// Values that are not finite, after the first one has been explained: they come of it.
bool IsConsequence(const Facts& facts, const Mechanism& leading, const Mechanism& other) {
  return ExplainsOnset(facts, leading) && GivesNonFinite(facts.measured.Lead(other).finding) &&
         facts.measured.Lead(other).finding.step >= facts.measured.Lead(leading).finding.step;
}

// Whether a line of the log, or of the question, is a message that all but proves the case
// (knowledge/README.md), and not figures that many faults give.
bool HasLogLine(const Facts& facts, const Hypothesis& hypothesis) {
  return std::any_of(facts.log_hits.begin(), facts.log_hits.end(), [&](const LogHit& hit) {
    return hit.weight >= kProvingWeight && hit.telling &&
           std::any_of(hypothesis.cause->signals.begin(), hypothesis.cause->signals.end(),
                       [&](const cases::Signal& signal) {
                         return signal.kind == cases::Signal::Kind::kLog &&
                                signal.text == hit.signal;
                       });
  });
}

// Of a sign of the case, the lines that make the call which is wrong.
std::vector<std::string> LinesOfCalls(const std::vector<Claim>& claims, const cases::Case& cause) {
  for (const cases::Signal& signal : cause.signals) {
    const Claim* claim =
        signal.kind == cases::Signal::Kind::kSign ? FindClaim(claims, signal.name) : nullptr;
    if (claim && !claim->lines.empty()) return claim->lines;
  }
  return {};
}

// Whether the likeliest case that nothing was measured of stands on what the training loop did.
bool BestCaseIsInLoop(const std::vector<Claim>& claims, const std::vector<Hypothesis>& causes) {
  const auto best = std::find_if(causes.begin(), causes.end(),
                                 [](const Hypothesis& cause) { return !cause.mechanism; });
  return best != causes.end() && best->telling && StandsOnLoop(claims, *best->cause);
}

}  // namespace

bool IsEstablished(const std::vector<Hypothesis>& causes) {
  return !causes.empty() && IsCause(causes.front());
}

bool StandsOnLoop(const std::vector<Claim>& claims, const cases::Case& cause) {
  return std::any_of(cause.signals.begin(), cause.signals.end(), [&](const cases::Signal& signal) {
    const Claim* claim =
        signal.kind == cases::Signal::Kind::kSign ? FindClaim(claims, signal.name) : nullptr;
    return claim && claim->in_loop;
  });
}

bool ExplainsOnset(const Facts& facts, const Mechanism& mechanism) {
  const runs::ShadowFinding& lead = facts.measured.Lead(mechanism).finding;
  if (!facts.onset || !GivesNonFinite(lead)) return false;
  if (lead.step <= facts.onset->step) return true;
  // What is not finite spreads into weights, states and averages: after the first bad step only
  // what was made of finite values, or came in anew with the batch, is the same thing once more.
  if (lead.was_bad_before && lead.carrier.kind != CarrierKind::kData &&
      lead.carrier.kind != CarrierKind::kUnwritten &&
      !(lead.carrier.kind.empty() && lead.proof == Proof::kExcluded)) {
    return false;
  }
  if (lead.step <= facts.onset->step + kStepsLookedAtAfter) return true;
  // What goes on in the same phase, step after step, is the same thing.
  return facts.bad_at_end && lead.repeats > 1 && lead.phase == facts.onset->phase;
}

bool IsAfterDivergence(const Facts& facts, const Mechanism& mechanism) {
  const runs::ShadowFinding& lead = facts.measured.Lead(mechanism).finding;
  if (lead.kind == FindingKind::kDiverged || runs::IsRelation(lead.kind)) return false;
  if (GivesNonFinite(lead) &&
      (lead.dtype.ends_with("float16") && !lead.dtype.ends_with("bfloat16")))
    return false;
  if (GivesNonFinite(lead) && lead.dtype.find("float8") != std::string::npos) return false;
  // What 16 bits cannot hold, and FP32 can, is lost by the format and not by a loss that rose.
  const bool lost = lead.kind == FindingKind::kLostChange || lead.kind == FindingKind::kIntegers;
  if (lost && lead.proof == Proof::kProven && !IsTinyChange(lead)) return false;
  const Divergence divergence = FindDivergence(facts);
  return (divergence.loss || divergence.norm) && facts.course.loss_rise_from &&
         lead.step > *facts.course.loss_rise_from;
}

const Mechanism* LeadingMechanism(const Facts& facts) {
  const auto& mechanisms = facts.measured.mechanisms;
  if (mechanisms.empty()) return nullptr;
  const auto explaining =
      std::find_if(mechanisms.begin(), mechanisms.end(),
                   [&](const Mechanism& mechanism) { return ExplainsOnset(facts, mechanism); });
  return explaining == mechanisms.end() ? &mechanisms.front() : &*explaining;
}

std::vector<Hypothesis> FindCauses(const Facts& facts, const std::vector<Claim>& claims,
                                   const cases::CaseLibrary& library) {
  std::vector<Claim> all = ReferenceClaims(facts);
  all.insert(all.end(), claims.begin(), claims.end());
  std::vector<Hypothesis> cases = Rank(facts, all, library);
  PutAsideOtherOperators(facts, cases);
  std::vector<Hypothesis> causes;
  const Mechanism* leading = LeadingMechanism(facts);
  for (size_t i = 0; i < facts.measured.mechanisms.size(); ++i) {
    const bool leads = &facts.measured.mechanisms[i] == leading;
    if (!leads && IsConsequence(facts, *leading, facts.measured.mechanisms[i])) continue;
    causes.push_back(FromMechanism(facts, i));
    // Whose it is stands beside where it was made.
    const Claim* of_rank = leads ? FindClaim(claims, "rank-nan") : nullptr;
    if (of_rank && ExplainsOnset(facts, *leading))
      causes.back().evidence.push_back(of_rank->sentence);
    // Cases were weighed against what the leading one says of precision. One that the record proves
    // by itself says more than a measurement that is not sure to be the cause.
    const bool says_more = !cases.empty() && IsCause(cases.front()) && !IsCause(causes.back());
    if (leads && !cases.empty() && cases.front().confidence >= kFits && !says_more &&
        SpeaksOf(facts, all, *leading, cases.front())) {
      JoinMeasured(causes.back(), std::move(cases.front()));
      cases.erase(cases.begin());
    }
    // What explains the first bad value stays first: it is where it comes from.
    if (leads) std::rotate(causes.begin(), causes.end() - 1, causes.end());
  }
  // What is measured may be told of by such a case; alone it says nothing.
  std::erase_if(cases, [](const Hypothesis& each) { return each.is_guess; });
  const double most = facts.monitored ? kMostRecognised : kLogOnly;
  for (Hypothesis& each : cases) {
    // Of a log, what a detector is sure of is what it sees, not what it comes of.
    if (!facts.monitored) each.ground = Ground::kRecognised;
    if (HasLogLine(facts, each)) each.ground = Ground::kMeasured;
    each.lines = LinesOfCalls(claims, *each.cause);
    if (each.ground == Ground::kRecognised) each.confidence = std::min(each.confidence, most);
    causes.push_back(std::move(each));
  }
  AddUndocumented(claims, causes);
  if (!leading || !ExplainsOnset(facts, *leading)) {
    DoubtData(facts, causes);
    AddNearLimit(facts, causes);
  }
  // Where what came in has no name, who carries it explains nothing yet.
  const bool named = leading && (!facts.measured.Lead(*leading).finding.was_bad_before ||
                                 !facts.measured.Lead(*leading).finding.carrier.whose.empty() ||
                                 !facts.measured.Lead(*leading).finding.carrier.at.empty());
  const bool pinned = named && !IsAfterDivergence(facts, *leading) &&
                      (ExplainsOnset(facts, *leading) || causes.front().confidence >= kStrong) &&
                      !BestCaseIsInLoop(all, causes);
  for (Hypothesis& each : causes) {
    if (each.ground == Ground::kRecognised) {
      each.confidence = std::min(each.confidence, kMostRecognised);
    }
  }
  // What was measured to be the cause comes first; then what may be.
  const auto place = [](const Hypothesis& each) {
    return std::pair(!IsCause(each), -each.confidence);
  };
  std::stable_sort(causes.begin() + (pinned ? 1 : 0), causes.end(),
                   [&](const Hypothesis& a, const Hypothesis& b) { return place(a) < place(b); });
  // Nothing is surer than what stands before it.
  for (size_t i = 1; i < causes.size(); ++i) {
    causes[i].confidence = std::min(causes[i].confidence, causes[i - 1].confidence);
  }
  return causes;
}

}  // namespace mpnanny::diagnosis
