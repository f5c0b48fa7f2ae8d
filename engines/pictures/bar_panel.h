// How many elements of a tensor have a magnitude of each power of two, above the ranges of the
// formats.
//
// Plain values; a free function.
#ifndef MPNANNY_ENGINES_PICTURES_BAR_PANEL_H_
#define MPNANNY_ENGINES_PICTURES_BAR_PANEL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engines/pictures/axes.h"

namespace mpnanny::pictures {

struct BarPanel {
  std::string title;
  // 2^e up to 2^(e+1): how many; ascending.
  std::vector<std::pair<int, double>> counts;
};

void DrawBars(Canvas& canvas, const Box& box, const BarPanel& panel);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_BAR_PANEL_H_
