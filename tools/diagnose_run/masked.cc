#include "tools/diagnose_run/masked.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace mpnanny::diagnose_run {
namespace {

// From which relative error on a result is another number altogether.
constexpr double kWrongNumber = 0.5;

bool IsPassingValue(const runs::AlertRow& row) {
  const bool value = row.kind == runs::kInput || row.kind == runs::kActivation ||
                     row.kind == runs::kActivationGradient;
  return value && (row.phase == "forward" || row.phase == "data" || row.phase == "backward");
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
                                       return lead.carrier.kind == "unwritten" && !IsUsed(lead) &&
                                              lead.layer_id == row.layer_id;
                                     });
}

}  // namespace

Result<bool> IsMasked(const runs::Source& source, const Facts& facts, const SeenAlert& alert) {
  if (!IsPassingValue(alert.row)) return false;
  auto row = runs::ReadStep(source, alert.row.step);
  if (!row) return row.error();
  if (!*row || !(*row)->loss || !std::isfinite(*(*row)->loss)) return false;
  const auto& norm = (*row)->grad_norm;
  if (!norm || !std::isfinite(*norm) || ((*row)->flags & (runs::kGradNonFinite | runs::kSkipped))) {
    return false;
  }
  const bool only_nan = alert.row.type == "NAN";
  return only_nan || ShadowSawNothing(facts.measured, alert.row) ||
         IsOfUnwrittenMemory(facts.measured, alert.row);
}

std::string MaskedText(const Masked& masked) {
  std::string text = masked.what + " at step " + std::to_string(masked.step);
  if (masked.last_step > masked.step) text += " and up to step " + std::to_string(masked.last_step);
  if (!masked.source.empty()) text += " (" + EscapeControl(masked.source, 200) + ")";
  text += ": nothing of it reached the loss, a gradient or a weight.";
  return masked.batch.empty() ? text : text + " The " + masked.batch + ".";
}

bool IsWorthALook(const runs::ShadowFinding& finding) {
  if (finding.kind == "not_updated") return true;
  if (finding.source.empty() || finding.source.find("site-packages") != std::string::npos)
    return false;
  if (finding.was_bad_before) return false;
  const bool used = std::any_of(finding.reach.begin(), finding.reach.end(), [](const auto& reach) {
    return reach.what == "decision" || reach.what == "index" || reach.what == "input" ||
           reach.what == "output";
  });
  const bool wrong = finding.kind == "integers" || finding.kind == "lost_change" ||
                     finding.kind == "clipped" || finding.kind == "range" ||
                     (finding.kind == "amplified" && finding.error_out.value_or(0) >= kWrongNumber);
  return used && wrong && finding.precision == "proven";
}

}  // namespace mpnanny::diagnose_run
