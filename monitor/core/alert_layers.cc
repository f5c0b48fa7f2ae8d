#include "monitor/core/alert_layers.h"

#include <algorithm>
#include <string>

#include "base/layer_word.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_types.h"
#include "numerics/format.h"

namespace mpnanny {

namespace {

double Largest(std::span<const LayerGradient> layers) {
  double largest = 0;
  for (const LayerGradient& layer : layers) largest = std::max(largest, layer.absmax);
  return largest;
}

}  // namespace

void VanishingLayers(int64_t step, std::span<const LayerGradient> layers, Alerts& out) {
  const double largest = Largest(layers);
  if (!(largest >= kVanishAbsmax)) return;
  for (const LayerGradient& layer : layers) {
    const bool vanishes =
        layer.absmax > 0 && layer.absmax < kVanishAbsmax && layer.absmax < kVanishRatio * largest;
    if (!vanishes) continue;
    const std::string word = LayerWord(layer.name);
    AlertRow& alert = out.emplace_back(MakeAlert(
        AlertType::kGradVanish, step, Phase::kBackward,
        Message("%.*s: its largest unscaled gradient is %.4g, under %g, while that of other layers "
                "reaches %.3g.",
                static_cast<int>(word.size()), word.data(), layer.absmax, kVanishAbsmax, largest)));
    alert.layer = layer.layer;
    alert.kind = TensorKind::kGradient;
    alert.value = layer.absmax;
    alert.threshold = kVanishAbsmax;
  }
}

void DeadLayers::Sample(int64_t step, std::span<const LayerGradient> layers, Alerts& out) {
  const double largest = Largest(layers);
  // A gradient that is small everywhere is GRAD_VANISH's.
  if (!(largest > kVanishAbsmax)) return;
  for (const LayerGradient& layer : layers) {
    if (!(layer.absmax < kDeadAbsmax)) {
      samples_.erase(layer.layer);
      continue;
    }
    const int samples = ++samples_[layer.layer];
    if (samples < kDeadSamples) continue;
    const std::string word = LayerWord(layer.name);
    AlertRow& alert = out.emplace_back(MakeAlert(
        AlertType::kDeadLayer, step, Phase::kBackward,
        layer.absmax > 0
            ? Message("%.*s: its gradient has not passed %.3g in %d samples in a row (under %g), "
                      "while that of other layers reaches %.3g: it no longer learns.",
                      static_cast<int>(word.size()), word.data(), layer.absmax, samples,
                      kDeadAbsmax, largest)
            : Message("%.*s: its gradient was 0 in %d samples in a row, while that of other layers "
                      "reaches %.3g: it does not learn.",
                      static_cast<int>(word.size()), word.data(), samples, largest)));
    alert.layer = layer.layer;
    alert.kind = TensorKind::kGradient;
    alert.value = layer.absmax;
    alert.threshold = kDeadAbsmax;
  }
}

void StaleUpdates::Sample(int64_t step, const WeightUpdate& update, Alerts& out) {
  if (ElementBytes(update.dtype) == 0 || ElementBytes(update.dtype) > 2) return;
  const int64_t meant = update.frozen + update.moved;
  if (meant == 0) return;
  const double share = static_cast<double>(update.frozen) / static_cast<double>(meant);
  if (share <= kStaleShare) {
    samples_.erase(update.layer);
    return;
  }
  const int samples = ++samples_[update.layer];
  if (samples < kStaleSamples) return;
  const std::string dtype(DTypeName(update.dtype)), word = LayerWord(update.name);
  AlertRow& alert = out.emplace_back(MakeAlert(
      AlertType::kStaleUpdate, step, Phase::kOptimizer,
      Message(
          "%.*s: %.3g %% of the weights that have a gradient stay where they are, in %d samples "
          "in a row: their updates are under half an ulp of %s.",
          static_cast<int>(word.size()), word.data(), 100 * share, samples, dtype.c_str())));
  alert.layer = update.layer;
  alert.kind = TensorKind::kUpdate;
  alert.value = share;
  alert.threshold = kStaleShare;
}

void ResidualCondition(int64_t step, const Residual& residual, Alerts& out) {
  if (residual.addend_rms <= 0 || residual.addend_rms > kAddendRatio * residual.input_rms) return;
  const double nonzero = 1 - residual.addend_zeros;
  if (nonzero <= 0) return;
  const double lost = (residual.unchanged - residual.addend_zeros) / nonzero;
  if (lost <= kAbsorbedShare) return;
  const std::string name(Info(residual.judged).name), dtype(DTypeName(residual.dtype));
  const std::string word = LayerWord(residual.name), addend = LayerWord(residual.addend);
  AlertRow& alert = out.emplace_back(MakeAlert(
      AlertType::kAbsorption, step, Phase::kForward,
      Message("%.*s: %.3g %% of what %.*s adds to its input is under half an ulp of the sum in %s "
              "(held in %s) and lost; RMS %.3g beside %.3g.",
              static_cast<int>(word.size()), word.data(), 100 * lost,
              static_cast<int>(addend.size()), addend.data(), name.c_str(), dtype.c_str(),
              residual.addend_rms, residual.input_rms)));
  alert.layer = residual.layer;
  alert.kind = TensorKind::kActivation;
  alert.value = lost;
  alert.threshold = kAbsorbedShare;
  alert.producer = 1;
}

}  // namespace mpnanny
