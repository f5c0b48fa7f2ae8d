#include "tools/diagnose_run/measured_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/trend.h"
#include "tools/runs/operator_words.h"
#include "tools/runs/protocol_text.h"
#include "tools/runs/shadow_text.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr size_t kOthersNamed = 3;
constexpr size_t kPlaceBytes = 200;

// Shares of right first causes on the labelled trainings, rounded down
// (bench/evaluations/diagnosis/confidence.md).
constexpr double kProvenError = 0.9, kProvenWarning = 0.8;
constexpr double kExcludedError = 0.85, kExcludedWarning = 0.75;
constexpr double kNotTestedError = 0.6, kNotTestedWarning = 0.45;
// The change is too small for FP32 as well: seldom where it began.
constexpr double kTinyChange = 0.45;

// More than a GradScaler begins with is no loss scale any more.
constexpr double kMostScale = 65536.0;

bool IsError(const runs::ShadowFinding& finding) { return finding.severity == "ERROR"; }

// "train.py:40, lines 38–40": where to change something.
std::string WhereToChange(const runs::ShadowFinding& finding) {
  const std::vector<std::string> lines = LinesOf(finding);
  if (lines.empty()) return "there";
  if (lines.size() == 1) return "at " + EscapeControl(lines.front(), kPlaceBytes);
  return "at " + EscapeControl(lines.front(), kPlaceBytes) + " (" +
         runs::LinesText(lines, lines.front()) + ")";
}

std::string WideFormat(const runs::ShadowFinding& finding) {
  return finding.cure && finding.cure->what == "float64" ? "FP64" : "FP32";
}

std::string FixOfLostChange(const runs::ShadowFinding& finding) {
  return "Keep the value that is changed " + WhereToChange(finding) + " in " +
         WideFormat(finding) +
         " (FP32 master weights, an FP32 average or counter) and cast a copy of it where 16 bits "
         "are wanted; or round stochastically, or keep what is lost and add it next time (Kahan).";
}

// Of a relation between states that is broken; "" of any other kind.
std::string FixOfProtocol(const runs::ShadowFinding& finding) {
  const std::string& kind = finding.kind;
  if (kind == "no_gradient") {
    return "Let the gradient pass " + WhereToChange(finding) +
           ": take the detach() or no_grad() away, use an operation that has a derivative, or a "
           "straight-through estimator, x + (rounded(x) - x).detach(). If these parameters are not "
           "to train, say so with requires_grad_(False).";
  }
  if (kind == "not_updated") {
    return "Give these parameters to the optimizer; if they are not to train, say so with "
           "requires_grad_(False).";
  }
  if (kind == "not_zeroed") {
    if (!finding.relation.at.empty()) {
      return "Call zero_grad() of this optimizer right before the backward() of its own loss, or keep "
             "the other loss's gradients away from its parameters (requires_grad_(False)).";
    }
    return "Call optimizer.zero_grad() once for each update, before its first backward().";
  }
  if (kind == "not_restored") {
    return "Restore what was saved with it as well, " + WhereToChange(finding) + ".";
  }
  if (kind == "moved_on_skip") {
    return "Advance it only where the optimizer's step was made; a GradScaler skipped it if "
           "scaler.get_scale() is smaller after scaler.update() than before.";
  }
  if (kind == "load_undone") {
    return "Restore the optimizer's own copies of the weights together with them: load its state, or "
           "make it after the weights were loaded.";
  }
  if (kind == "dropped_gradient") {
    return "Call zero_grad() once for each step of the optimizer, not before each backward().";
  }
  if (kind == "empty_step") {
    return "Make the optimizer for the model that is trained, after that was built, loaded or wrapped "
           "for the last time, and load the optimizer's state into it.";
  }
  if (kind == "moved_weights") {
    return "Find what writes into the weights outside of optimizer.step(): an average or other weights "
           "that are put in for an evaluation and not taken out again, what is kept to restore them "
           "without a copy (clone()), a load.";
  }
  if (kind == "partial_copy") {
    return "Copy or average the buffers with the parameters (AveragedModel(…, use_buffers=True)), or "
           "compute them anew before the copy is used (torch.optim.swa_utils.update_bn).";
  }
  if (kind == "scale_dependent") {
    return "Call backward() on scaler.scale(loss), call scaler.unscale_(optimizer) once before "
           "gradients are "
           "clipped, measured, changed or added to, and let scaler.step(optimizer) make the step.";
  }
  return "";
}

