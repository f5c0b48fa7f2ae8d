#include "engines/judgement/layer_profiles.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engines/judgement/comparison.h"

namespace mpnanny::judgement {
namespace {

constexpr int kMostValues = 8;  // of a layer and a pass, whose formats are measured in a step

// Whether a value goes on from one layer to another: not to the layer's own backward pass, and not
// to where gradients of weights are collected.
bool GoesOn(const Place& source, const Place& target) {
  if (source.phase == Phase::kForward) {
    return target.phase == Phase::kLoss ||
           (target.phase == Phase::kForward && target.module != source.module);
  }
  const bool is_collected = !target.module && target.file.empty();
  return target.phase == Phase::kBackward && target.module != source.module && !is_collected;
}

}  // namespace

std::optional<double> LayerProfile::Amplification() const {
  const double times = error_in > 0 ? error / error_in : INFINITY;
  return std::isfinite(times) ? std::optional(times) : std::nullopt;
}

int LayerProfiles::LayerOf(int place) {
  const auto at = static_cast<size_t>(place);
  if (of_place_.size() <= at) of_place_.resize(at + 1);
  int& known = of_place_[at];
  if (known == 0) {
    const Place& site = calls_.PlaceOf(place);
    const bool backward = site.phase == Phase::kBackward;
    if (site.module && (backward || site.phase == Phase::kForward)) {
      const auto [number, is_new] =
          numbers_.try_emplace({*site.module, backward}, static_cast<int>(layers_.size()));
      if (is_new) {
        LayerProfile& layer = layers_.emplace_back();
        layer.module = *site.module;
        layer.backward = backward;
      }
      known = number->second + 1;
    } else {
      known = -1;
    }
  }
  return known > 0 ? known - 1 : kNone;
}

std::vector<std::pair<int, int>> LayerProfiles::Enters(int call) {
  std::vector<std::pair<int, int>> measured;
  const CallRecord& record = calls_[call];
  const int own = LayerOf(record.place);
  for (size_t at = 0; at < record.inputs.size(); ++at) {
    const Memory& before = record.inputs[at].before;
    const Input& row = record.inputs[at].row;
    if (!row.read) continue;
    const int from = before.producer == kNone ? kNone : LayerOf(calls_[before.producer].place);
    if (own != kNone && from != own && !before.noise && std::isfinite(before.error)) {
      double& error_in = layers_[static_cast<size_t>(own)].error_in;
      error_in = std::max(error_in, before.error);
    }
    const int layer = Takes(record.place, before, row.type, row.offset);
    if (layer != kNone) measured.emplace_back(static_cast<int>(at), layer);
  }
  return measured;
}

int LayerProfiles::Takes(int place, const Memory& memory, Element type, int64_t offset) {
  if (memory.producer == kNone) return kNone;
  const int source = calls_[memory.producer].place;
  const int number = LayerOf(source);
  if (number == kNone || !GoesOn(calls_.PlaceOf(source), calls_.PlaceOf(place))) return kNone;
  if (!left_.emplace(memory.producer, offset).second) return kNone;
  LayerProfile& layer = layers_[static_cast<size_t>(number)];
  const double error = memory.noise ? 0 : memory.error;
  ++layer.values;
  layer.error = layer.values == 1 ? error : std::max(layer.error, error);
  layer.type = type;
  return layer.values <= kMostValues ? number : kNone;
}

void LayerProfiles::Makes(int call, Element type, const ReferenceError& found) {
  const int number = LayerOf(calls_[call].place);
  if (number == kNone) return;
  LayerProfile& layer = layers_[static_cast<size_t>(number)];
  ++layer.operators;
  layer.absmax = std::max(layer.absmax, found.max_reference);
  if (layer.values > 0) return;
  // Until something leaves the layer, its newest result.
  layer.type = type;
  layer.error = ErrorOf(found);
  layer.rms = std::sqrt(found.squared_reference / static_cast<double>(found.numel));
}

std::vector<LayerProfile> LayerProfiles::Layers() const {
  std::vector<LayerProfile> known;
  std::copy_if(layers_.begin(), layers_.end(), std::back_inserter(known),
               [](const LayerProfile& each) { return each.operators > 0 || each.values > 0; });
  return known;
}

void LayerProfiles::Take(const Formats& row) {
  // On a tape of another version layers may have other numbers.
  const bool is_known = row.layer >= 0 && static_cast<size_t>(row.layer) < layers_.size();
  if (!is_known || row.found.finite == 0 || row.found.numel == 0) return;
  LayerProfile& layer = layers_[static_cast<size_t>(row.layer)];
  layer.rms = ++layer.measured == 1 ? row.found.rms : std::max(layer.rms, row.found.rms);
  const auto numel = static_cast<double>(row.found.numel);
  const double figures[] = {row.found.fp16,
                            row.found.bf16,
                            row.found.e4m3,
                            row.found.e5m2,
                            static_cast<double>(row.found.fp16_overflow) / numel,
                            static_cast<double>(row.found.fp16_underflow) / numel};
  for (size_t at = 0; at < layer.formats.size(); ++at) {
    if (!std::isfinite(figures[at])) continue;
    layer.formats[at] = std::max(layer.formats[at].value_or(figures[at]), figures[at]);
  }
}

}  // namespace mpnanny::judgement
