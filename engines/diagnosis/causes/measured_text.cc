#include "engines/diagnosis/causes/measured_text.h"

#include <utility>

#include "base/text.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/runs/relation_text.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Number;
using runs::Sentence;

constexpr size_t kOthersNamed = 3;

// Shares of right first causes on the labelled trainings, rounded down
// (bench/evaluations/diagnosis/confidence.md).
constexpr double kProvenError = 0.9, kProvenWarning = 0.8;
constexpr double kExcludedError = 0.85, kExcludedWarning = 0.75;
constexpr double kNotTestedError = 0.6, kNotTestedWarning = 0.45;
// The change is too small for FP32 as well: seldom where it began.
constexpr double kTinyChange = 0.45;

bool IsError(const runs::ShadowFinding& finding) { return finding.severity == Severity::kError; }

}  // namespace

Sentence NearLimitTitle(const runs::ShadowFinding& finding, const std::string& module) {
  const std::string dtype = runs::ResultDtype(finding);
  return {Form("{0} was near the end of its format before: up to {1}, and {2} ends at {3}",
               "{0}此前已接近其格式的上限：最大 {1}，而 {2} 的上限为 {3}"),
          {runs::SubjectOf(finding, module), Number(finding.magnitude, 3), dtype,
           Number(LargestFinite(dtype), 3)}};
}

Sentence NearLimitEvidence(const runs::ShadowFinding& finding, int64_t first_bad_step) {
  return {Form("Measured at step {0}{1}. Step {2} was not run a second time, so that it went past "
               "the end there is likely and not measured.",
               "在第 {0} 步测得{1}。第 {2} 步没有再运行一遍，"
               "因此它在那里超出上限是很可能的，但没有测量。"),
          {finding.step,
           finding.repeats > 1 && finding.last_step
               ? Sentence(Form(", and in {0:shadow step} up to step {1}",
                               "，到第 {1} 步共有 {0} 个影子步"),
                          {finding.repeats, *finding.last_step})
               : Sentence(),
           first_bad_step}};
}

bool ComparesWithItself(const runs::ShadowFinding& finding) {
  const Word<FindingKind>& kind = finding.kind;
  return finding.rounded_between || kind == FindingKind::kLoadUndone ||
         kind == FindingKind::kDroppedGradient || kind == FindingKind::kEmptyStep ||
         kind == FindingKind::kMovedWeights || kind == FindingKind::kPartialCopy ||
         kind == FindingKind::kStateNarrowed || kind == FindingKind::kRecast ||
         kind == FindingKind::kNonfiniteKept || kind == FindingKind::kStandsStill ||
         kind == FindingKind::kSavedOtherwise || kind == FindingKind::kStateOfAnother ||
         kind == FindingKind::kNotReproduced || kind == FindingKind::kNotRestored ||
         kind == FindingKind::kMovedOnSkip ||
         (kind == FindingKind::kNotZeroed && !finding.relation.at.empty());
}

Sentence MeasuredTitle(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const MeasuredFinding& lead = measured.Lead(mechanism);
  return runs::WordsOf(lead.finding, lead.module).what.Bare();
}

Sentence PrecisionSentence(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const MeasuredFinding& lead = measured.Lead(mechanism);
  const runs::ShadowFinding& finding = lead.finding;
  Sentence detail = runs::WordsOf(finding, lead.module).precision;
  if (finding.kind == FindingKind::kDiverged) return detail;
  const auto judged = [&](Form judgement) {
    Sentence text = judgement;
    text += std::move(detail);
    return text;
  };
  const Form not_precision("It is not precision.", "这不是精度问题。");
  if (runs::IsRelation(finding.kind)) {
    if (finding.proof == Proof::kProven) {
      return Form("Precision is the cause: what 16 bits took from these values was counted.",
                  "原因是精度：16 位从这些数值中去掉的部分已经统计出来。");
    }
    return ComparesWithItself(finding) ? not_precision
                                       : Form("It is not precision: in FP64 the same holds.",
                                              "这不是精度问题：在 FP64 中也是如此。");
  }
  if (finding.lost_before) {
    return Form("What loses it stands among the other measurements.", "丢失它的地方见其余测量。");
  }
  if (IsTinyChange(finding)) {
    return Form(
        "FP64 would keep these changes, but they are below 6e-8 of the value that they are to "
        "change: first ask why they are so small (learning rate, gradients that fade).",
        "FP64 能保住这些变化，但它们小于所要改变的数值的 6e-8："
        "先问它们为何如此之小（学习率、逐渐消失的梯度）。");
  }
  if (IsTooLargeForFp32(finding)) {
    return Form(
        "No format of 32 bits holds such a value: what made it so large is the fault, and not the "
        "format.",
        "没有一种 32 位格式能容纳这样的数值：错在使它变得如此之大的原"
        "因，而不在格式。");
  }
  if (finding.was_bad_before)
    return finding.proof == Proof::kExcluded ? judged(not_precision) : detail;
  if (finding.proof == Proof::kProven) {
    return judged(Form("Precision is the cause (proven).", "原因是精度（已证实）。"));
  }
  if (finding.proof == Proof::kExcluded) return judged(not_precision);
  if (finding.rounded_before) return detail;
  return Form(
      "Whether precision is the cause is not established: a computation in FP32 did not take the "
      "error away, or could not be tried.",
      "原因是否是精度尚未确定：用 FP32 计算没有消除误差，或未能尝试。");
}

std::vector<Sentence> MeasuredEvidence(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const MeasuredFinding& lead = measured.Lead(mechanism);
  const runs::FindingWords words = runs::WordsOf(lead.finding, lead.module);
  Sentence how(
      ComparesWithItself(lead.finding)
          ? Form("Measured at step {0}{1}, by comparing the run's own values from step to step.",
                 "在第 {0} 步{1}测得，方法是逐步比较训练自身的数值。")
          : Form("Measured at step {0}{1}, by running every operator of the step a second time in "
                 "FP64.",
                 "在第 {0} 步{1}测得，方法是以 FP64 把该步的每个算子再运行一遍。"),
      {lead.finding.step,
       lead.finding.repeats > 1
           ? Sentence(Form(", and in {0:shadow step} together", "（共 {0} 个影子步）"),
                      {lead.finding.repeats})
           : Sentence()});
  std::vector<Sentence> evidence = {std::move(how)};
  if (!lead.finding.called_from.empty()) {
    const std::string lines = EscapeControl(Join(lead.finding.called_from, ", "), 400);
    evidence.push_back({Form("Called from {0}.", "调用处：{0}。"), {lines}});
  }
  if (!words.operands.empty()) evidence.push_back(words.operands);
  if (!words.reach.empty()) evidence.push_back(words.reach);
  for (size_t i = 1; i < mechanism.findings.size() && i <= kOthersNamed; ++i) {
    const MeasuredFinding& other = measured.findings[mechanism.findings[i]];
    evidence.push_back({other.finding.repeats > 1
                            ? Form("With it, from step {0} on, at its worst: {1}",
                                   "同时从第 {0} 步起，最严重时：{1}")
                            : Form("With it, at step {0}: {1}", "同时在第 {0} 步：{1}"),
                        {other.finding.step, runs::WordsOf(other.finding, other.module).what}});
  }
  if (mechanism.findings.size() > kOthersNamed + 1) {
    evidence.push_back(
        {Form("And {0:more finding} of the same mistake.", "另有 {0} 个同一错误的发现。"),
         {static_cast<int64_t>(mechanism.findings.size() - kOthersNamed - 1)}});
  }
  return evidence;
}

double MeasuredConfidence(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const runs::ShadowFinding& finding = measured.Lead(mechanism).finding;
  if (IsTinyChange(finding) || finding.lost_before) return kTinyChange;
  // Who carries it is measured, whatever made it before.
  if (finding.was_bad_before && !(finding.carrier.whose.empty() && finding.carrier.at.empty())) {
    return IsError(finding) ? kExcludedError : kExcludedWarning;
  }
  if (finding.proof == Proof::kProven) return IsError(finding) ? kProvenError : kProvenWarning;
  if (finding.proof == Proof::kExcluded)
    return IsError(finding) ? kExcludedError : kExcludedWarning;
  return IsError(finding) ? kNotTestedError : kNotTestedWarning;
}

}  // namespace mpnanny::diagnosis
