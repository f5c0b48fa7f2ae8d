// What enters the model is the same number everywhere, batch after batch.
#include <algorithm>

#include "base/layer_word.h"
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

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
  claim.sentence = "The batch that enters " + LayerWord(runs::Name(batch->layer)) +
                   " is 0 in every element, in each of " +
                   runs::Count(static_cast<int64_t>(batch->points.size()), "sample") + " (steps " +
                   std::to_string(batch->first().step) + " to " +
                   std::to_string(batch->last().step) +
                   "): the model is given nothing to learn from.";
  claim.strength = 0.8;
  claim.fault = true;
  // What zeros do behind it follows from them.
  claim.opposes = {"!component:data"};
  claim.title = "The batches hold nothing but 0 when they enter the model";
  claim.fix =
      "Look at one batch, from where it is read to the model: what it is scaled by, and in which "
      "format that was computed. A standard deviation that is infinite (NumPy sums float16 arrays "
      "in "
      "float16, which ends at 65504) makes 0 of everything that is divided by it.";
  claim.place = PlaceOf(*batch, batch->first().step, "data", "a batch of nothing but 0");
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
