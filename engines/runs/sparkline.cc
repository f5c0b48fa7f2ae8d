#include "engines/runs/sparkline.h"

#include <algorithm>
#include <cmath>

namespace mpnanny::runs {

std::string Sparkline(const std::vector<SparkCell>& cells) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  for (const SparkCell& cell : cells) {
    if (!cell || !std::isfinite(*cell)) continue;
    least = std::min(least, *cell);
    greatest = std::max(greatest, *cell);
  }
  const bool logarithmic = least > 0 && greatest > 100 * least;
  const auto bar = [&](double value) {
    if (!(greatest > least)) return kBars[3];
    // Halved first: the difference of two large doubles may be infinite.
    const double share =
        logarithmic ? (std::log(value) - std::log(least)) / (std::log(greatest) - std::log(least))
                    : (value / 2 - least / 2) / (greatest / 2 - least / 2);
    return kBars[std::clamp(static_cast<int>(share * 8), 0, 7)];
  };
  std::string line;
  for (const SparkCell& cell : cells) {
    line += !cell ? " " : std::isfinite(*cell) ? bar(*cell) : "!";
  }
  return line;
}

}  // namespace mpnanny::runs
