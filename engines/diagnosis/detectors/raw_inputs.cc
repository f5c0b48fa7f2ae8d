#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// Features of unit scale reach 4 or 5. From here on nobody has normalised them: pixels of 0..255
// have an RMS of about 150, prices and counts more.
constexpr double kRawRms = 30;
constexpr double kRawAbsmax = 200;

}  // namespace

void DetectRawInputs(const Facts& facts, std::vector<Claim>& claims) {
  const summary::Summary& s = facts.summary;
  // Large inputs alone are no fault: FP32 and BF16 take them, and so does FP16 if nothing
  // overflows.
  const bool overflows = summary::TooManySkips(s) || facts.scale.declining ||
                         facts.scale.collapsed || facts.scale.stuck ||
                         (facts.onset && (facts.onset->phase == Phase::kForward ||
                                          facts.onset->phase == Phase::kBackward));
  if (!UsesHalf(facts) || !overflows) return;
  const Series* batch = nullptr;
  for (const Series& series : facts.profile.series) {
    if (series.kind == runs::kInput && (!batch || series.position < batch->position)) {
      batch = &series;
    }
  }
  if (!batch) return;
  double rms = 0, absmax = 0;
  size_t raw = 0;
  for (const Measured& point : batch->points) {
    rms = std::max(rms, point.rms.value_or(0));
    absmax = std::max(absmax, point.absmax.value_or(0));
    raw += point.rms.value_or(0) > kRawRms || point.absmax.value_or(0) > kRawAbsmax;
  }
  // One batch out of the ordinary is another matter.
  if (2 * raw <= batch->points.size()) return;
  Claim claim;
  claim.id = "raw-inputs";
  claim.sentence = {
      Form("The inputs of {0} reach {1} (root mean square {2}), sample after sample: the data are "
           "not normalised, and activations and gradients in FP16 are as much nearer to 65504.",
           "{0} 的输入在每次采样中都达到 {1}（均方根 {2}）："
           "数据没有归一化，FP16 中的激活和梯度因此更接近 65504。"),
      {runs::Name(batch->layer), runs::Number(absmax), runs::Number(rms)}};
  claim.strength = rms > kRawRms ? 1 : 0.7;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
