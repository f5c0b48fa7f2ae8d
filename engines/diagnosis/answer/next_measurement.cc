#include "engines/diagnosis/answer/next_measurement.h"

#include <algorithm>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr double kSettled = 0.8;  // a best cause this sure …
constexpr int64_t kSomeSteps = 20;
constexpr int64_t kFewShadows = 3;
constexpr double kLead = 0.2;  // … and this far ahead needs no further measurement, only the fix

constexpr Form kPatch(
    "Record the next run; two lines in the script:\n"
    "  from mpnanny import MixedPrecisionNanny; nanny = MixedPrecisionNanny(model, "
    "optimizer=optimizer, scaler=scaler)\n"
    "  with nanny.step(step) as record: ...; record.log(loss=loss)\n"
    "Then ask diagnose_run of nanny_logs/metrics.db.",
    "记录下一次训练；在脚本中加两行：\n"
    "  from mpnanny import MixedPrecisionNanny; nanny = MixedPrecisionNanny(model, "
    "optimizer=optimizer, scaler=scaler)\n"
    "  with nanny.step(step) as record: ...; record.log(loss=loss)\n"
    "然后对 nanny_logs/metrics.db 调用 diagnose_run。");

// Rules of the hypotheses' cases that nobody looked for yet.
std::vector<std::string> RulesToLookFor(const Facts& facts, const Diagnosis& diagnosis) {
  std::vector<std::string> rules;
  for (size_t i = 0; i < std::min<size_t>(3, diagnosis.hypotheses.size()); ++i) {
    for (const cases::Signal* signal : diagnosis.hypotheses[i].unseen) {
      if (signal->kind == cases::Signal::Kind::kRule && rules.size() < 4 &&
          facts.known_rules.contains(signal->name) &&
          std::find(rules.begin(), rules.end(), signal->name) == rules.end()) {
        rules.push_back(signal->name);
      }
    }
  }
  return rules;
}

}  // namespace

namespace {

// What is left to do about a cause that shadow steps measured.
Sentence AfterMeasurement(const Facts& facts, const Hypothesis& best) {
  const runs::ShadowFinding& lead =
      facts.measured.Lead(facts.measured.mechanisms[*best.mechanism]).finding;
  if (lead.was_bad_before && lead.proof == Proof::kNotTested) {
    return {Form("What came in was not finite before step {0}: look at what is loaded or made "
                 "before it (`mpnanny analyze FILE` of a checkpoint), not at the step itself.",
                 "输入在第 {0} 步之前就已非有限：检查在此之前载入或产生的内容（"
                 "对检查点用 `mpnanny analyze FILE`），而不是该步本身。"),
            {lead.step}};
  }
  if (lead.proof != Proof::kNotTested) {
    Sentence text(Form("None is needed for the cause: it is measured. To see that a fix works, "
                       "apply it, train past step {0} with `mpnanny run --shadow steps={0}-{1} -- "
                       "…` and ask again: this finding must be gone.",
                       "原因已经测得，不需要再测量。要确认修复有效，应用它，"
                       "用 `mpnanny run --shadow steps={0}-{1} -- …` 训练过第 {0} 步，"
                       "然后再次询问：该发现应已消失。"),
                  {lead.step, lead.step + 2});
    if (!facts.code_checked) {
      text += Form("With the training code as `paths` the lines are shown.",
                   "以 `paths` 给出训练代码可以显示相应的行。");
    }
    return text;
  }
  return {
      Form("Train past step {0} once more with the lines above in FP32 and `mpnanny run --shadow "
           "steps={0}-{1} -- …`: if the finding is gone, precision is the cause there.",
           "把上面的行改用 FP32，用 `mpnanny run --shadow steps={0}-{1} "
           "-- …` 再训练过第 {0} 步：若该发现消失，则那里的原因是精度。"),
      {lead.step, lead.step + 2}};
}

// Whether a shadow step found something in a format narrower than FP32: a single copy or table of a
// run that computes in FP32.
bool HasNarrow(const ShadowEvidence& measured) {
  const auto narrow = [](const MeasuredFinding& each) {
    const std::string& dtype = each.finding.dtype;
    return dtype.find("float16") != std::string::npos || dtype.find("float8") != std::string::npos;
  };
  return std::any_of(measured.findings.begin(), measured.findings.end(), narrow) ||
         std::any_of(measured.minor.begin(), measured.minor.end(), narrow);
}

bool HasShadow(const Facts& facts, int64_t step) {
  return std::any_of(facts.measured.steps.begin(), facts.measured.steps.end(),
                     [&](const runs::ShadowStep& each) { return each.step == step; });
}

}  // namespace

