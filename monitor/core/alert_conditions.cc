#include "monitor/core/alert_conditions.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "base/layer_word.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_types.h"
#include "monitor/core/json_text.h"

namespace mpnanny {
namespace {

constexpr int64_t kCeilingAge = 16;  // losses for which a ceiling is good enough to say "no spike"
constexpr size_t kHabitRank = 3;

AlertRow& Raise(Alerts& out, AlertType type, int64_t step, Phase phase, std::string message) {
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
        out, AlertType::kLossScaleCollapse, facts.step, Phase::kOptimizer,
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
    AlertRow& alert = Raise(out, AlertType::kLossScaleDecline, facts.step, Phase::kOptimizer,
                            Message("The loss scale fell %d times without a rise, from %g to %g.",
                                    falls_, *facts.scale * std::pow(2.0, falls_ - 1), after));
    alert.value = falls_;
    alert.threshold = kDeclineFalls;
  }
  if (after < bound) {
    AlertRow& alert =
        Raise(out, AlertType::kLossScaleLow, facts.step, Phase::kOptimizer,
              Message("The loss scale is %g, under %g; it started at %g.", after, bound, initial_));
    alert.value = after;
    alert.threshold = bound;
  }
  if (facts.skipped) skips_.push_back(facts.step);
  while (!skips_.empty() && skips_.front() <= facts.step - kSkipWindow) skips_.pop_front();
  const auto allowed = kSkipAllowed + kSkipWindow / std::max<int64_t>(1, facts.growth_interval);
  if (facts.skipped && static_cast<int64_t>(skips_.size()) > allowed) {
    AlertRow& alert = Raise(
        out, AlertType::kStepSkipped, facts.step, Phase::kOptimizer,
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
  if (norms_.seen() >= warmup_steps_ && norms_.seen() > 0) {
    const double median = norms_.Median();
    if (median > 0 && norm > kExplosionRatio * median) {
      // To a run that has all but converged a hard batch is as far from its median as an explosion,
      // yet not far from what it began with. The spread needs no bound of its own: of positive
      // figures MAD is never more than the median.
      const double bound = std::max(kExplosionRatio * median, kExplosionOfStart * start_);
      if (norm > bound) {
        AlertRow& alert =
            Raise(out, AlertType::kGradExplosion, facts.step, Phase::kBackward,
                  Message("The global gradient norm is %.4g, %.3g times its median of %.4g.", norm,
                          norm / median, median));
        alert.value = norm;
        alert.threshold = bound;
      }
    }
    if (median > 0 && norm > 0 && norm < kVanishRatio * median) {
      AlertRow& alert = Raise(out, AlertType::kGradVanish, facts.step, Phase::kBackward,
                              Message("The global gradient norm is %.4g, %.3g of its median %.4g.",
                                      norm, norm / median, median));
      alert.value = norm;
      alert.threshold = kVanishRatio * median;
    }
  }
  if (norms_.seen() < warmup_steps_) start_ = std::max(start_, norm);
  norms_.Add(norm);
}

double LossSpikes::Ceiling(double median) const {
  const double floor = std::max(kSpikeOfMedian * std::fabs(median), kSpikeOfStart * start_);
  const double habit = kSpikeHabit * (losses_.Largest(kHabitRank) - median);
  return median + std::max({kOutlierMads * losses_.Mad(median), floor, habit});
}

void LossSpikes::Step(const StepFacts& facts, Alerts& out) {
  if (!facts.loss || !std::isfinite(*facts.loss)) return;
  const double loss = *facts.loss;
  if (losses_.seen() >= warmup_steps_ && losses_.seen() > 0) {
    const bool stale = fresh_ < 0 || losses_.seen() - fresh_ >= kCeilingAge;
    if (stale || loss > ceiling_) {
      const double median = losses_.Median();
      ceiling_ = Ceiling(median);
      fresh_ = losses_.seen();
      if (loss > ceiling_) {
        AlertRow& alert =
            Raise(out, AlertType::kLossSpike, facts.step, Phase::kLoss,
                  Message("The loss is %.5g; its median over the last %zu steps is %.5g, and more "
                          "than %.5g is outside what this run does.",
                          loss, losses_.size(), median, ceiling_));
        alert.value = loss;
        alert.threshold = ceiling_;
      }
    }
  }
  losses_.Add(loss);
  if (losses_.seen() <= kSpikeStartLosses) start_ = std::fabs(losses_.Median());
}

void GradientConditions::Magnitude(int64_t step, double absmax, int64_t layer,
                                   std::string_view name, Alerts& out) {
  const std::string word = LayerWord(name);
  if (absmax > kExplosionAbsmax) {
    AlertRow& alert =
        Raise(out, AlertType::kGradExplosion, step, Phase::kBackward,
              Message("%.*s: the largest unscaled gradient is %.4g, over %g.",
                      static_cast<int>(word.size()), word.data(), absmax, kExplosionAbsmax));
    alert.layer = layer;
    alert.kind = TensorKind::kGradient;
    alert.value = absmax;
    alert.threshold = kExplosionAbsmax;
  }
  if (absmax > 0 && absmax < kVanishAbsmax) {
    AlertRow& alert =
        Raise(out, AlertType::kGradVanish, step, Phase::kBackward,
              Message("The largest unscaled gradient of the model is %.4g (in %.*s), under %g.",
                      absmax, static_cast<int>(word.size()), word.data(), kVanishAbsmax));
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
      out, AlertType::kLossNan, facts.step, Phase::kLoss,
      facts.forward_nonfinite
          ? Message("The loss is %s; a non-finite value had already come out of the forward pass.",
                    what)
          : Message("The loss is %s although every watched module gave finite values: it was made "
                    "in the loss function or between it and the last module.",
                    what));
  alert.producer = facts.forward_nonfinite ? 0 : 1;
  const char* made = std::isnan(*facts.loss) ? R"(["nan"])"
                     : *facts.loss > 0       ? R"(["posinf"])"
                                             : R"(["neginf"])";
  JsonObject detail;
  detail.Text("where", facts.forward_nonfinite ? "carried" : "loss").Json("made", made);
  alert.detail = detail.Take();
}

void LogprobCondition(int64_t step, const LogprobFacts& facts, Alerts& out) {
  if (facts.not_finite > 0) {
    AlertRow& alert = Raise(
        out, AlertType::kLogprobMismatch, step, Phase::kLoss,
        Message("%lld log-probabilities of the trainer or of the rollout "
                "engine are not finite, beside %lld tokens that are.",
                static_cast<long long>(facts.not_finite), static_cast<long long>(facts.tokens)));
    alert.severity = Severity::kError;
    alert.value = static_cast<double>(facts.not_finite);
    alert.threshold = 0;
    return;
  }
  const bool by_k3 = facts.k3 > kMismatchK3, by_share = facts.beyond > kMismatchBeyond;
  if (!by_k3 && !by_share) return;
  AlertRow& alert = Raise(
      out, AlertType::kLogprobMismatch, step, Phase::kLoss,
      Message("Trainer and rollout engine give the same tokens other log-probabilities: k3 is "
              "%.3g, and %.3g %% of %lld tokens are beyond e^+-0.5.",
              facts.k3, 100 * facts.beyond, static_cast<long long>(facts.tokens)));
  if (facts.k3 > kMismatchK3Broken || facts.beyond > kMismatchBeyondBroken)
    alert.severity = Severity::kError;
  alert.value = by_k3 ? facts.k3 : facts.beyond;
  alert.threshold = by_k3 ? kMismatchK3 : kMismatchBeyond;
}

}  // namespace mpnanny
