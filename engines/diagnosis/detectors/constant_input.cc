// What enters the model is the same number everywhere, batch after batch.
#include <algorithm>

#include "base/layer_word.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr size_t kBatchSamples = 2;

bool IsAllZero(const Series& series) {
  return series.points.size() >= kBatchSamples &&
         std::all_of(series.points.begin(), series.points.end(), [](const Measured& point) {
           return point.numel > 1 && point.zeros == point.numel;
         });
}

}  // namespace

void DetectConstantInput(const Facts& facts, std::vector<Claim>& claims) {
  if (facts.onset) return;
  // The module that runs first gets the batch; indices are no input of this kind.
  const Series* first = nullptr;
  for (const Series& series : facts.profile.series) {
    const bool runs_first = series.kind == runs::kInput || series.kind == runs::kActivation;
    if (runs_first && (!first || series.position < first->position)) first = &series;
  }
  if (!first) return;
  const Series* batch = nullptr;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kInput || series.layer_id != first->layer_id) continue;
    if (!IsAllZero(series)) return;
    if (!batch) batch = &series;
  }
  if (!batch) return;
  Claim claim;
  claim.id = "constant-input";
  claim.ground = Ground::kMeasured;
  claim.sentence = {
      Form("The batch that enters {0} is 0 in every element, in each of {1:sample} (steps {2} to "
           "{3}): the model is given nothing to learn from.",
           "进入 {0} 的批次在 {1} 次采样（第 {2} 到 {3} 步）中每个元素都"
           "是 0：模型没有可学的内容。"),
      {LayerWord(runs::Name(batch->layer)), static_cast<int64_t>(batch->points.size()),
       batch->first().step, batch->last().step}};
  claim.strength = 0.8;
  claim.fault = true;
  // What zeros do behind it follows from them.
  claim.opposes = {"!component:data"};
  claim.title =
      Form("The batches hold nothing but 0 when they enter the model", "批次进入模型时全部为 0");
  claim.fix = Form(
      "Look at one batch, from where it is read to the model: what it is scaled by, and in which "
      "format that was computed. A standard deviation that is infinite (NumPy sums float16 arrays "
      "in float16, which ends at 65504) makes 0 of everything that is divided by it.",
      "查看一个批次从读取到进入模型的全过程：它被什么缩放，"
      "该值以何种格式计算。若标准差为无穷大（NumPy 对 float16 数组以 "
      "float16 求和，其上限为 65504），被它除的一切都会变为 0。");
  claim.place = PlaceOf(*batch, batch->first().step, Phase::kData,
                        Form("a batch of nothing but 0", "全部为 0 的批次"));
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
