#include "tools/query_stats/metric.h"

#include <cmath>

#include "base/text.h"

namespace mpnanny::query_stats {
namespace {

using runs::ShadowProfileRow;
using runs::StepRow;
using runs::TensorRow;
using Real = std::optional<double>;

// A column as it is, of either table.
template <auto column, typename Row>
Real Read(const Row& row) {
  const auto& value = row.*column;
  return value ? Real(static_cast<double>(*value)) : std::nullopt;
}
template <std::optional<double> TensorRow::*column>
Real Of(const TensorRow& row) {
  return Read<column>(row);
}
template <std::optional<int64_t> TensorRow::*column>
Real Of(const TensorRow& row) {
  return Read<column>(row);
}
template <std::optional<double> StepRow::*column>
Real Of(const StepRow& row) {
  return Read<column>(row);
}
template <std::optional<int64_t> StepRow::*column>
Real Of(const StepRow& row) {
  return Read<column>(row);
}
template <std::optional<double> ShadowProfileRow::*column>
Real Of(const ShadowProfileRow& row) {
  return Read<column>(row);
}
template <std::optional<int64_t> ShadowProfileRow::*column>
Real Of(const ShadowProfileRow& row) {
  return Read<column>(row);
}
Real Skipped(const StepRow& row) { return row.flags & runs::kSkipped ? 1.0 : 0.0; }

// A count that the run may not record: bit of TensorRow::missing_counts.
Real Count(const TensorRow& row, int64_t count, uint32_t missing) {
  return row.missing_counts & missing ? std::nullopt : Real(static_cast<double>(count));
}
Real Nan(const TensorRow& row) { return Count(row, row.nan, 1); }
Real PosInf(const TensorRow& row) { return Count(row, row.posinf, 2); }
Real NegInf(const TensorRow& row) { return Count(row, row.neginf, 4); }
Real Zeros(const TensorRow& row) { return Count(row, row.zeros, 8); }
Real Inf(const TensorRow& row) { return Count(row, row.posinf + row.neginf, 6); }
Real NonFinite(const TensorRow& row) { return Count(row, row.NonFinite(), 7); }

Real Share(const TensorRow& row, const Real& count) {
  if (!count || !row.numel || *row.numel <= 0) return std::nullopt;
  return *count / static_cast<double>(*row.numel);
}

// Of the elements that could underflow: finite and not zero. That is what alert UNDERFLOW counts.
Real UnderflowShare(const TensorRow& row) {
  if (!row.below_fp16 || !row.numel || row.missing_counts) return std::nullopt;
  const int64_t candidates = *row.numel - row.NonFinite() - row.zeros;
  if (candidates <= 0) return std::nullopt;
  return static_cast<double>(*row.below_fp16) / static_cast<double>(candidates);
}

template <auto count>
Real ShareOf(const TensorRow& row) {
  return Share(row, count(row));
}

Real Quotient(const Real& a, const Real& b) {
  if (!a || !b || *b == 0) return std::nullopt;
  return *a / *b;
}
Real PeakToRms(const TensorRow& row) { return Quotient(row.absmax, row.rms); }
Real Range(const TensorRow& row) { return Quotient(row.absmax, row.absmin); }

Metric Value(std::string_view column, std::string_view meaning, Real (*of)(const TensorRow&),
             Fold fold = Fold::kLargest, Worse worse = Worse::kLarger) {
  return {column, column, "value", meaning, fold, worse, {column}, of};
}

// `column`: "" for a count of several columns. Counts up to zeros need no column of their own.
Metric CountOf(std::string_view name, std::string_view column, std::string_view meaning,
               Real (*of)(const TensorRow&), bool needs_column = false) {
  Metric metric = {name, column, "count", meaning, Fold::kSum, Worse::kLarger, {}, of};
  if (needs_column) metric.needs = {column};
  return metric;
}

Metric ShareMetric(std::string_view name, std::string_view meaning, Real (*of)(const TensorRow&),
                   std::vector<std::string_view> needs = {}) {
  return {name, "", "share", meaning, Fold::kLargest, Worse::kLarger, std::move(needs), of};
}

Metric RatioMetric(std::string_view name, std::string_view meaning, Real (*of)(const TensorRow&),
                   std::vector<std::string_view> needs) {
  return {name, "", "ratio", meaning, Fold::kLargest, Worse::kLarger, std::move(needs), of};
}

Metric OfStep(std::string_view column, std::string_view unit, std::string_view meaning,
              Real (*of)(const StepRow&), Worse worse = Worse::kLarger) {
  return {column, column, unit, meaning, Fold::kLargest, worse, {}, nullptr, of};
}

Metric OfProfile(std::string_view name, std::string_view column, std::string_view unit,
                 std::string_view meaning, Real (*of)(const ShadowProfileRow&)) {
  return {name, column, unit, meaning, Fold::kLargest, Worse::kLarger, {}, nullptr, nullptr, of};
}

// Of shadow steps, which compute everything a second time in FP64.
void AddProfile(std::vector<Metric>& list) {
  using P = ShadowProfileRow;
  const std::string_view ratio = "ratio";
  list.insert(
      list.end(),
      {OfProfile("shadow_error", "error", ratio,
                 "relative L2 error of the layer's result against FP64", Of<&P::error>),
       OfProfile("shadow_amplification", "amplification", ratio,
                 "error of the layer's result over that of its input", Of<&P::amplification>),
       OfProfile("shadow_absmax", "absmax", "value",
                 "largest magnitude of the layer's result in FP64", Of<&P::absmax>),
       OfProfile("shadow_rms", "rms", "value", "root mean square of the layer's result in FP64",
                 Of<&P::rms>),
       OfProfile("fp16_error", "fp16", ratio,
                 "relative L2 error that rounding the layer's result to FP16 would make",
                 Of<&P::fp16>),
       OfProfile("bf16_error", "bf16", ratio,
                 "relative L2 error that rounding the layer's result to BF16 would make",
                 Of<&P::bf16>),
       OfProfile("e4m3_error", "e4m3", ratio,
                 "relative L2 error that rounding to E4M3 with the best scale would make",
                 Of<&P::e4m3>),
       OfProfile("e5m2_error", "e5m2", ratio,
                 "relative L2 error that rounding to E5M2 with the best scale would make",
                 Of<&P::e5m2>),
       OfProfile("fp16_overflow", "fp16_overflow", "share",
                 "elements of the layer's result that FP16 could not hold", Of<&P::fp16_overflow>),
       OfProfile("fp16_underflow", "fp16_underflow", "share",
                 "elements of the layer's result that FP16 would round to 0",
                 Of<&P::fp16_underflow>),
       OfProfile("shadow_operators", "operators", "count", "operators of the layer",
                 Of<&P::operators>)});
}

std::vector<Metric> MakeList() {
  using T = TensorRow;
  std::vector<Metric> list = {
      Value("absmax", "largest finite magnitude", Of<&T::absmax>),
      Value("absmin", "smallest non-zero finite magnitude", Of<&T::absmin>, Fold::kSmallest,
            Worse::kSmaller),
      Value("min", "smallest finite element", Of<&T::min>, Fold::kSmallest, Worse::kSmaller),
      Value("max", "largest finite element", Of<&T::max>),
      Value("mean", "mean of the finite elements", Of<&T::mean>, Fold::kLargestMagnitude,
            Worse::kFartherFromZero),
      Value("std", "standard deviation of the finite elements", Of<&T::std>),
      Value("rms", "root mean square of the finite elements", Of<&T::rms>),
      Value("l2", "L2 norm of the finite elements", Of<&T::l2>, Fold::kRootSumSquares),

      {"numel", "numel", "count", "elements", Fold::kSum, Worse::kNone, {}, Of<&T::numel>},
      CountOf("nan", "nan", "NaN elements", Nan),
      CountOf("posinf", "posinf", "+Inf elements", PosInf),
      CountOf("neginf", "neginf", "-Inf elements", NegInf),
      CountOf("inf", "", "+Inf and -Inf elements", Inf),
      CountOf("nonfinite", "", "NaN, +Inf and -Inf elements", NonFinite),
      CountOf("zeros", "zeros", "elements equal to 0", Zeros),
      CountOf("below_fp16", "below_fp16", "non-zero elements that FP16 rounds to 0",
              Of<&T::below_fp16>, true),
      CountOf("subnormal_fp16", "subnormal_fp16", "elements that FP16 holds as subnormal",
              Of<&T::subnormal_fp16>, true),
      CountOf("above_fp16", "above_fp16", "finite elements that FP16 rounds to infinity",
              Of<&T::above_fp16>, true),
      CountOf("frozen", "frozen", "updates under half an ulp of their weight", Of<&T::frozen>,
              true),

      ShareMetric("nan_share", "NaN elements of all", ShareOf<Nan>),
      ShareMetric("inf_share", "infinite elements of all", ShareOf<Inf>),
      ShareMetric("nonfinite_share", "NaN and infinite elements of all", ShareOf<NonFinite>),
      ShareMetric("zeros_share", "elements equal to 0, of all", ShareOf<Zeros>),
      ShareMetric("below_fp16_share",
                  "elements that FP16 rounds to 0, of those that are finite and not 0",
                  UnderflowShare, {"below_fp16"}),
      ShareMetric("subnormal_fp16_share", "elements that FP16 holds as subnormal, of all",
                  ShareOf<Of<&T::subnormal_fp16>>, {"subnormal_fp16"}),
      ShareMetric("above_fp16_share", "finite elements that FP16 rounds to infinity, of all",
                  ShareOf<Of<&T::above_fp16>>, {"above_fp16"}),
      ShareMetric("frozen_share", "updates under half an ulp of their weight, of all",
                  ShareOf<Of<&T::frozen>>, {"frozen"}),
      RatioMetric("peak_to_rms", "largest magnitude over root mean square: outliers", PeakToRms,
                  {"absmax", "rms"}),
      RatioMetric("range", "largest over smallest non-zero magnitude", Range, {"absmax", "absmin"}),
      {"dtype",
       "dtype",
       "code",
       "dtype, as the table `meaning` numbers them",
       Fold::kLargest,
       Worse::kNone,
       {},
       Of<&T::dtype>},

      OfStep("loss", "value", "loss without loss scale", Of<&StepRow::loss>),
      OfStep("lr", "value", "learning rate of the first parameter group", Of<&StepRow::lr>,
             Worse::kNone),
      OfStep("loss_scale", "value", "loss scale in force during the step", Of<&StepRow::loss_scale>,
             Worse::kSmaller),
      OfStep("grad_norm", "value", "global L2 norm of the gradients, unscaled",
             Of<&StepRow::grad_norm>),
      OfStep("duration", "seconds", "wall time of the step", Of<&StepRow::duration>),
      OfStep("peak_memory", "bytes", "peak device memory", Of<&StepRow::peak_memory>),
      OfStep("at", "Unix seconds", "end of the step", Of<&StepRow::at>, Worse::kNone),
      OfStep("skipped", "0 or 1", "1 where the optimizer step was skipped", Skipped),
  };
  list.back().column = "";  // a flag, no column
  AddProfile(list);
  return list;
}

}  // namespace

const char* FoldName(Fold fold) {
  switch (fold) {
    case Fold::kLargest:
      return "largest";
    case Fold::kSmallest:
      return "smallest";
    case Fold::kSum:
      return "sum";
    case Fold::kRootSumSquares:
      return "root of the sum of squares";
    case Fold::kLargestMagnitude:
      return "largest magnitude";
  }
  return "largest";
}

std::span<const Metric> Metrics() {
  static const auto* const list = new std::vector<Metric>(MakeList());
  return *list;
}

std::optional<int64_t> KindFromName(std::string_view name) {
  for (int64_t kind = 0; kind <= runs::kOptimizerState; ++kind) {
    if (runs::KindName(kind) == name) return kind;
  }
  return std::nullopt;
}

Result<NamedMetric> FindMetric(const std::string& asked) {
  NamedMetric named;
  std::string name = LowerCase(asked);
  bool of_step = false;
  if (const size_t dot = name.find('.'); dot != std::string::npos) {
    const std::string of = name.substr(0, dot);
    named.kind = KindFromName(of);
    of_step = of == "step";
    const bool table = of == "tensor_stats" || of == "shadow_profile";
    if (named.kind || of_step || table) name = name.substr(dot + 1);
  }
  if (name.ends_with("%")) name = name.substr(0, name.size() - 1) + "_share";
  std::vector<std::string> names;
  for (const Metric& metric : Metrics()) {
    if ((named.kind && metric.of_step) || (of_step && !metric.of_step)) continue;
    if (metric.name == name) {
      named.metric = &metric;
      return named;
    }
    names.emplace_back(metric.name);
  }
  names.emplace_back("distribution");
  names.emplace_back("findings");
  const std::string near = DidYouMean(name, names);
  return NotFound(
      "There is no metric '" + EscapeControl(asked, 60) + "'." + (near.empty() ? "" : " " + near),
      "Metrics: " + Join(names, ", ") + ".");
}

bool IsWorse(Worse worse, double a, double b) {
  switch (worse) {
    case Worse::kLarger:
    case Worse::kNone:
      return a > b;
    case Worse::kSmaller:
      return a < b;
    case Worse::kFartherFromZero:
      return std::fabs(a) > std::fabs(b);
  }
  return false;
}

}  // namespace mpnanny::query_stats
