#include "engines/diagnosis/facts/trend.h"

#include <algorithm>
#include <cmath>

#include "base/layer_word.h"
#include "engines/diagnosis/facts/onset.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Number;

constexpr size_t kGrowthPoints = 8;  // the last ones, from which the growth is computed
constexpr double kNotable = 1.3;     // growth over all points that is worth a word

std::string Judged(const std::string& dtype, const Word<Precision>& precision) {
  // A value held in FP32 is judged by what autocast would make of it: the run's precision.
  if (LargestFinite(dtype) > 0 && dtype != "float32") return dtype;
  return std::string(precision.text());
}

// Slope of ln(value) over step by least squares, as a factor a step; 0 if it cannot be told.
double GrowthOf(const std::vector<std::pair<int64_t, double>>& points) {
  const size_t n = std::min(points.size(), kGrowthPoints);
  double count = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (auto p = points.end() - static_cast<ptrdiff_t>(n); p != points.end(); ++p) {
    if (!(p->second > 0)) continue;
    const auto x = static_cast<double>(p->first - points.back().first);
    const double y = std::log(p->second);
    ++count;
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
  }
  const double spread = count * sxx - sx * sx;
  return count >= 3 && spread > 0 ? std::exp((count * sxy - sx * sy) / spread) : 0;
}

// ", lately doubling about every 12 steps" of a factor a step.
runs::Sentence PaceText(double factor) {
  using runs::Form;
  const double steps = std::log(2) / std::fabs(std::log(factor));
  if (!(steps < 1e6)) return {};
  if (steps < 1.5) {
    return factor > 1 ? Form(", lately doubling at each step", "，近来每步翻倍")
                      : Form(", lately halving at each step", "，近来每步减半");
  }
  return {factor > 1 ? Form(", lately doubling about every {0} steps", "，近来约每 {0} 步翻倍")
                     : Form(", lately halving about every {0} steps", "，近来约每 {0} 步减半"),
          {Number(steps, 2)}};
}

// The series whose trend is reported: the onset's own, the largest of a layer that ran several
// times; without a layer, of the last sample's activations the one that came nearest to its limit.
const Series* Told(const Facts& facts) {
  const Onset& onset = *facts.onset;
  const int64_t kind = onset.layer_id ? onset.kind.value_or(runs::kActivation) : runs::kActivation;
  const Series* told = nullptr;
  double most = 0;
  for (const Series& series : facts.profile.series) {
    if (series.kind != kind || series.points.empty()) continue;
    double reached = series.last().absmax.value_or(0);
    if (onset.layer_id) {
      if (series.layer_id != *onset.layer_id) continue;
    } else {
      const double limit = LargestFinite(Judged(series.dtype, facts.precision));
      if (limit == 0 || series.last().step != facts.profile.steps.back()) continue;
      reached /= limit;
    }
    if (told && reached <= most) continue;
    most = reached;
    told = &series;
  }
  return told;
}

}  // namespace

double LargestFinite(const std::string& format) {
  // IEEE 754 binary16; bfloat16 has FP32's exponent and 8 significant bits; OCP FP8 E4M3 (fn) and
  // E5M2.
  if (format == "float16" || format == "fp16") return 65504;
  if (format == "bfloat16" || format == "bf16") return 3.3895313892515355e38;
  if (format == "float8_e4m3fn" || format == "e4m3" || format == "fp8") return 448;
  if (format == "float8_e5m2" || format == "e5m2") return 57344;
  if (format == "float32" || format == "fp32") return 3.4028234663852886e38;
  return 0;
}

std::optional<Trend> FindTrend(const Facts& facts) {
  const Series* told = Told(facts);
  if (!told) return std::nullopt;
  Trend trend;
  trend.kind = told->kind;
  trend.layer = told->layer;
  trend.dtype = told->dtype;
  for (const Measured& point : told->points) {
    if (point.absmax) trend.absmax.emplace_back(point.step, *point.absmax);
  }
  if (trend.absmax.empty()) return std::nullopt;
  trend.limit = LargestFinite(Judged(trend.dtype, facts.precision));
  trend.growth = GrowthOf(trend.absmax);
  const double first = trend.absmax.front().second;
  const double last = trend.absmax.back().second;
  if (trend.absmax.size() >= 2 && first > 0) trend.times_grown = last / first;
  if (trend.limit > 0 && last >= trend.limit) {
    trend.steps_to_limit = 0;
  } else if (trend.limit > 0 && last > 0 && trend.growth > 1.0005) {
    trend.steps_to_limit = std::log(trend.limit / last) / std::log(trend.growth);
  }
  return trend;
}

runs::Sentence TrendText(const Trend& trend) {
  using runs::Form;
  using runs::Sentence;
  const auto& [last_step, last] = trend.absmax.back();
  const auto& [first_step, first] = trend.absmax.front();
  const bool grew =
      trend.growth > 0 && (trend.times_grown > kNotable || trend.times_grown < 1 / kNotable);
  Sentence text(Form("absmax of {0} ({1}): {2}{3} (step {4}){5}",
                     "{0}（{1}）的最大绝对值：{2}{3}（第 {4} 步）{5}"),
                {LayerWord(runs::Name(trend.layer)),
                 Sentence::InEach(runs::KindName(trend.kind),
                                  KindWord(trend.kind).In(runs::Language::kChinese)),
                 trend.absmax.size() > 1 ? Sentence(Form("{0} (step {1}) → ", "{0}（第 {1} 步）→ "),
                                                    {Number(first, 4), first_step})
                                         : Sentence(),
                 Number(last, 4), last_step, grew ? PaceText(trend.growth) : Sentence()});
  if (!(trend.limit > 0 && trend.limit < 1e6)) return text;
  const bool judged = trend.dtype.empty() || trend.dtype == "float32";
  const bool ahead =
      trend.steps_to_limit && *trend.steps_to_limit >= 1 && *trend.steps_to_limit < 1e5;
  return {Form("{0}; {1} ends at {2}{3}{4}", "{0}；{1} 的上限为 {2}{3}{4}"),
          {std::move(text),
           judged ? Sentence(Form("the judged format", "所判断的格式")) : Sentence(trend.dtype),
           Number(trend.limit),
           last > 0 ? Sentence(Form(" ({0} % of it)", "（已达其 {0} %）"),
                               {Number(100 * last / trend.limit, 3)})
                    : Sentence(),
           ahead ? Sentence(Form(", about {0} steps further at that pace",
                                 "，按此速度约再过 {0} 步达到"),
                            {static_cast<int64_t>(*trend.steps_to_limit + 0.5)})
                 : Sentence()}};
}

}  // namespace mpnanny::diagnosis
