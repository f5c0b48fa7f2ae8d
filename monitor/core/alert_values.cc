#include "monitor/core/alert_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/layer_word.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_types.h"
#include "numerics/elements.h"

namespace mpnanny {
namespace {

constexpr int64_t kColumnElements = 65'536;
constexpr int64_t kColumnsMost = 65'536;

bool IsBackward(TensorKind kind) {
  return kind == TensorKind::kActivationGradient || kind == TensorKind::kGradient;
}

// Elements with 0 < |x| <= low, and with |x| > high.
struct Outside {
  int64_t below = 0, above = 0;
};

Outside CountOutside(const TensorView& view, double low, double high) {
  Outside found;
  ForEachElements(view, [&](const auto* values, int64_t count) {
    int64_t below = 0, above = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::fabs(static_cast<double>(values[i]));
      below += size > 0 && size <= low;
      above += size > high && size <= 1.7e308;
    }
    found.below += below;
    found.above += above;
  });
  return found;
}

}  // namespace

std::string_view KindWord(TensorKind kind) {
  constexpr std::string_view kWords[] = {"input",  "output", "gradient of the output", "gradient",
                                         "weight", "update", "optimizer state"};
  return kWords[static_cast<int>(kind)];
}

Phase KindPhase(TensorKind kind) {
  switch (kind) {
    case TensorKind::kInput:
    case TensorKind::kActivation:
      return Phase::kForward;
    case TensorKind::kActivationGradient:
    case TensorKind::kGradient:
      return Phase::kBackward;
    case TensorKind::kWeight:
    case TensorKind::kUpdate:
    case TensorKind::kOptimizerState:
      return Phase::kOptimizer;
  }
  return Phase::kForward;
}

std::optional<Judgement> JudgeFormat(const Word<Precision>& precision, DType dtype, TensorKind kind,
                                     bool cast_to_fp16) {
  if (precision == Precision::kFp32 || dtype == DType::kUnknown) return std::nullopt;
  // Values of a narrow type are in it, whatever the run is judged by.
  if (dtype == DType::kFloat8E4M3) return Judgement{Format::kE4M3, true};
  if (dtype == DType::kFloat8E5M2) return Judgement{Format::kE5M2, true};
  if (dtype == DType::kFloat16 && precision != Precision::kFp8)
    return Judgement{Format::kFp16, true};
  if (dtype == DType::kBFloat16 && (precision.empty() || precision == Precision::kBf16))
    return Judgement{Format::kBf16, true};
  if (cast_to_fp16) return Judgement{Format::kFp16};
  // An update and the optimizer's state stay in the type that they have.
  if (kind == TensorKind::kUpdate || kind == TensorKind::kOptimizerState) return std::nullopt;
  if (precision == Precision::kFp16) return Judgement{Format::kFp16};
  if (precision == Precision::kBf16) return Judgement{Format::kBf16};
  if (precision == Precision::kFp8)
    return Judgement{IsBackward(kind) ? Format::kE5M2 : Format::kE4M3, false, true};
  if (dtype != DType::kFloat32) return std::nullopt;
  Judgement judged;
  judged.plain_fp32 = true;
  return judged;
}

Shares MeasureShares(const TensorView& view, const TensorStats& stats, const Judgement& judged) {
  Shares shares;
  if (stats.finite == 0 || judged.plain_fp32) return shares;
  const FormatInfo& format = Info(judged.format);
  const auto finite = static_cast<double>(stats.finite);
  const double nonzero = finite - static_cast<double>(stats.zeros);
  if (judged.format == Format::kFp16) {  // counted in the one pass over every tensor
    shares.near = static_cast<double>(stats.near_fp16_max) / finite;
    if (nonzero > 0) shares.below = static_cast<double>(stats.below_fp16) / nonzero;
    return shares;
  }
  // Rounding to nearest: half the smallest subnormal still becomes 0.
  double low = format.min_subnormal / 2;
  double high = kSaturationOfMax * format.max;
  if (judged.scaled) low *= stats.absmax / format.max;
  if (judged.held) low = 0;
  if (stats.absmax <= high && (stats.absmin == 0 || stats.absmin > low)) return shares;
  const Outside found = CountOutside(view, low, high);
  shares.near = static_cast<double>(found.above) / finite;
  if (nonzero > 0) shares.below = static_cast<double>(found.below) / nonzero;
  return shares;
}

