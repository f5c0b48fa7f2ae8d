#include "tools/query_stats/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace mpnanny::query_stats {
namespace {

constexpr int kBias = 127;
constexpr int kMaxRows = 40;
constexpr int kBarWidth = 40;
constexpr Format kShown[] = {Format::kFp16, Format::kBf16, Format::kE4M3, Format::kE5M2};

int SubnormalExponent(Format format) { return std::ilogb(Info(format).min_subnormal); }

// Elements with an exponent from `from` to `to`, both in.
int64_t CountBetween(const Distribution& d, int from, int to) {
  int64_t count = 0;
  for (int e = std::max(from, 1 - kBias); e <= std::min(to, kBias); ++e) count += CountAt(d, e);
  return count;
}

// Up to 2^(s-1), which is half of the smallest subnormal 2^s, values become zero; of those with
// exponent s-1 only 2^(s-1) itself does.
int64_t Under(const Distribution& d, Format format, int shift) {
  return d.tiny + CountBetween(d, 1 - kBias, SubnormalExponent(format) - 2 - shift);
}

// Whether an absmax that was written stands for held values whose largest exponent is `highest`.
bool Holds(double absmax, double factor, int highest) {
  const double held = absmax * factor;
  return std::isfinite(held) && held > 0 && std::abs(std::ilogb(held) - highest) <= 0;
}

// The marks of the formats' limits, by exponent.
std::map<int, std::string> Marks() {
  std::map<int, std::string> marks;
  const auto add = [&](int exponent, const std::string& text) {
    std::string& mark = marks[exponent];
    mark += (mark.empty() ? "" : ", ") + text;
  };
  for (const Format format : kShown) {
    const FormatInfo& info = Info(format);
    const std::string name(info.name);
    add(info.max_exponent, name + " max");
    add(info.min_exponent, name + " smallest normal");
    add(SubnormalExponent(format), name + " smallest subnormal");
  }
  return marks;
}

}  // namespace

Distribution MakeDistribution(const runs::TensorRow& row, const runs::Exponents& counts,
                              std::optional<double> loss_scale) {
  Distribution d;
  d.row = row;
  d.counts = counts;
  for (const int64_t count : counts) d.total += count;
  d.zeros = std::min(row.zeros, counts.front());
  d.tiny = counts.front() - d.zeros;
  d.nonfinite = counts.back();
  for (int e = 1 - kBias; e <= kBias; ++e) {
    if (CountAt(d, e) == 0) continue;
    if (!d.lowest) d.lowest = e;
    d.highest = e;
  }
  const bool may_be_scaled = row.kind == runs::kGradient || row.kind == runs::kActivationGradient;
  if (may_be_scaled && row.absmax && d.highest) {
    const double scale = loss_scale.value_or(1);
    d.held_factor = Holds(*row.absmax, scale, *d.highest) ? std::optional(scale)
                    : Holds(*row.absmax, 1, *d.highest)   ? std::optional(1.0)
                                                          : std::nullopt;
  }
  return d;
}

int64_t CountAt(const Distribution& distribution, int exponent) {
  const int field = exponent + kBias;
  return field > 0 && field < 255 ? distribution.counts[static_cast<size_t>(field)] : 0;
}

std::vector<FormatFit> FitFormats(const Distribution& d) {
  std::vector<FormatFit> fits;
  const double all = d.total > 0 ? static_cast<double>(d.total) : 1;
  const auto share = [&](int64_t count) { return static_cast<double>(count) / all; };
  for (const Format format : kShown) {
    const FormatInfo& info = Info(format);
    const bool fp16 = format == Format::kFp16;
    FormatFit fit;
    fit.format = format;
    const int64_t under = Under(d, format, 0);
    fit.under = share(fp16 ? d.row.below_fp16.value_or(under) : under);
    const int64_t subnormal = CountBetween(d, SubnormalExponent(format) - 1, info.min_exponent - 1);
    fit.subnormal = share(fp16 ? d.row.subnormal_fp16.value_or(subnormal) : subnormal);
    const int64_t over = CountBetween(d, info.max_exponent + 1, kBias);
    // Between the maximum and the next power of two: only a few bits tell. The tensor's absmax may.
    const bool top_is_below = d.highest && *d.highest == info.max_exponent && d.row.absmax &&
                              d.held_factor && *d.row.absmax * *d.held_factor <= info.max;
    const int64_t at_most = over + (top_is_below ? 0 : CountAt(d, info.max_exponent));
    fit.over = share(fp16 ? d.row.above_fp16.value_or(over) : over);
    fit.over_at_most = fp16 && d.row.above_fp16 ? fit.over : share(at_most);
    if (d.highest) {
      fit.best_shift = info.max_exponent - 1 - *d.highest;
      fit.under_at_best = share(Under(d, format, *fit.best_shift));
    }
    fits.push_back(fit);
  }
  return fits;
}

std::string Plot(const Distribution& d) {
  if (!d.lowest) return "  (no normal value: zeros, FP32 subnormals or non-finite ones only)\n";
  const std::map<int, std::string> marks = Marks();
  const int rows = *d.highest - *d.lowest + 1;
  const int a_row = (rows + kMaxRows - 1) / kMaxRows;  // exponents joined in one row
  int64_t largest = 1;
  for (int top = *d.highest; top >= *d.lowest; top -= a_row) {
    largest = std::max(largest, CountBetween(d, top - a_row + 1, top));
  }
  std::string plot, above, below;
  for (const auto& [exponent, text] : marks) {
    if (exponent > *d.highest)
      above = "2^" + std::to_string(exponent) + " " + text + (above.empty() ? "" : "; " + above);
    if (exponent < *d.lowest)
      below = "2^" + std::to_string(exponent) + " " + text + (below.empty() ? "" : "; " + below);
  }
  if (!above.empty()) plot += "  above the largest value: " + above + "\n";
  for (int top = *d.highest; top >= *d.lowest; top -= a_row) {
    const int64_t count = CountBetween(d, top - a_row + 1, top);
    char label[40];
    std::snprintf(label, sizeof(label), "  2^%-5d %7.3g%% ", top - a_row + 1,
                  100.0 * static_cast<double>(count) / static_cast<double>(d.total));
    const auto width = static_cast<size_t>(
        std::llround(static_cast<double>(count) * kBarWidth / static_cast<double>(largest)));
    std::string line = label + std::string(width, '#');
    if (count > 0 && width == 0) line += ".";
    std::string limits;
    for (int e = top; e > top - a_row; --e) {
      if (const auto mark = marks.find(e); mark != marks.end()) {
        limits += (limits.empty() ? "" : ", ") + mark->second;
      }
    }
    if (!limits.empty()) line += "  <- " + limits;
    plot += line + "\n";
  }
  if (!below.empty()) plot += "  below the smallest value: " + below + "\n";
  return plot;
}

}  // namespace mpnanny::query_stats