Sentence NextMeasurement(const Facts& facts, const Diagnosis& diagnosis) {
  if (!facts.monitored) return kPatch;
  if (!diagnosis.hypotheses.empty() && diagnosis.hypotheses[0].mechanism) {
    return AfterMeasurement(facts, diagnosis.hypotheses[0]);
  }
  if (diagnosis.verdict == Health::kHealthy && facts.precision == Precision::kFp32 &&
      !HasNarrow(facts.measured)) {
    return Form(
        "If the result is worse than expected all the same: the run computes in FP32, so look "
        "first at what stands under \"Not tested\": one batch, its labels, and the loss that an "
        "untrained model must have.",
        "若结果仍不如预期：训练以 FP32 计算，因此先看没有检查的部分："
        "一个批次、它的标签，以及未训练的模型应有的损失。");
  }
  if (diagnosis.verdict == Health::kHealthy) {
    return Form(
        "If the result is worse than expected all the same: train the same seed in FP32 under the "
        "monitor and compare the two (compare_runs); where they agree, it is not precision, and "
        "what stands under \"Not tested\" comes next: look at one batch, its labels and the loss "
        "that an untrained model must have.",
        "若结果仍不如预期：用相同的种子以 FP32 "
        "在监视器下训练，并比较两者（compare_"
        "runs）；若一致，就不是精度问题，接着看没有检查的部分：一个批次、它的标签，以及未训练的模型"
        "应有的损失。");
  }
  if (const auto& failed = facts.loop.failed;
      failed && (diagnosis.verdict == Health::kNotEstablished || !facts.onset)) {
    if (failed->through_mode) {
      return Form(
          "Run it again with `mpnanny run --shadow off -- …`: whether the exception is the "
          "program's own.",
          "用 `mpnanny run --shadow off -- …` 再运行一次：看异常是否来自程序本身。");
    }
    return {Form("None is needed for the exception: it names its line{0}. Change that, run again "
                 "and ask again.",
                 "异常已指明所在的行{0}，不需要再测量。修改该行，重新训练，"
                 "再次询问。"),
            {failed->source.empty()
                 ? Sentence()
                 : Sentence(Form(" ({0})", "（{0}）"), {EscapeControl(failed->source, 200)})}};
  }
  if (diagnosis.verdict == Health::kNotEstablished) {
    return facts.summary.steps >= kSomeSteps
               ? Form(
                     "Look at what the headline names: whether it is meant to be so, the record "
                     "cannot tell.",
                     "查看结论所指出的内容：记录无法说明这是否出于本意。")
               : Form(
                     "Let the run make some steps with a logged loss (record.log(loss=loss)) and "
                     "ask again.",
                     "让训练多运行几步并记录损失（record.log(loss=loss)），"
                     "再次询问。");
  }
  const auto shadows = static_cast<int64_t>(facts.measured.steps.size());
  if (shadows > 0 && shadows < kFewShadows && facts.summary.steps >= kSomeSteps) {
    return {Form("Record the run again with `mpnanny run --shadow every=20 -- …`: only {0:step} of "
                 "{1} ran a second time in FP64, and faults of the training loop (gradients that "
                 "are not zeroed, states that are not restored) show in three and more.",
                 "用 `mpnanny run --shadow every=20 -- …` 重新记录："
                 "{1} 步中只有 {0} 步以 FP64 再运行一遍，"
                 "而训练循环的故障（没有清零的梯度、没有恢复的状态）要三步以上才"
                 "能显示。"),
            {shadows, facts.summary.steps}};
  }
  const auto& hypotheses = diagnosis.hypotheses;
  const bool settled =
      !hypotheses.empty() && hypotheses[0].confidence >= kSettled &&
      (hypotheses.size() == 1 || hypotheses[0].confidence - hypotheses[1].confidence >= kLead);
  if (settled && facts.onset && !facts.onset->layer.empty()) {
    return {Form("The cause stands. To see that the fix works: apply it, train past step {0} with "
                 "trace_interval=10, and look at absmax of {1}.",
                 "原因已经确定。要确认修复有效：应用它，以 trace_interval=10 训"
                 "练过第 {0} 步，查看 {1} 的 absmax。"),
            {facts.onset->step, runs::Name(facts.onset->layer)}};
  }
  if (facts.measured.steps.empty() || (facts.onset && !HasShadow(facts, facts.onset->step))) {
    const int64_t step = facts.onset ? facts.onset->step : 0;
    return {Form("Record the run again with `mpnanny run --shadow steps={0}-{1} -- …` from the "
                 "last checkpoint before it: those steps then run a second time in FP64, which "
                 "names the operator and says whether precision is to blame.",
                 "从此前最近的检查点起，用 `mpnanny run --shadow steps={0}-{1} "
                 "-- …` 重新记录：这些步会以 FP64 再运行一遍，从而指出算子，"
                 "并说明是否是精度问题。"),
            {std::max<int64_t>(0, step - 2), step + 1}};
  }
  if (!facts.code_checked) {
    const std::vector<std::string> rules = RulesToLookFor(facts, diagnosis);
    if (rules.empty()) {
      return Form("Call diagnose_run again with the training code as `paths`.",
                  "以 `paths` 给出训练代码，再次调用 diagnose_run。");
    }
    return {Form("Call diagnose_run again with the training code as `paths`: it costs "
                 "milliseconds, and a finding of {0} would decide between the causes.",
                 "以 `paths` 给出训练代码，再次调用 diagnose_run：只需几毫秒，"
                 "若发现 {0}，就能在各原因之间做出判断。"),
            {Sentence::InEach(Join(rules, " or "), Join(rules, " 或 "))}};
  }
  if (facts.onset && facts.onset->place == Onset::Place::kUnplaced) {
    return {Form("Train again from the last checkpoint before step {0} with "
                 "MixedPrecisionNanny(model, trace_interval=1): every layer is then sampled at "
                 "every step, and the producer gets a name.",
                 "从第 {0} 步之前最近的检查点起，用 MixedPrecisionNanny(model, "
                 "trace_interval=1) 重新训练：每层每步都会采样，从而指出源头。"),
            {facts.onset->step}};
  }
  const bool half = facts.precision == Precision::kFp16 || facts.precision == Precision::kBf16 ||
                    facts.precision == Precision::kFp8;
  const int64_t steps = facts.onset ? facts.onset->step : facts.summary.last_step.value_or(0);
  if (half) {
    return {Form("Train the same seed past step {0} in FP32 (autocast off) under the monitor: if "
                 "it fails there as well, precision is not the cause; if it does not, the layer "
                 "whose absmax there passes the format's limit is the one that must stay in FP32.",
                 "用相同的种子以 FP32（关闭 autocast）在监视器下训练过第 {0} "
                 "步：若同样失败，原因不是精度；若不失败，则 absmax 超过格式上限"
                 "的那一层必须保持 FP32。"),
            {steps}};
  }
  return Form(
      "Train the same seed with a tenth of the learning rate: if it holds, the step size is the "
      "cause and not the numbers.",
      "用相同的种子、十分之一的学习率训练：若稳定，则原因是步长，"
      "而不是数值。");
}

}  // namespace mpnanny::diagnosis