std::optional<Columns> MeasureColumns(const TensorView& view) {
  const size_t dims = view.shape.size();
  if (dims < 2 || dims > 3 || view.shape[dims - 1] < 2 || view.shape[dims - 1] > kColumnsMost)
    return std::nullopt;
  if (!view.strides.empty() && view.strides[dims - 1] != 1) return std::nullopt;
  const int64_t columns = view.shape[dims - 1];
  const int64_t inner = view.shape[dims - 2], outer = dims == 3 ? view.shape[0] : 1;
  if (inner * outer < kImbalanceRows) return std::nullopt;
  const int64_t inner_stride = view.strides.empty() ? columns : view.strides[dims - 2];
  const int64_t outer_stride = view.strides.empty() ? inner * columns : view.strides[0];
  const int64_t take = std::max(kImbalanceRows, std::min(inner * outer, kColumnElements / columns));
  std::vector<float> largest(static_cast<size_t>(columns), 0);
  const int bytes = ElementBytes(view.dtype);
  for (int64_t i = 0; i < take; ++i) {
    const int64_t row = i * (inner * outer) / take;
    const int64_t offset =
        row % inner * inner_stride + (dims == 3 ? row / inner * outer_stride : 0);
    const int64_t shape[] = {columns};
    const TensorView one{
        static_cast<const char*>(view.data) + offset * bytes, view.dtype, shape, {}};
    float* most = largest.data();
    ForEachElements(one, [&](const auto* values, int64_t count) {
      for (int64_t j = 0; j < count; ++j) {
        const float size = std::fabs(static_cast<float>(values[j]));
        // Not std::max: what is not finite must not stay.
        most[j] = size > most[j] && size <= std::numeric_limits<float>::max() ? size : most[j];
      }
      most += count;
    });
  }
  Columns found;
  for (const float column : largest) {
    if (column == 0) continue;
    const double size = column;
    ++found.live;
    found.largest = std::max(found.largest, size);
    found.smallest = found.smallest == 0 ? size : std::min(found.smallest, size);
  }
  return found;
}

void ValueConditions(const JudgedSample& sample, Alerts& out) {
  const SampleRow& row = sample.row;
  const TensorStats& stats = row.stats;
  const Judgement& judged = sample.judged;
  if (stats.finite == 0) return;
  const FormatInfo& format = Info(judged.format);
  const auto add = [&](AlertType type, double value, double threshold, std::string text) {
    AlertRow& alert = out.emplace_back(
        MakeAlert(type, row.step, KindPhase(row.kind), LayerWord(sample.name) + ": " + text));
    alert.layer = row.layer;
    alert.kind = row.kind;
    alert.value = value;
    alert.threshold = threshold;
    if (judged.plain_fp32) alert.severity = Severity::kInfo;
    return &alert;
  };
  const std::string word(KindWord(row.kind));
  const std::string dtype(DTypeName(row.dtype));
  const std::string name(format.name);
  const double rounded = judged.held ? 0 : RoundTo(judged.format, stats.absmax);
  if (!std::isfinite(rounded)) {
    AlertRow* alert = add(
        AlertType::kOverflow, stats.absmax, format.max,
        Message("the %s reaches %.5g in %s; %s holds %.5g at most%s.", word.c_str(), stats.absmax,
                dtype.c_str(), name.c_str(), format.max, judged.scaled ? " without a scale" : ""));
    alert->producer = sample.producer;
  }
  if (sample.columns && sample.columns->live >= 2 &&
      sample.columns->largest > kImbalanceRatio * sample.columns->smallest) {
    const Columns& columns = *sample.columns;
    add(AlertType::kDimImbalance, columns.largest / columns.smallest, kImbalanceRatio,
        Message("the maxima of the %s's %lld live dimensions lie between %.3g and %.3g; a sum of "
                "both in %s loses the small ones.",
                word.c_str(), static_cast<long long>(columns.live), columns.smallest,
                columns.largest, name.c_str()));
  }
  if (judged.plain_fp32) return;
  if (sample.shares.near > kSaturationShare) {
    add(AlertType::kSaturation, sample.shares.near, kSaturationShare,
        Message("%.3g %% of the %s lie above %g x %g (largest %.5g).", 100 * sample.shares.near,
                word.c_str(), kSaturationOfMax, format.max, stats.absmax));
  }
  const bool stays = row.kind == TensorKind::kWeight || row.kind == TensorKind::kUpdate ||
                     row.kind == TensorKind::kOptimizerState;
  if (sample.shares.below > kUnderflowShare && !stays) {
    add(AlertType::kUnderflow, sample.shares.below, kUnderflowShare,
        Message("%s%.3g %% of the non-zero elements of the %s become 0 in %s (largest %.3g).",
                sample.shares.below > kUnderflowLoudShare ? "much is lost: " : "",
                100 * sample.shares.below, word.c_str(), name.c_str(), stats.absmax));
  }
}

}  // namespace mpnanny
