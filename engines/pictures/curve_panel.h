// Figures over the steps of a run, drawn as lines.
//
// Plain values; a free function.
#ifndef MPNANNY_ENGINES_PICTURES_CURVE_PANEL_H_
#define MPNANNY_ENGINES_PICTURES_CURVE_PANEL_H_

#include <optional>
#include <string>
#include <vector>

#include "engines/pictures/axes.h"

namespace mpnanny::pictures {

struct CurveLine {
  std::string label;
  Colour colour;
  std::vector<Point> points;  // step and value; a value that is not finite is a gap
  bool dashed = false;
  // The least and the greatest of each stretch of steps that a point stands for; may be empty.
  std::vector<Point> least = {}, greatest = {};
};

// Steps at which something happened: small marks along the lower edge.
struct CurveMarks {
  std::string label;
  Colour colour;
  std::vector<double> steps;
};

struct CurvePanel {
  Titles titles;
  bool logarithmic = false;
  std::vector<CurveLine> lines;
  std::vector<CurveMarks> marks = {};
  std::optional<double> first_bad = std::nullopt;  // a step, told by a line across
};

void DrawCurves(Canvas& canvas, const Box& box, const CurvePanel& panel);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_CURVE_PANEL_H_
