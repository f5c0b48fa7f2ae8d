// Where a run is heading: the trend of loss, gradient norm and loss scale, and layers whose values
// will leave FP16's range if they go on growing as they do.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_FORECAST_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_FORECAST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engines/runs/run.h"
#include "numerics/growth.h"

namespace mpnanny::summary {

struct Stretch;

// A figure over the newer half of the run, relative to its mean there.
struct Trend {
  double per_100_steps = 0;  // slope
  double scatter = 0;        // standard deviation about the slope, of single steps where known
};
std::optional<Trend> LossTrend(const std::vector<Stretch>& course);
std::optional<Trend> NormTrend(const std::vector<Stretch>& course);
std::optional<Trend> ScaleTrend(const std::vector<Stretch>& course);  // of each stretch's least

struct Forecast {
  std::string layer;        // raw name
  int64_t kind = 0;         // runs::Kind
  double now = 0, end = 0;  // largest magnitude; the format's
  Crossing crossing;
};
inline constexpr size_t kForecastsShown = 5;

// Layers with FP16 values that reach its end within as many steps as were seen, the first to do so
// first. Of the newest samples; a layer that is not finite already is none.
Result<std::vector<Forecast>> ReadForecasts(const runs::Source& source);

// "blocks.3.ffn's output, now 2.1e+04, reaches 65504 (FP16) at step 1900 (1750 to 2100)."
std::string ForecastText(const Forecast& forecast);
Json ForecastJson(const Forecast& forecast);
Json TrendJson(const std::optional<Trend>& trend);
// "loss -3.1 % per 100 steps (scatter 12 %)"; "" for none.
std::string TrendText(const std::string& what, const std::optional<Trend>& trend);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_FORECAST_H_
