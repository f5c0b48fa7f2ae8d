#include "engines/pictures/curve_panel.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpnanny::pictures {
namespace {

struct Ends {
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;

  void Add(double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  bool empty() const { return !(least <= greatest); }
};

// Places of the points; what has none is left as a gap.
std::vector<Point> Placed(const Plot& plot, const std::vector<Point>& points) {
  std::vector<Point> placed;
  placed.reserve(points.size());
  for (const Point& point : points) placed.push_back(plot.At(point.x, point.y));
  return placed;
}

// The area between the least and the greatest, one piece for each stretch of known values.
void DrawBand(Canvas& canvas, const Plot& plot, const CurveLine& line) {
  Colour pale = line.colour;
  pale.opacity = 60;
  std::vector<Point> above, below;
  const auto finish = [&] {
    if (above.size() > 1) {
      above.insert(above.end(), below.rbegin(), below.rend());
      canvas.Polygon(above, pale);
    }
    above.clear();
    below.clear();
  };
  for (size_t at = 0; at < std::min(line.least.size(), line.greatest.size()); ++at) {
    const Point low = plot.At(line.least[at].x, line.least[at].y);
    const Point high = plot.At(line.greatest[at].x, line.greatest[at].y);
    if (!std::isfinite(low.y) || !std::isfinite(high.y)) {
      finish();
      continue;
    }
    below.push_back(low);
    above.push_back(high);
  }
  finish();
}

// Labels in their colours, from the right end of the title's line.
void DrawLegend(Canvas& canvas, const Box& box, const CurvePanel& panel) {
  double right = box.right - 12;
  const double room = box.width() * 0.3;
  const auto entry = [&](const std::string& label, Colour colour) {
    if (label.empty()) return;
    const std::string shown = canvas.Shortened(kSmallLetters, label, room);
    canvas.Text({right, box.top + kLetters}, kSmallLetters, shown, kInk, Align::kRight);
    right -= canvas.TextWidth(kSmallLetters, shown) + 6;
    canvas.Fill({right - 10, box.top + kLetters - 7, right, box.top + kLetters - 3}, colour);
    right -= 22;
  };
  for (auto mark = panel.marks.rbegin(); mark != panel.marks.rend(); ++mark) {
    if (!mark->steps.empty()) entry(mark->label, mark->colour);
  }
  for (auto line = panel.lines.rbegin(); line != panel.lines.rend(); ++line) {
    entry(line->label, line->colour);
  }
  if (panel.first_bad) entry("first bad step", kInk);
}

}  // namespace

void DrawCurves(Canvas& canvas, const Box& box, const CurvePanel& panel) {
  Ends x, y;
  for (const CurveLine& line : panel.lines) {
    for (const auto* points : {&line.points, &line.least, &line.greatest}) {
      for (const Point& point : *points) {
        x.Add(point.x);
        if (!panel.logarithmic || point.y > 0) y.Add(point.y);
      }
    }
  }
  for (const CurveMarks& marks : panel.marks) {
    for (const double step : marks.steps) x.Add(step);
  }
  if (x.empty()) x = {0, 1};
  if (y.empty()) y = {panel.logarithmic ? 1e-1 : 0, 1};
  const Plot plot = DrawAxes(canvas, box, ScaleBetween(x.least, x.greatest, false),
                             ScaleBetween(y.least, y.greatest, panel.logarithmic), panel.titles);
  for (const CurveLine& line : panel.lines) DrawBand(canvas, plot, line);
  for (const CurveLine& line : panel.lines) {
    const std::vector<Point> placed = Placed(plot, line.points);
    canvas.Line(placed, line.colour, 1.6, line.dashed ? 5 : 0);
    // A value between two gaps makes no line.
    for (size_t at = 0; at < placed.size(); ++at) {
      const auto gap = [&](size_t other) {
        return other >= placed.size() || !std::isfinite(placed[other].y);
      };
      if (gap(at) || !gap(at + 1) || (at > 0 && !gap(at - 1))) continue;
      canvas.Fill({placed[at].x - 2, placed[at].y - 2, placed[at].x + 2, placed[at].y + 2},
                  line.colour);
    }
  }
  double row = plot.area.bottom - 3;
  for (const CurveMarks& marks : panel.marks) {
    if (marks.steps.empty()) continue;
    for (const double step : marks.steps) {
      const double at = plot.At(step, y.least).x;
      canvas.Polygon({{at - 4, row}, {at + 4, row}, {at, row - 7}}, marks.colour);
    }
    row -= 9;
  }
  if (panel.first_bad) {
    const double at = plot.At(*panel.first_bad, y.least).x;
    canvas.Line({{at, plot.area.top}, {at, plot.area.bottom}}, kInk, 1.4, 4);
  }
  DrawLegend(canvas, box, panel);
}

}  // namespace mpnanny::pictures
