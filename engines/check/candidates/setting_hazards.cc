#include "engines/check/candidates/setting_hazards.h"

#include <algorithm>
#include <string>

#include "engines/check/candidates/training_hazards.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

// A loss scale that changes; a static one has no start, floor or window.
bool IsDynamic(const Settings& all) {
  return all.MayBeFp16() && all.Number(Option::kLossScale).value_or(0) <= 0;
}

constexpr SettingHazard kSettingTable[] = {
    {"static-loss-scale", Option::kLossScale,
     [](const Settings& all, const Setting& one) {
       return one.number.value_or(0) > 0 && all.MayBeFp16();  // DeepSpeed's 0 is a dynamic one
     },
     kPossible, "the loss scale stays at this number for the whole run",
     "Was it measured for this model? A dynamic one follows the gradients."},
    {"initial-loss-scale-too-high", Option::kInitialScale,
     [](const Settings& all, const Setting& one) {
       return one.number.value_or(0) > kHighestInitialScale && IsDynamic(all);
     },
     kSeldom, "the loss scale starts above 2^24: each halving loses a step",
     "Are some dozen lost steps at the start of no importance?"},
    {"loss-scale-window-longer-than-run", Option::kScaleWindow,
     [](const Settings& all, const Setting& one) {
       const double run = all.Number(Option::kRunSteps).value_or(0);
       return run >= 1 && one.number.value_or(0) >= run && IsDynamic(all);
     },
     kPossible, "the run ends before the loss scale may grow: it only ever falls",
     "How many steps has the run, and does it start at the right scale?"},
    {"loss-scale-window-too-short", Option::kScaleWindow,
     [](const Settings& all, const Setting& one) {
       const double window = one.number.value_or(0);
       return window >= 1 && window <= kShortestScaleWindow && IsDynamic(all);
     },
     kPossible, "the loss scale is doubled after so few steps that one in eleven or more is lost",
     "Is the window meant to be that short?"},
    {"min-loss-scale-too-high", Option::kMinScale,
     [](const Settings& all, const Setting& one) {
       return one.number.value_or(0) >= kHighestMinScale && IsDynamic(all);
     },
     kPossible, "the loss scale may not fall below this: every step that needs less is lost",
     "Do gradients never need less?"},
    {"min-loss-scale-too-low", Option::kMinScale,
     [](const Settings& all, const Setting& one) {
       // fairseq scales the sum over all tokens of a batch, up to a million, where others scale a
       // mean.
       const double lowest =
           all.framework == Framework::kFairseq ? kLowestMinScale / 1e6 : kLowestMinScale;
       return one.number && *one.number >= 0 && *one.number < lowest && IsDynamic(all);
     },
     kSeldom, "the loss scale may fall so far that a run that has diverged goes on",
     "Who notices that nothing is trained any more?"},
    {"pure-fp16-training", Option::kPureFp16,
     [](const Settings& all, const Setting& one) {
       // An apex level means something only where FP16 is on.
       return one.on == true && (one.text != "O3" || all.IsOn(Option::kFp16));
     },
     kLikely, "weights, gradients and optimizer are FP16, and there is no loss scale",
     "Is it for inference?"},
    {"no-fp32-master-weights", Option::kHalfMaster,
     [](const Settings& all, const Setting& one) {
       const Option type = one.name.starts_with("bf16") ? Option::kBf16 : Option::kFp16;
       // Lightning's is meant for fine-tuning.
       return one.on == true && !all.IsOff(type) && all.framework != Framework::kLightning;
     },
     kPossible, "weights are kept and updated in 16 bits, without a copy in FP32",
     "Is the learning rate above half an ulp of the weights, or rounding stochastic?"},
    {"fp16-communication-unscaled", Option::kSentAs,
     [](const Settings& all, const Setting& one) {
       return one.text == "fp16" && all.IsOff(Option::kFp16);
     },
     kLikely, "gradients without a loss scale are cast to FP16 to be reduced",
     "Are gradients below 6e-8 of no importance?"},
    {"bf16-gradient-accumulation", Option::kSummedAs,
     [](const Settings& all, const Setting& one) {
       const Setting* const batches = all.Find(Option::kMicroBatches);
       return (one.text == "bf16" || one.text == "bfloat16") && !all.IsOff(Option::kBf16) &&
              batches != nullptr && batches->number.value_or(2) > 1;
     },
     kLikely, "gradients of micro-batches are added up in BF16, which has 8 bits",
     "How many are added up? Of 16 the last loses half of its bits."},
    {"bf16-overflow-check-off", Option::kOverflowCheck,
     [](const Settings& all, const Setting& one) {
       return one.on == false && !all.IsOff(Option::kBf16);
     },
     kPossible, "nothing looks for inf and NaN among BF16 gradients",
     "Who stops a step with bad gradients?"},
    {"precision-flag-in-quotes", Option::kFp16,
     [](const Settings& all, const Setting& one) {
       return all.framework == Framework::kDeepSpeed && one.quoted &&
              (one.text == "false" || one.text == "False");
     },
     kPossible, "the switch is a text, which older DeepSpeed takes for true",
     "Which DeepSpeed is it? false without quotes means the same in all."},
};

}  // namespace

std::span<const SettingHazard> SettingHazards() { return kSettingTable; }

void AddSettingCandidates(const Unit& unit, const TextIndex& lines,
                          const std::vector<Settings>& settings,
                          const std::function<bool(std::string_view rule)>& wanted,
                          Suppressions& suppressions, std::vector<Candidate>* candidates) {
  for (const Settings& all : settings) {
    for (const SettingHazard& hazard : kSettingTable) {
      const Setting* const one = all.Find(hazard.option);
      if (one == nullptr || !wanted(hazard.rule) || !hazard.when(all, *one)) continue;
      const int first = lines.LineAt(one->where.begin);
      const int last = lines.LineAt(one->where.end);
      if (suppressions.SilencesLines(first, last, hazard.rule)) continue;
      Candidate candidate;
      candidate.line = first;
      candidate.path = PathAt(unit, candidate.line);
      candidate.end_line = last - (first - candidate.line);
      candidate.rule = hazard.rule;
      candidate.hazard = hazard.hazard;
      candidate.question = hazard.question;
      candidate.score = hazard.score;
      const std::string_view code = lines.Line(first);
      const size_t begin = std::min(code.find_first_not_of(" \t"), code.size());
      candidate.code = code.substr(begin, 240);
      candidate.known.push_back(
          {std::string(FrameworkName(all.framework)) + ": " + one->name + " " + one->text, 0});
      candidate.unknown.emplace_back("whether it is meant");
      candidates->push_back(std::move(candidate));
    }
  }
}

}  // namespace mpnanny::check
