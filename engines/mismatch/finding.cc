#include "engines/mismatch/finding.h"

#include <algorithm>
#include <array>

namespace mpnanny::mismatch {

std::string_view WordOf(Shape shape) {
  static constexpr std::array<std::string_view, kShapes> kWords = {
      "none",    "rare_tokens",   "head",    "stored_in_16_bits", "temperature", "truncated",
      "shifted", "documents",     "padding", "decoding",          "position",    "sequences",
      "routing", "stale_weights", "grows",   "constant_offset",   "not_finite"};
  return kWords[static_cast<size_t>(shape)];
}

std::string_view WordOf(Agreement agreement) {
  static constexpr std::array<std::string_view, 4> kWords = {"agree", "degraded", "broken",
                                                             "not_established"};
  return kWords[static_cast<size_t>(agreement)];
}

double Contrast::Ratio() const {
  constexpr double kResolution = 1e-7;  // FP32's at 1
  constexpr double kLeastExposure = 0.02;
  return loud / std::max(loud_exposure, kLeastExposure) /
         std::max(quiet / std::max(quiet_exposure, kLeastExposure), kResolution);
}

double Contrast::Share() const {
  const double a = quiet * quiet * static_cast<double>(quiet_tokens),
               b = loud * loud * static_cast<double>(loud_tokens);
  return a + b > 0 ? b / (a + b) : 0;
}

}  // namespace mpnanny::mismatch
