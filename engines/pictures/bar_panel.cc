#include "engines/pictures/bar_panel.h"

#include <algorithm>
#include <cmath>

#include "numerics/format.h"

namespace mpnanny::pictures {
namespace {

constexpr double kStrip = 14;  // height of a format's range
constexpr Format kShown[] = {Format::kFp16, Format::kBf16, Format::kE4M3, Format::kE5M2};

}  // namespace

void DrawBars(Canvas& canvas, const Box& box, const BarPanel& panel) {
  // The ends of FP16 are always seen.
  double from = Info(Format::kFp16).min_exponent - Info(Format::kFp16).mantissa_bits - 2;
  double to = Info(Format::kFp16).max_exponent + 3;
  double highest = 0;
  for (const auto& [exponent, count] : panel.counts) {
    from = std::min(from, static_cast<double>(exponent));
    to = std::max(to, static_cast<double>(exponent) + 1);
    highest = std::max(highest, count);
  }
  Box upper = box;
  upper.bottom -= static_cast<double>(std::size(kShown)) * kStrip;
  const Plot plot = DrawAxes(
      canvas, upper, {from, to, false}, {0, std::max(1.0, highest) * 1.05, false},
      {panel.title, "magnitude, as a power of two; below: normal range of each format, pale: "
                    "subnormal", "elements"});
  for (const auto& [exponent, count] : panel.counts) {
    const Point corner = plot.At(exponent, count);
    canvas.Fill({corner.x, corner.y, plot.At(exponent + 1, 0).x - 0.5, plot.area.bottom}, kBlue);
  }
  double top = upper.bottom + 2;
  for (const Format format : kShown) {
    const FormatInfo& info = Info(format);
    const auto place = [&](double exponent) {
      return plot.At(std::clamp(exponent, from, to), 0).x;
    };
    const double least = place(std::log2(info.min_subnormal)), normal = place(info.min_exponent);
    const double end = place(info.max_exponent + 1);
    const double bottom = top + kStrip - 4;
    canvas.Fill({least, top, normal, bottom}, {0, 158, 115, 90});
    canvas.Fill({normal, top, end, bottom}, kGreen);
    canvas.Text({plot.area.left - 6, bottom}, kSmallLetters, std::string(info.name), kInk,
                Align::kRight);
    top += kStrip;
  }
}

}  // namespace mpnanny::pictures
