#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

using runs::Form;
using runs::Sentence;

void DetectWideRange(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != Phase::kForward || InNarrowRange(facts)) return;
  const std::string format = facts.trend && !facts.trend->dtype.empty()
                                 ? facts.trend->dtype
                                 : std::string(facts.precision.text());
  if (format != "float32" && format != "bfloat16" && format != "fp32" && format != "bf16") {
    return;
  }
  Claim claim;
  claim.id = "wide-range";
  claim.sentence = {Form("The first bad tensor is held in {0}, which reaches 3.4e38: it is no "
                         "overflow of FP16's range{1}.",
                         "首个异常张量以 {0} 保存，其范围可达 3.4e38："
                         "这不是 FP16 范围的溢出{1}。"),
                    {format, facts.trend && facts.trend->absmax.size() > 1
                                 ? Sentence(Form(" ({0} had absmax {1} at step {2})",
                                                 "（{0} 在第 {2} 步的最大绝对值为 {1}）"),
                                            {runs::Name(facts.trend->layer),
                                             runs::Number(facts.trend->absmax.back().second),
                                             facts.trend->absmax.back().first})
                                 : Sentence()}};
  claim.strength = 0.8;
  claim.opposes = {facts.precision == Precision::kBf16 ? "!precision:bf16" : "!precision:fp32"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnosis
