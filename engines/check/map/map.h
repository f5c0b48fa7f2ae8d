// The map of a project: the places that decide how precision runs through it.
//
// Plain values.
#ifndef MPNANNY_ENGINES_CHECK_MAP_MAP_H_
#define MPNANNY_ENGINES_CHECK_MAP_MAP_H_

#include <array>
#include <string>

namespace mpnanny::check {

enum class MapPart {
  kEntryPoints,  // where gradients are computed, and calls of a framework's trainer
  kAutocast,
  kScalers,     // made, and the order of their calls
  kCasts,       // of weights
  kBoundaries,  // where FP32 and 16 bits meet: autocast off, casts of tensors
  kLosses,
  kOptimizers,
  kAverages,  // averages of weights
  kCheckpoints,
  kSettings,  // of DeepSpeed, Accelerate …
};
inline constexpr std::array kMapParts = {"entry_points", "autocast", "scalers",    "casts",
                                         "boundaries",   "losses",   "optimizers", "averages",
                                         "checkpoints",  "settings"};

struct MapPlace {
  MapPart part = MapPart::kEntryPoints;
  std::string path;  // of a notebook's cell, as findings have it
  int line = 0;
  std::string what;  // raw: a part of it is the user's text
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_MAP_MAP_H_
