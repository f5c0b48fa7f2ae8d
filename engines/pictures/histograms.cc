#include "engines/pictures/histograms.h"

#include <algorithm>
#include <optional>
#include <set>

#include "engines/runs/samples.h"
#include "engines/runs/spread.h"

namespace mpnanny::pictures {
namespace {

using runs::TensorRow;

constexpr size_t kSamplesTried = 64;  // not every sample has exponents

bool Shown(const TensorRow& row) {
  return row.slot == 0 && (row.kind == runs::kActivation || row.kind == runs::kGradient ||
                           row.kind == runs::kWeight);
}

// Exponent field e of FP32 holds magnitudes from 2^(e-127) on; 0 is zero and FP32's subnormals.
Histogram Of(const TensorRow& row, const runs::Exponents& exponents) {
  Histogram histogram;
  histogram.step = row.step;
  histogram.kind = runs::KindName(row.kind);
  histogram.zeros = row.zeros;
  for (int e = 0; e < 255; ++e) {
    int64_t count = exponents[static_cast<size_t>(e)];
    if (e == 0) count = std::max<int64_t>(0, count - row.zeros);
    if (count > 0) histogram.counts.emplace_back(e - 127, count);
  }
  return histogram;
}

}  // namespace

Result<std::vector<Histogram>> ReadHistograms(const runs::Source& source,
                                              const std::vector<int64_t>& wanted) {
  std::vector<Histogram> made;
  if (!source.format.empty()) return made;
  MPN_TRY_ASSIGN(auto newest, runs::LastSampledSteps(source, {}, 1));
  if (newest.empty()) return made;
  MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source, {"absmax"}));
  MPN_TRY_ASSIGN(auto steps, runs::SpreadSteps([&](int64_t step) { return reader.StepFrom(step); },
                                               newest.front(), kSamplesTried));
  runs::Layers layers(source);
  std::set<int64_t> chosen(wanted.begin(),
                           wanted.begin() + static_cast<std::ptrdiff_t>(
                                                std::min(wanted.size(), kHistogramLayers)));
  std::vector<std::vector<Histogram>> by_step;
  for (const int64_t step : steps) {
    MPN_TRY_ASSIGN(auto rows, reader.Sample(step));
    std::vector<Histogram> here;
    for (const TensorRow& row : *rows) {
      if (!Shown(row)) continue;
      if (!chosen.contains(row.layer_id) && chosen.size() >= kHistogramLayers) continue;
      MPN_TRY_ASSIGN(auto exponents, runs::ReadExponents(source, row));
      if (!exponents) continue;
      chosen.insert(row.layer_id);
      Histogram histogram = Of(row, *exponents);
      MPN_TRY_ASSIGN(auto layer, layers.Find(row.layer_id));
      histogram.layer = layer.name;
      here.push_back(std::move(histogram));
    }
    if (!here.empty()) by_step.push_back(std::move(here));
  }
  const size_t shown = std::min(kHistogramSteps, by_step.size());
  for (size_t at = 0; at < shown; ++at) {
    // Spread over what there is, the first and the last among them.
    const size_t from = shown == 1 ? 0 : at * (by_step.size() - 1) / (shown - 1);
    for (Histogram& each : by_step[from]) made.push_back(std::move(each));
  }
  return made;
}

}  // namespace mpnanny::pictures
