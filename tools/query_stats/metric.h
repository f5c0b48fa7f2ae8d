// The metrics that a question may name: columns of tensor_stats, of step and of the profile of
// shadow steps, and shares derived from them.
//
// Constant data and free functions.
#ifndef MPNANNY_TOOLS_QUERY_STATS_METRIC_H_
#define MPNANNY_TOOLS_QUERY_STATS_METRIC_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/runs/samples.h"
#include "engines/runs/shadow.h"
#include "engines/runs/steps.h"

namespace mpnanny::query_stats {

// How the figures of several tensors (outputs of a layer, layers of a block) become one.
enum class Fold { kLargest, kSmallest, kSum, kRootSumSquares, kLargestMagnitude };
const char* FoldName(Fold fold);

// Which figures are the worse ones: what "worst first" means. kNone: none is (a learning rate), and
// the largest is shown.
enum class Worse { kLarger, kSmaller, kFartherFromZero, kNone };

struct Metric {
  std::string_view name;
  std::string_view column;   // of the table that it is read from; "" for a derived figure
  std::string_view unit;     // "value", "count", "share", "ratio", "seconds", "bytes" …
  std::string_view meaning;  // used where the database's own `meaning` has none
  Fold fold = Fold::kLargest;
  Worse worse = Worse::kLarger;
  // Columns that it needs beside the counts, of tensor_stats. One of the readers is set.
  std::vector<std::string_view> needs = {};
  std::optional<double> (*of_tensor)(const runs::TensorRow&) = nullptr;
  std::optional<double> (*of_step)(const runs::StepRow&) = nullptr;
  std::optional<double> (*of_profile)(const runs::ShadowProfileRow&) = nullptr;
};

std::span<const Metric> Metrics();

// What a question's `metric` names: "absmax", "loss", "below_fp16_share", or with the kind before
// it as knowledge cases write it, "gradient.absmax", "step.loss".
struct NamedMetric {
  const Metric* metric = nullptr;
  std::optional<int64_t> kind;
};
// An unknown name is NotFound with the nearest ones.
Result<NamedMetric> FindMetric(const std::string& name);

// "input" … "optimizer_state" as a number; nullopt for another word.
std::optional<int64_t> KindFromName(std::string_view name);

// True if `a` is worse than `b`. A NaN is not known to be worse than anything.
bool IsWorse(Worse worse, double a, double b);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_METRIC_H_
