#include "engines/runs/printed.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kLookedAt = 4096;
// A number in 32 bits has up to 9 digits; one that is stored in them and shown in 64 has more.
constexpr int kFull = 12;
// Fewer different values may be round ones: their digits do not tell to how many it prints.
constexpr size_t kLeastDifferent = 8;

}  // namespace

Digits DigitsOf(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  // "2.3101e+00": digits, a point among them, and the power of ten.
  Digits digits;
  const char* at = text;
  for (; at < end.ptr && *at != 'e'; ++at) {
    if (*at >= '0' && *at <= '9') ++digits.significant;
  }
  int power = 0;
  if (at < end.ptr) {
    ++at;
    if (at < end.ptr && *at == '+') ++at;
    std::from_chars(at, end.ptr, power);
  }
  digits.behind_point = std::max(0, digits.significant - 1 - power);
  // Zeros at the end of a whole number are no printed digits.
  return digits;
}

Printed::Printed(const FigureSeries& series) {
  const size_t stride = series.size() / kLookedAt + 1;
  size_t all_significant = 0, all_behind = 0;
  std::vector<Digits> seen;
  std::set<double> different;
  for (size_t i = 0; i < series.size(); i += stride) {
    const double value = series[i].second;
    if (!std::isfinite(value) || value == 0) continue;
    seen.push_back(DigitsOf(value));
    if (different.size() < kLeastDifferent) different.insert(value);
    significant_ = std::max(significant_, seen.back().significant);
    behind_point_ = std::max(behind_point_, seen.back().behind_point);
  }
  for (const Digits& digits : seen) {
    all_significant += digits.significant == significant_ ? 1 : 0;
    all_behind += digits.behind_point == behind_point_ ? 1 : 0;
  }
  // Nine of ten values have all digits that are printed; which of the two is the same for all tells
  // how it is printed.
  known_ = different.size() == kLeastDifferent;
  rounded_ = known_ && significant_ < kFull;
  fixed_ = all_behind >= all_significant;
}

double Printed::Unit(double value) const {
  if (!rounded_) return std::fabs(value) * 0x1p-52;
  if (fixed_) return std::pow(10.0, -behind_point_);
  const double magnitude = value == 0 ? 1 : std::floor(std::log10(std::fabs(value)));
  return std::pow(10.0, magnitude - (significant_ - 1));
}

std::string Printed::Words() const {
  if (!known_) return "the digits shown";
  if (!rounded_) return "full precision";
  return fixed_ ? Count(behind_point_, "decimal") : Count(significant_, "digit");
}

bool EqualAsPrinted(double a, const Printed& print_a, double b, const Printed& print_b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return a == b || (std::isnan(a) && std::isnan(b));
  }
  const double unit = std::max(print_a.Unit(a), print_b.Unit(b));
  constexpr double kSlack = 1 + 1e-6;  // halves of a decimal unit are no binary numbers
  return std::fabs(a - b) <= 0.5 * unit * kSlack;
}

}  // namespace mpnanny::runs
