#include "engines/judgement/rating.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {
namespace {

bool IsNotFinite(const Finding& finding) {
  return finding.kind == FindingKind::kRange || finding.kind == FindingKind::kUndefined;
}

// Whether it multiplies or sums over steps, so that a small error of one step is a factor at the
// end: a schedule's products, a discount to the power of a distance.
bool GoesOverSteps(const std::string& schema) {
  static const std::set<std::string> kThese = {"aten::cumprod", "aten::cumsum", "aten::prod",
                                               "aten::pow", "aten::logcumsumexp"};
  return kThese.contains(schema);
}

// Made here, and yet not wrong: what is far off later has more than this one behind it. But a batch
// that is far off has come all the way from here, and so has a loss from what went over steps.
bool IsNote(const Finding& finding, const Calls& calls) {
  if (finding.GetsTo(Reached::kInput)) return false;
  if (finding.GetsTo(Reached::kLoss) && GoesOverSteps(calls.PlaceOf(finding.place).Schema()))
    return false;
  const bool is_small = finding.error_out < kWrong;
  return is_small &&
         (finding.kind == FindingKind::kAmplified || finding.kind == FindingKind::kFlushed);
}

bool IsDiscarded(const Finding& finding, const Calls& calls) {
  return finding.kind == FindingKind::kRange &&
         calls.PlaceOf(finding.place).phase == Phase::kBackward &&
         finding.GetsOnlyTo({Reached::kOutput, Reached::kReplaced});
}

// Whether it can be what makes a training look settled: 16-bit weights that stand still for want of
// resolution, or a size of the step that was decided the other way.
bool LooksSettled(const Finding& finding) {
  if (finding.kind == FindingKind::kLostChange) return finding.dtype != NameOf(Element::kFloat32);
  return finding.GetsTo(Reached::kDecision);
}

// Nothing is left of what is computed there but rounding, and FP32 would have kept it. Logits and
// distances can be so while the loss hardly moves: what is small beside the labels' part of it may
// be all that there is to learn. The monitor asks that it comes back (shadow/severities.py). What
// FP32 itself does not keep is the difference of two that are meant to agree; and what no gradient
// comes through is not learned from: a metric, an average of it.
bool IsOnlyRounding(const Finding& finding, const Calls& calls) {
  const Word<Phase>& phase = calls.PlaceOf(finding.place).phase;
  return finding.kind == FindingKind::kAmplified && finding.precision == Proof::kProven &&
         finding.cure && finding.cure->what == NameOf(Element::kFloat32) &&
         finding.error_out >= kOwnError && (phase == Phase::kForward || phase == Phase::kLoss);
}

// FP32 keeps less than FP64 of the small differences by which an optimizer searches along a line,
// near its end: it reads them itself, and nothing else comes of them. A value beyond FP32's range
// is none of these.
bool IsOfASearch(const Finding& finding, const Calls& calls) {
  return !IsNotFinite(finding) && calls.PlaceOf(finding.place).phase == Phase::kOptimizer &&
         finding.cure && finding.cure->what == NameOf(Element::kFloat64) &&
         finding.GetsOnlyTo({Reached::kReplaced, Reached::kOutput});
}

// Those whose error findings of the backward pass work on.
std::set<int> Derived(const Findings& findings, const Calls& calls) {
  std::set<int> derived;
  for (const Finding& each : findings.all()) {
    if (calls.PlaceOf(each.place).phase != Phase::kBackward) continue;
    for (int at = each.parent; at != kNone; at = findings[at].parent) derived.insert(at);
  }
  return derived;
}

Severity SeverityOf(const Finding& finding, const Calls& calls) {
  if (finding.GetsOnlyTo({Reached::kReplaced}) || IsNote(finding, calls) ||
      IsOfASearch(finding, calls)) {
    return Severity::kInfo;
  }
  if (IsNotFinite(finding) && !finding.discarded) return Severity::kError;
  return Severity::kWarning;
}

// Out of range because of values that were wholly wrong before: what cures those cures this.
void Follow(Finding& finding, const Findings& findings) {
  if (finding.kind != FindingKind::kRange || finding.precision != Proof::kNotTested) return;
  for (int at = finding.parent; at != kNone; at = findings[at].parent) {
    const Finding& before = findings[at];
    if (before.cure && before.error_out >= kOwnError) {
      finding.cure = before.cure;
      finding.precision = before.precision;
      return;
    }
  }
}

// What reaches nothing is worth a note at most, and an infinity that is thrown away is none.
bool Counts(const Finding& finding) {
  return !finding.reach.empty() ||
         (!IsNotFinite(finding) && finding.kind != FindingKind::kLostChange &&
          finding.kind != FindingKind::kIntegers);
}

// Worse before better, and earlier before later.
auto OrderOf(const Finding& finding) {
  const int kind = IsNotFinite(finding) ? static_cast<int>(finding.kind) : 99;
  return std::tuple(finding.severity, kind, finding.number);
}

}  // namespace

std::vector<int> Rate(Findings& findings, const Calls& calls, const Course& course) {
  std::vector<int> numbers;
  const std::set<int> derived = Derived(findings, calls);
  for (size_t at = 0; at < findings.all().size(); ++at) {
    const int number = static_cast<int>(at);
    Finding& finding = findings[number];
    finding.discarded = IsDiscarded(finding, calls);
    finding.severity = SeverityOf(finding, calls);
    if (finding.reach.empty() && derived.contains(number) && !course.is_small_loss &&
        IsOnlyRounding(finding, calls)) {
      finding.severity = Severity::kWarning;
    }
    Follow(finding, findings);
    if (finding.severity == Severity::kWarning && course.is_settled && !LooksSettled(finding))
      finding.severity = Severity::kInfo;
    if (Counts(finding)) numbers.push_back(number);
  }
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](int a, int b) { return OrderOf(findings[a]) < OrderOf(findings[b]); });
  return numbers;
}

}  // namespace mpnanny::judgement
