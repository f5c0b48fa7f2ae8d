#include <algorithm>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// Two losses of one step (a GAN's) are no accumulation; from four addends on BF16 begins to lose.
constexpr int64_t kPasses = 4;

}  // namespace

void DetectAccumulation(const Facts& facts, std::vector<Claim>& claims) {
  const LoopCalls& loop = facts.loop;
  if (loop.backwards < kPasses || loop.taken_out) return;
  if (!loop.added_in.empty() && !IsSixteen(loop.added_in)) return;
  const auto gradient = std::find_if(
      facts.profile.series.begin(), facts.profile.series.end(), [](const Series& series) {
        return series.kind == runs::kGradient && IsSixteen(series.dtype);
      });
  // An optimizer with FP32 copies has gradients in FP32: the record's are those.
  const bool known = gradient != facts.profile.series.end();
  if (!known && loop.added_in.empty()) return;
  const std::string dtype = known ? gradient->dtype : loop.added_in;
  Claim claim;
  claim.id = "half-accumulation";
  claim.sentence = {
      Form("{0} backward passes a step are added up in {1}{2}: the running sum outgrows what is "
           "added, and {3} significant bits.",
           "每步有 {0} 次反向传播的梯度在 {1} 中累加{2}："
           "累加和会远大于所加的值，而 {3} 位有效数字。"),
      {loop.backwards, dtype,
       known ? Sentence(Form(" ({0})", "（{0}）"), {runs::Name(gradient->layer)}) : Sentence(),
       dtype == "bfloat16" ? Form("BF16 keeps 8", "BF16 只保留 8")
                           : Form("FP16 keeps 11", "FP16 只保留 11")}};
  // The loss of a pass is divided by their number, so late passes differ from the sum by about it.
  claim.strength = facts.loop.backwards >= 16 ? 1 : 0.8;
  claim.fault = true;
  claim.lost_in = Claim::LostIn::kPasses;
  claim.place = FaultPlace{known ? gradient->first().step : 0,
                           Phase::kBackward,
                           "",
                           "",
                           "",
                           {Form("gradients added up in {0}", "在 {0} 中累加的梯度"), {dtype}}};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