// A backward pass is linear in its loss, so what leaves FP16's range there has a factor that brings
// it back; a loss scale that is fixed, or a sum in the place of a mean, is what made it so large.
std::string SmallerLoss(const runs::ShadowFinding& finding) {
  const double largest = LargestFinite(runs::ResultDtype(finding));
  if (finding.kind != "range" || finding.phase != "backward" || !finding.magnitude ||
      runs::ResultDtype(finding) != "float16" || !(*finding.magnitude > largest)) {
    return "";
  }
  const double factor = std::exp2(std::ceil(std::log2(*finding.magnitude / largest)));
  if (!(factor <= kMostScale)) return "";
  return "A backward pass is linear in its loss: with a loss that is " +
         runs::Number(factor, 6) +
         " times smaller this stays in FP16's range. Divide the loss scale by that, or let "
         "torch.amp.GradScaler find one and leave out the steps that overflow; take a mean where the "
         "loss is a sum. Or: compute";
}

std::string FixOfPrecision(const runs::ShadowFinding& finding) {
  const std::string where = WhereToChange(finding);
  if (finding.kind == "lost_change") return FixOfLostChange(finding);
  if (finding.kind == "integers" && !runs::LooksUp(finding.op)) {
    return "Keep whole numbers " + where + " in an integer type or in " + WideFormat(finding) + ".";
  }
  if (finding.kind == "clipped") {
    return "Scale the values before the cast " + where + " so that they fit, or keep them in " +
           WideFormat(finding) + ".";
  }
  const std::string smaller = SmallerLoss(finding);
  std::string fix = (smaller.empty() ? "Compute " : smaller + " ") + where + " in " + WideFormat(finding) +
                    ": convert the inputs there (.float(), .double()), within "
                    "torch.autocast(device_type, enabled=False) where autocast is on, and cast the "
                    "result back afterwards.";
  if (finding.kind == "flushed" && finding.phase == "backward") {
    fix += " For gradients that are too small for FP16 a loss scale (torch.amp.GradScaler) does the "
           "same.";
  }
  if (finding.kind == "amplified") {
    fix += " Or rewrite it so that nearly equal numbers are not subtracted.";
  }
  return fix;
}

constexpr char kMaskFirst[] =
    " Rows that are not to count are taken out before anything is multiplied by them: a mask on "
    "the "
    "result does not help the gradient, in which 0 times NaN is NaN.";

// Of what was not finite before the step began: whose it is, and where that came from.
std::string FixOfCarried(const runs::ShadowFinding& finding) {
  const runs::ShadowCarrier& carrier = finding.carrier;
  const std::string whose = carrier.whose.empty() ? "it" : EscapeControl(carrier.whose, 120);
  const std::string at = carrier.at.empty() ? "" : " at " + EscapeControl(carrier.at, kPlaceBytes);
  if (carrier.kind == "unwritten") {
    return "Write every element" + at +
           " before it is read (torch.zeros, not torch.empty), or leave the "
           "rows out that nothing writes." +
           kMaskFirst;
  }
  if (carrier.kind == "state") {
    return "Find what wrote " + whose + at +
           ": a checkpoint that holds it (`mpnanny analyze FILE` names the "
           "tensors of one that are not finite), or an earlier step of another run. Load or reset "
           "that state.";
  }
  return "Find where " + whose + " got values that are not finite" + at +
         ", and repair or leave out those rows." + kMaskFirst;
}

