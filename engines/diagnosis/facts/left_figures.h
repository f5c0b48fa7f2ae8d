// Figures that a log prints beside the loss and that left their level for good: the loss of an
// evaluation that rose, a score that fell, an entropy or a length of which nothing is left. The
// training's own loss may look sound then.
//
// Plain values; pure function.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_LEFT_FIGURES_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_LEFT_FIGURES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engines/runs/named_figures.h"
#include "engines/runs/sentence.h"

namespace mpnanny::diagnosis {

// Where the value of a figure stands.
struct FigurePlace {
  int64_t step = 0;
  int64_t line = 0;  // of the log, where that does not print the step; else 0
};
runs::Sentence PlaceText(const FigurePlace& place);

struct LeftFigure {
  enum class How { kRose, kFell, kCollapsed };
  How how = How::kRose;
  std::string name;        // raw
  bool is_length = false;  // of what a policy writes
  double best = 0, last = 0;
  FigurePlace at_best, at_last;
  FigurePlace from;  // the first from which on it stayed away
};

// One of each kind, the one that went furthest.
std::vector<LeftFigure> FindLeftFigures(std::span<const runs::NamedSeries> figures);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_LEFT_FIGURES_H_
