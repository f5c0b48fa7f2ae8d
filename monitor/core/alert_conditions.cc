#include "monitor/core/alert_conditions.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "monitor/core/alert_book.h"
#include "monitor/core/alert_types.h"

namespace mpnanny {
namespace {

constexpr size_t kHistory = 256;  // norms that the median is taken over

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

AlertRow& Raise(Alerts& out, std::string_view type, int64_t step, std::string_view phase,
                std::string message) {
  return out.emplace_back(MakeAlert(type, step, phase, std::move(message)));
}

}  // namespace

std::string Message(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string_view KindWord(TensorKind kind) {
  constexpr std::string_view kWords[] = {"input",  "output", "gradient of the output", "gradient",
                                         "weight", "update", "optimizer state"};
  return kWords[static_cast<int>(kind)];
}

std::string_view KindPhase(TensorKind kind) {
  switch (kind) {
    case TensorKind::kInput:
    case TensorKind::kActivation:
      return "forward";
    case TensorKind::kActivationGradient:
    case TensorKind::kGradient:
      return "backward";
    case TensorKind::kWeight:
    case TensorKind::kUpdate:
    case TensorKind::kOptimizerState:
      return "optimizer";
  }
  return "";
}

double ScaleConditions::low_bound() const {
  return initial_ > 0
             ? std::max(kLowScaleFloor, std::min(initial_, kUsualInitialScale) / kLowScaleDivisor)
             : 0;
}

void ScaleConditions::Step(const StepFacts& facts, Alerts& out) {
  if (!facts.scale) return;
  const double after = facts.scale_after.value_or(*facts.scale);
  const double bound = [&] {
    if (initial_ == 0) initial_ = *facts.scale;
    // A scale that was set low on purpose is no alert.
    return std::min(low_bound(), initial_);
  }();
  ++steps_;
  skipped_run_ = facts.skipped ? skipped_run_ + 1 : 0;
  good_run_ = facts.skipped || !facts.has_gradients ? good_run_ : good_run_ + 1;
  if (facts.skipped) good_run_ = 0;
  if (good_run_ >= 10 || skipped_run_ >= 20 || steps_ >= 100) searching_ = false;

  collapsed_ = *facts.scale <= kCollapseScale ? collapsed_ + 1 : 0;
  if (collapsed_ >= kCollapseSteps) {
    AlertRow& alert = Raise(
        out, "LOSS_SCALE_COLLAPSE", facts.step, "optimizer",
        Message(
            "The loss scale has been at or below %g for %lld steps (now %g). Lowering it no longer "
            "helps: what overflows is not caused by the scale.",
            kCollapseScale, static_cast<long long>(collapsed_), *facts.scale));
    alert.value = *facts.scale;
    alert.threshold = kCollapseScale;
  }
  if (searching_) return;

  if (after > *facts.scale) falls_ = 0;
  if (after < *facts.scale && ++falls_ >= kDeclineFalls) {
    AlertRow& alert = Raise(out, "LOSS_SCALE_DECLINE", facts.step, "optimizer",
                            Message("The loss scale fell %d times without a rise, from %g to %g.",
                                    falls_, *facts.scale * std::pow(2.0, falls_ - 1), after));
    alert.value = falls_;
    alert.threshold = kDeclineFalls;
  }
  if (after < bound) {
    AlertRow& alert =
        Raise(out, "LOSS_SCALE_LOW", facts.step, "optimizer",
              Message("The loss scale is %g, under %g; it started at %g.", after, bound, initial_));
    alert.value = after;
    alert.threshold = bound;
  }
  if (facts.skipped) skips_.push_back(facts.step);
  while (!skips_.empty() && skips_.front() <= facts.step - kSkipWindow) skips_.pop_front();
  const auto allowed = kSkipAllowed + kSkipWindow / std::max<int64_t>(1, facts.growth_interval);
  if (facts.skipped && static_cast<int64_t>(skips_.size()) > allowed) {
    AlertRow& alert = Raise(
        out, "STEP_SKIPPED", facts.step, "optimizer",
        Message(
            "%zu of the last %d steps were skipped because of non-finite gradients; growing the "
            "scale explains about one in %lld.",
            skips_.size(), kSkipWindow, static_cast<long long>(facts.growth_interval)));
    alert.value = static_cast<double>(skips_.size());
    alert.threshold = static_cast<double>(allowed);
  }
}

void GradientConditions::Norm(const StepFacts& facts, Alerts& out) {
  if (!facts.grad_norm || !std::isfinite(*facts.grad_norm) || facts.skipped) return;
  const double norm = *facts.grad_norm;
  ++seen_;
  if (seen_ > kWarmupSteps) {
    const double median = Median({norms_.begin(), norms_.end()});
    if (median > 0 && norm > kExplosionRatio * median) {
      AlertRow& alert =
          Raise(out, "GRAD_EXPLOSION", facts.step, "backward",
                Message("The global gradient norm is %.4g, %.3g times its median of %.4g.", norm,
                        norm / median, median));
      alert.value = norm;
      alert.threshold = kExplosionRatio * median;
    }
    if (median > 0 && norm > 0 && norm < kVanishRatio * median) {
      AlertRow& alert = Raise(out, "GRAD_VANISH", facts.step, "backward",
                              Message("The global gradient norm is %.4g, %.3g of its median %.4g.",
                                      norm, norm / median, median));
      alert.value = norm;
      alert.threshold = kVanishRatio * median;
    }
  }
  norms_.push_back(norm);
  if (norms_.size() > kHistory) norms_.pop_front();
}

void GradientConditions::Magnitude(int64_t step, double absmax, int64_t layer,
                                   std::string_view name, Alerts& out) {
  if (absmax > kExplosionAbsmax) {
    AlertRow& alert =
        Raise(out, "GRAD_EXPLOSION", step, "backward",
              Message("%.*s: the largest unscaled gradient is %.4g, over %g.",
                      static_cast<int>(name.size()), name.data(), absmax, kExplosionAbsmax));
    alert.layer = layer;
    alert.kind = TensorKind::kGradient;
    alert.value = absmax;
    alert.threshold = kExplosionAbsmax;
  }
  if (absmax > 0 && absmax < kVanishAbsmax) {
    AlertRow& alert =
        Raise(out, "GRAD_VANISH", step, "backward",
              Message("The largest unscaled gradient of the model is %.4g (in %.*s), under %g.",
                      absmax, static_cast<int>(name.size()), name.data(), kVanishAbsmax));
    alert.kind = TensorKind::kGradient;
    alert.value = absmax;
    alert.threshold = kVanishAbsmax;
  }
}

void LossCondition(const StepFacts& facts, const ScaleConditions& scale, Alerts& out) {
  if (!facts.loss || std::isfinite(*facts.loss)) return;
  if (std::isinf(*facts.loss) && scale.searching() && facts.scale && facts.skipped &&
      !facts.forward_nonfinite && scale.skipped_in_a_row() < kDeclineFalls) {
    return;
  }
  const char* what = std::isnan(*facts.loss) ? "NaN" : "infinite";
  AlertRow& alert = Raise(
      out, "LOSS_NAN", facts.step, "loss",
      facts.forward_nonfinite
          ? Message("The loss is %s; a non-finite value had already come out of the forward pass.",
                    what)
          : Message("The loss is %s although every watched module gave finite values: it was born "
                    "in the "
                    "loss function or between it and the last module.",
                    what));
  alert.producer = facts.forward_nonfinite ? 0 : 1;
}

void ValueConditions(const JudgedSample& sample, Alerts& out) {
  const SampleRow& row = sample.row;
  const TensorStats& stats = row.stats;
  if (stats.finite == 0) return;
  const FormatInfo& format = Info(sample.judged);
  const std::string_view phase = KindPhase(row.kind);
  const auto add = [&](std::string_view type, double value, double threshold, std::string text) {
    AlertRow& alert =
        Raise(out, type, row.step, phase, std::string(sample.name) + ": " + std::move(text));
    alert.layer = row.layer;
    alert.kind = row.kind;
    alert.value = value;
    alert.threshold = threshold;
    if (sample.plain_fp32) alert.severity = "INFO";
    return &alert;
  };
  const std::string word(KindWord(row.kind));
  const std::string dtype(DTypeName(row.dtype));
  const std::string name(format.name);
  const double held = row.dtype == DType::kFloat16 ? 0 : RoundTo(sample.judged, stats.absmax);
  if (!std::isfinite(held)) {
    AlertRow* alert = add("OVERFLOW", stats.absmax, format.max,
                          Message("the %s reaches %.5g in %s; %s holds %.5g at most.", word.c_str(),
                                  stats.absmax, dtype.c_str(), name.c_str(), format.max));
    alert->producer = sample.producer;
  }
  if (sample.judged != Format::kFp16) return;  // the shares below are counted for FP16 only
  const auto finite = static_cast<double>(stats.finite);
  const double near = static_cast<double>(stats.near_fp16_max) / finite;
  if (near > kSaturationShare && !sample.plain_fp32) {
    add("SATURATION", near, kSaturationShare,
        Message("%.3g %% of the %s lie above %g x %g (largest %.5g).", 100 * near, word.c_str(),
                kSaturationOfMax, format.max, stats.absmax));
  }
  const double nonzero = finite - static_cast<double>(stats.zeros);
  const double below = nonzero > 0 ? static_cast<double>(stats.below_fp16) / nonzero : 0;
  if (below > kUnderflowShare && !sample.plain_fp32 && row.kind != TensorKind::kWeight) {
    add("UNDERFLOW", below, kUnderflowShare,
        Message("%s%.3g %% of the non-zero elements of the %s become 0 in %s (largest %.3g).",
                below > kUnderflowLoudShare ? "much is lost: " : "", 100 * below, word.c_str(),
                name.c_str(), stats.absmax));
  }
}

}  // namespace mpnanny