// What an operator was given where it is not defined, as far as that was measured.
std::string FixOfUndefined(const runs::ShadowFinding& finding) {
  if (finding.was_bad_before) return FixOfCarried(finding);
  const std::string where = WhereToChange(finding);
  const std::string first =
      finding.rounded_before ? "Make what comes in there in FP32: it is held in 16 bits. Or " : "";
  const auto sentence = [&](std::string text) {
    if (first.empty())
      text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    return first + text;
  };
  if (finding.phase == "backward" && runs::IsSteepAtZero(finding.forward_op)) {
    return sentence("add a small number (eps) inside the " + runs::OperatorWord(finding.forward_op) +
                    " " + where +
                    ", or take out what is exactly 0 before it (torch.where on its input). Masking "
                    "the result afterwards does not help the gradient.");
  }
  switch (runs::KindOfOperator(finding.op)) {
    case runs::OperatorKind::kConstant:
      return sentence("take the constant away that is put in " + where +
                      ", or what it stands for." + kMaskFirst);
    case runs::OperatorKind::kMoves:
      return sentence("find what writes the values that are passed on " + where +
                      ": the operator itself makes none." + kMaskFirst);
    case runs::OperatorKind::kDomain:
      return sentence(
          "keep the operator " + where +
          " away from inputs that it is not defined for (0, negative numbers, rows "
          "without an element): clamp or mask its input, or add a small number inside the "
          "root, the logarithm or the divisor. Masking the result afterwards does not help "
          "the gradient.");
    case runs::OperatorKind::kOther:
      break;
  }
  return sentence(
      "look at what goes in " + where +
      ": with these inputs the result is not finite in any format. Bound or mask it before.");
}

}  // namespace

std::string NearLimitTitle(const runs::ShadowFinding& finding, const std::string& module) {
  return runs::SubjectOf(finding, module) + " was near the end of its format before: up to " +
         runs::Number(finding.magnitude, 3) + ", and " + runs::ResultDtype(finding) + " ends at " +
         runs::Number(LargestFinite(runs::ResultDtype(finding)), 3);
}

std::string NearLimitEvidence(const runs::ShadowFinding& finding, int64_t first_bad_step) {
  return "Measured at step " + std::to_string(finding.step) +
         (finding.repeats > 1 && finding.last_step
              ? ", and in " + runs::Count(finding.repeats, "shadow step") + " up to step " +
                    std::to_string(*finding.last_step)
              : "") +
         ". Step " + std::to_string(first_bad_step) +
         " was not run a second time, so that it went past the end there is likely and not "
         "measured.";
}

std::string NearLimitFix(const runs::ShadowFinding& finding) {
  const std::string_view op = runs::OperatorBaseName(finding.op);
  if (op.starts_with("exp")) {
    return "Subtract the largest of a row before the exponential " + WhereToChange(finding) +
           ", which changes no ratio (as softmax and logsumexp do), or bound what goes in.";
  }
  return "Bound or scale what is computed " + WhereToChange(finding) +
         ", or use a format of wider range.";
}

bool ComparesWithItself(const runs::ShadowFinding& finding) {
  const std::string& kind = finding.kind;
  return finding.rounded_between || kind == "load_undone" || kind == "dropped_gradient" || kind == "empty_step" ||
         kind == "moved_weights" || kind == "partial_copy" || kind == "not_restored" ||
         kind == "moved_on_skip" || (kind == "not_zeroed" && !finding.relation.at.empty());
}

std::string MeasuredTitle(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const MeasuredFinding& lead = measured.Lead(mechanism);
  std::string title = runs::WordsOf(lead.finding, lead.module).what;
  if (title.ends_with('.')) title.pop_back();
  return title;
}

