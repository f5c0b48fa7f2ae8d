#include "engines/diagnosis/facts/masked.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace mpnanny::diagnosis {
namespace {

// From which relative error on a result is another number altogether.
constexpr double kWrongNumber = 0.5;

bool IsPassingValue(const runs::AlertRow& row) {
  const bool value = row.kind == runs::kInput || row.kind == runs::kActivation ||
                     row.kind == runs::kActivationGradient;
  return value && (row.phase == Phase::kForward || row.phase == Phase::kData ||
                   row.phase == Phase::kBackward);
}

// Whether a shadow step ran while the alert held, and none found anything that such a value
// reached.
bool ShadowSawNothing(const ShadowEvidence& measured, const runs::AlertRow& row) {
  const int64_t last = row.last_step.value_or(row.step) + kStepsLookedAtAfter;
  const bool looked = std::any_of(
      measured.steps.begin(), measured.steps.end(),
      [&](const runs::ShadowStep& step) { return step.step >= row.step && step.step <= last; });
  return looked &&
         std::none_of(measured.mechanisms.begin(), measured.mechanisms.end(),
                      [&](const Mechanism& mechanism) {
                        const runs::ShadowFinding& lead = measured.Lead(mechanism).finding;
                        return GivesNonFinite(lead) && (IsUsed(lead) || !lead.was_bad_before);
                      });
}

// Whether the layer passes on memory that nothing was written into and that nothing uses: what it
// holds is another number in each step, also one that is infinite.
bool IsOfUnwrittenMemory(const ShadowEvidence& measured, const runs::AlertRow& row) {
  return row.layer_id && std::any_of(measured.mechanisms.begin(), measured.mechanisms.end(),
                                     [&](const Mechanism& mechanism) {
                                       const runs::ShadowFinding& lead =
                                           measured.Lead(mechanism).finding;
                                       return lead.carrier.kind == CarrierKind::kUnwritten &&
                                              !IsUsed(lead) && lead.layer_id == row.layer_id;
                                     });
}

}  // namespace

Result<bool> IsMasked(const runs::Source& source, const Facts& facts, const SeenAlert& alert) {
  if (!IsPassingValue(alert.row)) return false;
  MPN_TRY_ASSIGN(auto row, runs::ReadStep(source, alert.row.step));
  if (!row || !row->loss || !std::isfinite(*row->loss)) return false;
  const auto& norm = row->grad_norm;
  if (!norm || !std::isfinite(*norm) || (row->flags & (runs::kGradNonFinite | runs::kSkipped))) {
    return false;
  }
  const bool only_nan = alert.row.type == AlertType::kNan;
  return only_nan || ShadowSawNothing(facts.measured, alert.row) ||
         IsOfUnwrittenMemory(facts.measured, alert.row);
}

runs::Sentence MaskedText(const Masked& masked) {
  using runs::Form;
  using runs::Sentence;
  Sentence text(
      Form("{0} at step {1}{2}{3}: nothing of it reached the loss, a gradient or a weight.",
           "第 {1} 步{2}{0}{3}：它没有到达损失、梯度或权重。"),
      {masked.what, masked.step,
       masked.last_step > masked.step
           ? Sentence(Form(" and up to step {0}", "（直到第 {0} 步）"), {masked.last_step})
           : Sentence(),
       masked.source.empty()
           ? Sentence()
           : Sentence(Form(" ({0})", "（{0}）"), {EscapeControl(masked.source, 200)})});
  if (!masked.batch.empty()) text += Sentence(Form("The {0}.", "批次：{0}。"), {masked.batch});
  return text;
}

bool IsWorthALook(const runs::ShadowFinding& finding) {
  if (finding.kind == FindingKind::kNotUpdated) return true;
  if (finding.source.empty() || finding.source.find("site-packages") != std::string::npos)
    return false;
  if (finding.was_bad_before) return false;
  const bool used = std::any_of(finding.reach.begin(), finding.reach.end(), [](const auto& reach) {
    return reach.what == "decision" || reach.what == "index" || reach.what == "input" ||
           reach.what == "output";
  });
  const bool wrong =
      finding.kind == FindingKind::kIntegers || finding.kind == FindingKind::kLostChange ||
      finding.kind == FindingKind::kClipped || finding.kind == FindingKind::kRange ||
      (finding.kind == FindingKind::kAmplified && finding.error_out.value_or(0) >= kWrongNumber);
  return used && wrong && finding.proof == Proof::kProven;
}

}  // namespace mpnanny::diagnosis
