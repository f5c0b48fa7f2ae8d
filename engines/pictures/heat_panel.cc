#include "engines/pictures/heat_panel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "engines/runs/show.h"
#include "numerics/format.h"

namespace mpnanny::pictures {
namespace {

constexpr double kRowHeight = 15, kMostRows = 28;
constexpr double kNames = 210;  // room for the layers' names
// Cividis at nine places: even in lightness, the same to all kinds of colour vision.
constexpr std::array<Colour, 9> kShades = {{{0, 34, 78},
                                            {18, 53, 112},
                                            {59, 73, 108},
                                            {87, 93, 109},
                                            {112, 113, 115},
                                            {138, 134, 120},
                                            {165, 156, 116},
                                            {195, 179, 105},
                                            {254, 232, 56}}};
constexpr double kFp16Largest = 65504;

// The ends of the colours: of a share, or of magnitudes from the least there is up to FP16's end.
Scale ScaleOf(const HeatMap& map) {
  if (map.figure == "absmax" || map.figure == "rms") {
    double least = 1;
    for (const float cell : map.cells) {
      if (cell > 0) least = std::min(least, static_cast<double>(cell));
    }
    return {std::max(1e-8, std::pow(10, std::floor(std::log10(least)))), kFp16Largest, true};
  }
  if (map.figure == "error") return {1e-5, 1, true};
  return {0, 1, false};
}

Colour ShadeOf(const Scale& scale, double value) {
  const double along = value <= scale.from ? 0 : std::clamp(scale.Along(value), 0.0, 1.0);
  const double last = static_cast<double>(kShades.size() - 1);
  return kShades[static_cast<size_t>(std::lround(along * last))];
}

struct Row {
  size_t first = 0, last = 0;  // layers, both ends in
};

// Layers with a figure at all.
std::vector<size_t> LayersOf(const HeatMaps& maps, const HeatMap& map) {
  const size_t columns = maps.first_steps.size();
  std::vector<size_t> shown;
  for (size_t layer = 0; layer < maps.layers.size(); ++layer) {
    const auto begin = map.cells.begin() + static_cast<std::ptrdiff_t>(layer * columns);
    const auto seen = [](float cell) { return !std::isnan(cell); };
    if (std::any_of(begin, begin + static_cast<std::ptrdiff_t>(columns), seen)) {
      shown.push_back(layer);
    }
  }
  return shown;
}

// Put together where there is not room for each.
std::vector<Row> RowsOf(const std::vector<size_t>& shown, size_t most) {
  const size_t rows = std::min(most, shown.size());
  std::vector<Row> made;
  for (size_t row = 0; row < rows; ++row) {
    made.push_back({shown[row * shown.size() / rows], shown[(row + 1) * shown.size() / rows - 1]});
  }
  return made;
}

float WorstOf(const HeatMaps& maps, const HeatMap& map, const Row& row, size_t column) {
  float worst = kNoFigure;
  for (size_t layer = row.first; layer <= row.last; ++layer) {
    const float cell = map.cells[layer * maps.first_steps.size() + column];
    if (std::isnan(worst) || cell > worst) worst = cell;
  }
  return worst;
}

std::string NameOf(const HeatMaps& maps, const Row& row) {
  const std::string first = maps.layers[row.first].empty() ? "(model)" : runs::Name(maps.layers[row.first]);
  if (row.first == row.last) return first;
  return first + " + " + std::to_string(row.last - row.first);
}

void DrawLegend(Canvas& canvas, const Box& box, const Scale& scale) {
  double x = box.left + kNames;
  const double y = box.bottom - 4;
  const auto label = [&](const std::string& text) {
    canvas.Text({x, y}, kSmallLetters, text, kSoftInk);
    x += canvas.TextWidth(kSmallLetters, text) + 8;
  };
  label(runs::Number(scale.from, 3));
  for (const Colour& shade : kShades) {
    canvas.Fill({x, y - 10, x + 14, y + 1}, shade);
    x += 14;
  }
  x += 8;
  label(scale.to == kFp16Largest ? "65504, FP16's largest" : runs::Number(scale.to, 3));
  x += 12;
  canvas.Fill({x, y - 10, x + 14, y + 1}, kVermilion);
  x += 20;
  label("NaN or Inf");
}

}  // namespace

std::string HeatMapTitle(const HeatMap& map) {
  const std::string of = map.kind == "shadow_forward"    ? "forward operators in shadow steps"
                         : map.kind == "shadow_backward" ? "backward operators in shadow steps"
                         : map.kind == "activation"      ? "activations"
                         : map.kind == "gradient"        ? "gradients"
                         : map.kind == "weight"          ? "weights"
                                                         : "updates";
  const std::string figure = map.figure == "absmax"      ? "Largest magnitude"
                             : map.figure == "rms"       ? "Root mean square"
                             : map.figure == "zeros"     ? "Share of zeros"
                             : map.figure == "underflow" ? "Share that FP16 rounds to 0"
                             : map.figure == "frozen"    ? "Share of lost updates"
                                                         : "Relative error against FP64";
  return figure + " of " + of;
}

double HeatMapHeight(const HeatMaps& maps, const HeatMap& map) {
  const auto rows = static_cast<double>(LayersOf(maps, map).size());
  return std::min(rows, kMostRows) * kRowHeight + 6 * kLetters + 1;
}

void DrawHeatMap(Canvas& canvas, const Box& box, const HeatMaps& maps, const HeatMap& map,
                 const std::optional<HeatCell>& first_bad) {
  const Scale scale = ScaleOf(map);
  const size_t columns = maps.first_steps.size();
  const Box area{box.left + kNames, box.top + 2 * kLetters, box.right - 12,
                 box.bottom - 4 * kLetters};
  const std::vector<Row> rows =
      RowsOf(LayersOf(maps, map), static_cast<size_t>(std::max(1.0, area.height() / kRowHeight)));
  canvas.Text({box.left, box.top + kLetters}, kLetters + 1, HeatMapTitle(map), kInk);
  if (rows.empty() || columns == 0) return;
  const double height = std::min(kRowHeight, area.height() / static_cast<double>(rows.size()));
  const double width = area.width() / static_cast<double>(columns);
  std::optional<Box> bad;
  for (size_t at = 0; at < rows.size(); ++at) {
    const Row& row = rows[at];
    const double top = area.top + static_cast<double>(at) * height;
    canvas.Text({area.left - 6, top + height - 4}, kSmallLetters,
                canvas.Shortened(kSmallLetters, NameOf(maps, row), kNames - 8), kInk,
                Align::kRight);
    for (size_t column = 0; column < columns; ++column) {
      const auto value = static_cast<double>(WorstOf(maps, map, row, column));
      const double left = area.left + static_cast<double>(column) * width;
      const Box cell{left, top, left + width - 0.5, top + height - 0.5};
      if (!std::isnan(value)) {
        canvas.Fill(cell, std::isinf(value) ? kVermilion : ShadeOf(scale, value));
      }
      if (!first_bad || bad || first_bad->step < maps.first_steps[column]) continue;
      const bool last_before =
          column + 1 == columns || first_bad->step < maps.first_steps[column + 1];
      const auto begin = maps.layers.begin();
      const auto found =
          std::find(begin + static_cast<std::ptrdiff_t>(row.first),
                    begin + static_cast<std::ptrdiff_t>(row.last) + 1, first_bad->layer);
      if (last_before && found != begin + static_cast<std::ptrdiff_t>(row.last) + 1) bad = cell;
    }
  }
  const double bottom = area.top + static_cast<double>(rows.size()) * height;
  if (bad) {
    canvas.Frame({bad->left - 2, bad->top - 2, bad->right + 1, bad->bottom + 1}, kInk, 2.5);
    canvas.Text({area.right, box.top + kLetters}, kSmallLetters, "framed: first bad", kInk,
                Align::kRight);
  }
  const size_t every = std::max<size_t>(1, columns / 8);
  for (size_t column = 0; column < columns; column += every) {
    const double at = area.left + (static_cast<double>(column) + 0.5) * width;
    canvas.Text({at, bottom + kSmallLetters + 2}, kSmallLetters,
                std::to_string(maps.first_steps[column]), kInk, Align::kCentre);
  }
  canvas.Text({(area.left + area.right) / 2, bottom + 2 * kSmallLetters + 5}, kSmallLetters,
              "step", kSoftInk, Align::kCentre);
  DrawLegend(canvas, {box.left, box.top, box.right, bottom + 4 * kLetters}, scale);
}

}  // namespace mpnanny::pictures
