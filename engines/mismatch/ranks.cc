#include "engines/mismatch/ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engines/mismatch/judge.h"

namespace mpnanny::mismatch {
namespace {

std::string Nats(double rms) {
  if (!std::isfinite(rms)) return "not finite";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g nats", rms);
  return text;
}

}  // namespace

std::string RanksText(const RankSize& shown, std::span<const RankSize> ranks) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const RankSize& each : ranks) {
    if (each.rank == shown.rank) continue;
    least = std::min(least, each.rms);
    most = std::max(most, each.rms);
  }
  std::string text = "Of " + std::to_string(ranks.size()) + " ranks rank " +
                     std::to_string(shown.rank) + " is shown, which is furthest apart: rms " +
                     Nats(shown.rms) + ", " + (ranks.size() == 2 ? "the other " : "the others ") +
                     Nats(least) + (least < most ? " to " + Nats(most) : "") + ".";
  if (shown.rms >= kContrast * std::max(most, kRmsSame)) {
    text +=
        " It alone differs: look at what this rank or its engine has that the others have not "
        "(weights, settings, a device).";
  }
  return text;
}

}  // namespace mpnanny::mismatch