std::string PrecisionSentence(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const MeasuredFinding& lead = measured.Lead(mechanism);
  const runs::ShadowFinding& finding = lead.finding;
  const std::string detail = runs::WordsOf(finding, lead.module).precision;
  if (finding.kind == "diverged") return detail;
  if (runs::IsProtocol(finding.kind)) {
    return ComparesWithItself(finding) ? "It is not precision."
                                       : "It is not precision: in FP64 the same holds.";
  }
  if (IsTinyChange(finding)) {
    return "FP64 would keep these changes, but they are below 6e-8 of the value that they are to "
           "change: first ask why they are so small (learning rate, gradients that fade).";
  }
  if (IsTooLargeForFp32(finding)) {
    return "No format of 32 bits holds such a value: what made it so large is the fault, and not "
           "the "
           "format.";
  }
  if (finding.was_bad_before) {
    return (finding.precision == "excluded" ? "It is not precision. " : "") + detail;
  }
  if (finding.precision == "proven") return "Precision is the cause (proven). " + detail;
  if (finding.precision == "excluded") return "It is not precision. " + detail;
  if (finding.rounded_before) return detail;
  return "Whether precision is the cause is not established: a computation in FP32 did not take "
         "the error away, or could not be tried.";
}

std::vector<std::string> MeasuredEvidence(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const MeasuredFinding& lead = measured.Lead(mechanism);
  const runs::FindingWords words = runs::WordsOf(lead.finding, lead.module);
  std::vector<std::string> evidence = {
      "Measured at step " + std::to_string(lead.finding.step) +
      (lead.finding.repeats > 1
           ? ", and in " + runs::Count(lead.finding.repeats, "shadow step") + " together"
           : "") +
      (ComparesWithItself(lead.finding)
           ? ", by comparing the run's own values from step to step. "
           : ", by running every operator of the step a second time in FP64. ") +
      PrecisionSentence(measured, mechanism)};
  if (!words.operands.empty()) evidence.push_back(words.operands);
  if (!words.reach.empty()) evidence.push_back(words.reach);
  for (size_t i = 1; i < mechanism.findings.size() && i <= kOthersNamed; ++i) {
    const MeasuredFinding& other = measured.findings[mechanism.findings[i]];
    evidence.push_back("With it, at step " + std::to_string(other.finding.step) + ": " +
                       runs::WordsOf(other.finding, other.module).what);
  }
  if (mechanism.findings.size() > kOthersNamed + 1) {
    evidence.push_back("And " +
                       runs::Count(static_cast<int64_t>(mechanism.findings.size() - kOthersNamed - 1),
                                   "more finding") +
                       " of the same mistake.");
  }
  return evidence;
}

std::string MeasuredFix(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const runs::ShadowFinding& finding = measured.Lead(mechanism).finding;
  if (finding.kind == "diverged") {
    return "Lower the learning rate or warm it up longer, and clip gradients (after unscaling "
           "them).";
  }
  if (runs::IsProtocol(finding.kind)) return FixOfProtocol(finding);
  if (IsTinyChange(finding)) {
    return "Raise the learning rate, or find why the gradient is so small; where small changes are "
           "right, sum them up apart or in FP64.";
  }
  if (IsTooLargeForFp32(finding)) {
    return "Find what made the values so large " + WhereToChange(finding) +
           " or before it: a learning rate that is too high, weights or states that grow, a "
           "division "
           "by nearly 0, an exponential whose largest input is not subtracted first.";
  }
  if (finding.precision == "proven") return FixOfPrecision(finding);
  if (finding.kind == "undefined") return FixOfUndefined(finding);
  if (finding.precision == "excluded") {
    return "Change what is computed " + WhereToChange(finding) + "; another format does not help.";
  }
  if (finding.kind == "lost_change") return FixOfLostChange(finding);
  return "Not established. Run the training once more with FP32 " + WhereToChange(finding) +
         " and compare.";
}

double MeasuredConfidence(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const runs::ShadowFinding& finding = measured.Lead(mechanism).finding;
  if (IsTinyChange(finding)) return kTinyChange;
  // Who carries it is measured, whatever made it before.
  if (finding.was_bad_before && !(finding.carrier.whose.empty() && finding.carrier.at.empty())) {
    return IsError(finding) ? kExcludedError : kExcludedWarning;
  }
  if (finding.precision == "proven") return IsError(finding) ? kProvenError : kProvenWarning;
  if (finding.precision == "excluded") return IsError(finding) ? kExcludedError : kExcludedWarning;
  return IsError(finding) ? kNotTestedError : kNotTestedWarning;
}

}  // namespace mpnanny::diagnose_run
