#include "engines/pictures/axes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/runs/show.h"

namespace mpnanny::pictures {
namespace {

constexpr double kNoPlace = std::numeric_limits<double>::quiet_NaN();
constexpr double kTickLength = 4;

// 1, 2 or 5 times a power of ten, the least that is not smaller than `rough`.
double RoundStep(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::vector<double> PowersOfTen(const Scale& scale, size_t wanted) {
  const int first = static_cast<int>(std::ceil(std::log10(scale.from) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(scale.to) + 1e-9));
  const int every = std::max(1, (last - first) / static_cast<int>(wanted) + 1);
  std::vector<double> ticks;
  for (int power = first; power <= last; power += every) ticks.push_back(std::pow(10, power));
  return ticks;
}

}  // namespace

double Scale::Along(double value) const {
  if (!std::isfinite(value)) return kNoPlace;
  if (!logarithmic) return (value - from) / (to - from);
  if (value <= 0) return kNoPlace;
  return (std::log(value) - std::log(from)) / (std::log(to) - std::log(from));
}

Scale ScaleBetween(double least, double greatest, bool logarithmic) {
  if (!std::isfinite(least) || !std::isfinite(greatest)) return {};
  constexpr double kRoom = 0.04;
  if (logarithmic && least > 0) {
    const double decades = std::max(0.1, std::log10(greatest / least));
    const double room = std::pow(10, kRoom * decades);
    return {std::max(least / room, std::numeric_limits<double>::denorm_min()),
            std::min(greatest * room, std::numeric_limits<double>::max()), true};
  }
  // Halves first: the ends may lie further apart than a double holds.
  const double half = greatest / 2 - least / 2;
  const double flat = half > 0 ? 0 : std::max(std::abs(least) * 0.1, 1e-300);
  const double room = 2 * half * kRoom + flat;
  if (!std::isfinite(2 * half + 2 * room)) return {least / 2, greatest / 2};
  return {least - room, greatest + room};
}

std::vector<double> Ticks(const Scale& scale, size_t wanted) {
  std::vector<double> ticks;
  if (scale.logarithmic) {
    ticks = PowersOfTen(scale, wanted);
    if (ticks.size() >= 2) return ticks;
    ticks.clear();  // less than a decade or two: as on a linear scale
  }
  const double step = RoundStep((scale.to - scale.from) / static_cast<double>(wanted));
  if (!(step > 0) || !std::isfinite(step)) return ticks;
  const double first = std::ceil(scale.from / step);
  for (size_t at = 0; at <= 2 * wanted; ++at) {
    const double tick = (first + static_cast<double>(at)) * step;
    if (tick > scale.to) break;
    ticks.push_back(tick == 0 ? 0 : tick);  // no -0
  }
  return ticks;
}

Point Plot::At(double along_x, double along_y) const {
  return {area.left + x.Along(along_x) * area.width(),
          area.bottom - y.Along(along_y) * area.height()};
}

Plot DrawAxes(Canvas& canvas, const Box& box, const Scale& x, const Scale& y,
              const Titles& titles) {
  const std::vector<double> rows = Ticks(y, static_cast<size_t>(std::max(2.0, box.height() / 45)));
  double widest = 0;
  for (const double tick : rows) {
    widest = std::max(widest, canvas.TextWidth(kSmallLetters, runs::Number(tick, 4)));
  }
  const double left = box.left + kLetters + 10 + widest + kTickLength;
  const Plot plot{{left, box.top + 2 * kLetters, box.right - 12, box.bottom - 3 * kLetters - 2},
                  x,
                  y};
  const Box& area = plot.area;
  canvas.Text({box.left, box.top + kLetters}, kLetters + 1,
              canvas.Shortened(kLetters + 1, titles.picture, box.width()), kInk);
  for (const double tick : rows) {
    const double at = std::floor(area.bottom - y.Along(tick) * area.height()) + 0.5;
    canvas.Line({{area.left, at}, {area.right, at}}, kGrid);
    canvas.Text({area.left - kTickLength - 2, at + 4}, kSmallLetters, runs::Number(tick, 4), kInk,
                Align::kRight);
  }
  for (const double tick : Ticks(x, static_cast<size_t>(std::max(2.0, area.width() / 90)))) {
    const double at = std::floor(area.left + x.Along(tick) * area.width()) + 0.5;
    canvas.Line({{at, area.bottom}, {at, area.bottom + kTickLength}}, kInk);
    canvas.Text({at, area.bottom + kTickLength + kSmallLetters + 1}, kSmallLetters,
                runs::Number(tick, 7), kInk, Align::kCentre);
  }
  canvas.Text({(area.left + area.right) / 2, box.bottom - 4}, kSmallLetters, titles.x, kSoftInk,
              Align::kCentre);
  canvas.Text({box.left + kLetters, (area.top + area.bottom) / 2}, kSmallLetters, titles.y,
              kSoftInk, Align::kCentre, /*upwards=*/true);
  canvas.Frame(area, kSoftInk);
  return plot;
}

}  // namespace mpnanny::pictures
