#include "engines/pictures/run_pictures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engines/pictures/bar_panel.h"
#include "engines/pictures/course.h"
#include "engines/pictures/curve_panel.h"
#include "engines/pictures/heat_panel.h"
#include "engines/runs/asked_run.h"
#include "engines/runs/show.h"

namespace mpnanny::pictures {
namespace {

constexpr int kWidth = 1000, kPanelHeight = 250;
constexpr double kMargin = 10;
constexpr size_t kMostLines = 6, kMostBars = 4;
constexpr Colour kLineColours[] = {kBlue, kVermilion, kGreen, kPurple, kOrange, kSky};
constexpr char kFont[] = "engines/pictures/DejaVuSans.ttf";

std::string FontOf(const ToolContext& context) {
  return std::string(context.data.Read(kFont).value_or(""));
}

Result<Picture> Finished(const Canvas& canvas, std::string shows) {
  std::string png = canvas.Png();
  if (png.empty()) return Unavailable("There is not enough memory for a picture.");
  return Picture{std::move(png), std::move(shows)};
}

const char* TitleOf(Metric metric) {
  switch (metric) {
    case kLoss:
      return "loss";
    case kGradientNorm:
      return "gradient norm (L2, unscaled)";
    case kLearningRate:
      return "learning rate";
    default:
      return "loss scale";
  }
}

struct NamedCourse {
  std::string name;    // "train"; of one of two runs "a: train"
  std::string letter;  // "a", "b"; empty for one alone
  Course course;
};

bool Has(const NamedCourse& run, Metric metric) {
  return std::any_of(run.course.stretches.begin(), run.course.stretches.end(),
                     [&](const CourseStretch& each) { return each.points[metric].last.has_value(); });
}

CurveLine LineOf(const NamedCourse& run, Metric metric, size_t which) {
  CurveLine line{run.letter, kLineColours[which], {}, which > 0};
  const double gap = std::numeric_limits<double>::quiet_NaN();
  for (const CourseStretch& each : run.course.stretches) {
    const CurvePoint& point = each.points[metric];
    const auto step = static_cast<double>(each.first_step);
    line.points.push_back({step, point.last.value_or(gap)});
    line.least.push_back({step, point.least.value_or(gap)});
    line.greatest.push_back({step, point.greatest.value_or(gap)});
  }
  return line;
}

// A loss scale lives on powers of two; others are logarithmic where they span three decades.
bool IsLogarithmic(const std::vector<NamedCourse>& runs, Metric metric) {
  double least = HUGE_VAL, greatest = 0;
  for (const NamedCourse& run : runs) {
    for (const CourseStretch& each : run.course.stretches) {
      least = std::min(least, each.points[metric].least.value_or(least));
      greatest = std::max(greatest, each.points[metric].greatest.value_or(greatest));
    }
  }
  return least > 0 && (metric == kLossScale || greatest > 1000 * least);
}

CurvePanel PanelOf(const std::vector<NamedCourse>& runs, Metric metric) {
  CurvePanel panel{{TitleOf(metric), "step", TitleOf(metric)}, IsLogarithmic(runs, metric), {}};
  if (panel.logarithmic) panel.titles.y += ", logarithmic";
  for (size_t which = 0; which < runs.size(); ++which) {
    panel.lines.push_back(LineOf(runs[which], metric, which));
  }
  for (size_t which = 0; which < runs.size(); ++which) {
    const std::string of = runs.size() > 1 ? runs[which].letter + " " : "";
    CurveMarks marks{of + (metric == kLoss ? "not finite" : "skipped"), kOrange, {}};
    if (which > 0) marks.colour = kPurple;
    for (const CourseStretch& each : runs[which].course.stretches) {
      const int64_t count = metric == kLoss ? each.not_finite : each.skipped;
      if (count > 0) marks.steps.push_back(static_cast<double>(each.first_step));
    }
    if (metric != kLearningRate) panel.marks.push_back(std::move(marks));
  }
  return panel;
}

// "loss over 110 steps (1.9 to 4.5; not finite in 37)"
std::string Told(const NamedCourse& run, Metric metric) {
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  int64_t not_finite = 0;
  for (const CourseStretch& each : run.course.stretches) {
    least = std::min(least, each.points[metric].least.value_or(least));
    greatest = std::max(greatest, each.points[metric].greatest.value_or(greatest));
    not_finite += each.not_finite;
  }
  std::string told = std::string(TitleOf(metric)) + " over " + runs::Count(run.course.steps, "step");
  if (least > greatest) return told + " (never finite)";
  told += " (" + runs::Number(least, 4) + " to " + runs::Number(greatest, 4);
  if (metric == kLoss && not_finite > 0) told += "; not finite in " + std::to_string(not_finite);
  return told + ")";
}

Result<NamedCourse> CourseOf(const runs::Source& source) {
  auto course = ReadCourse(source);
  if (!course) return course.error();
  return NamedCourse{runs::Name(source.run.name), "", *std::move(course)};
}

// All metrics that one of the runs has, in two columns.
Result<Picture> CoursePicture(const std::vector<NamedCourse>& runs, const ToolContext& context) {
  std::vector<Metric> metrics;
  for (const Metric metric : {kLoss, kGradientNorm, kLossScale, kLearningRate}) {
    const auto has = [&](const NamedCourse& run) { return Has(run, metric); };
    if (std::any_of(runs.begin(), runs.end(), has)) metrics.push_back(metric);
  }
  if (metrics.empty()) {
    return NotFound("There is nothing to draw: the run recorded no loss, gradient norm, loss "
                    "scale or learning rate.");
  }
  const size_t rows = (metrics.size() + 1) / 2;
  const std::string font = FontOf(context);
  Canvas canvas(kWidth, static_cast<int>(rows) * kPanelHeight, font);
  std::vector<std::string> told;
  for (size_t at = 0; at < metrics.size(); ++at) {
    const double left = at % 2 == 0 ? 0 : kWidth / 2.0;
    const double width = metrics.size() == 1 ? kWidth : kWidth / 2.0;
    const double top = static_cast<double>(at / 2) * kPanelHeight;
    DrawCurves(canvas,
               {left + kMargin, top + kMargin, left + width - kMargin,
                top + kPanelHeight - kMargin},
               PanelOf(runs, metrics[at]));
    for (const NamedCourse& run : runs) {
      if (!Has(run, metrics[at])) continue;
      told.push_back((runs.size() > 1 ? run.name + ": " : "") + Told(run, metrics[at]));
    }
  }
  return Finished(canvas, "Curves: " + Join(told, "; ") + ".");
}

struct FirstBad {
  std::optional<int64_t> step;
  std::string layer, kind;  // of the tensors in which it is seen best
  bool measured = false;    // by a shadow step
};

FirstBad FirstBadOf(const Json& answer) {
  FirstBad bad;
  const Json& given = ValueAt(answer, {"first_bad"});
  if (!given.is_object()) return bad;
  if (const Json& step = ValueAt(given, {"step"}); step.is_number_integer()) bad.step = step;
  if (const Json& layer = ValueAt(given, {"layer"}); layer.is_string()) bad.layer = layer;
  const bool backward = ValueAt(given, {"phase"}) == "backward";
  bad.measured = ValueAt(given, {"operator"}).is_string();
  bad.kind = backward ? "gradient" : "activation";
  return bad;
}

// The map in which a failure of this kind is seen: magnitudes, or else the first there is.
const HeatMap* MapFor(const HeatMaps& maps, const FirstBad& bad) {
  for (const HeatMap& map : maps.maps) {
    if (map.kind == bad.kind && map.figure == "absmax") return &map;
  }
  return maps.maps.empty() ? nullptr : &maps.maps.front();
}

std::string RawName(const HeatMaps& maps, const std::string& shown) {
  for (const std::string& layer : maps.layers) {
    if (runs::Name(layer) == shown) return layer;
  }
  return shown;
}

double StepOf(const Json& point) { return point.at(0).get<double>(); }

double ValueOf(const Json& point) {
  const Json& value = point.at(1);
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string LabelOf(const Json& series) {
  const Json& layer = ValueAt(series, {"layer"});
  const std::string kind = ValueAt(series, {"kind"}).is_string() ? series["kind"] : "";
  if (!layer.is_string()) return kind;
  return layer.get<std::string>() + (kind.empty() ? "" : ", " + kind);
}

Result<Picture> BarsOf(const Json& all, const ToolContext& context) {
  Json series = Json::array();
  for (const Json& each : all) {
    if (!ValueAt(each, {"distribution", "bins"}).empty()) series.push_back(each);
  }
  if (series.empty()) return NotFound("There is nothing to draw: no element is finite and not 0.");
  const size_t shown = std::min(kMostBars, series.size());
  const std::string font = FontOf(context);
  Canvas canvas(kWidth, static_cast<int>(shown) * (kPanelHeight + 60), font);
  std::vector<std::string> told;
  for (size_t at = 0; at < shown; ++at) {
    const Json& distribution = ValueAt(series[at], {"distribution"});
    BarPanel panel{LabelOf(series[at]) + ", step " + DumpJson(ValueAt(distribution, {"step"})), {}};
    for (const Json& bin : ValueAt(distribution, {"bins"})) {
      panel.counts.emplace_back(bin.at(0).get<int>(), bin.at(1).get<double>());
    }
    const double top = static_cast<double>(at) * (kPanelHeight + 60);
    DrawBars(canvas, {kMargin, top + kMargin, kWidth - kMargin, top + kPanelHeight + 60 - kMargin},
             panel);
    told.push_back(panel.title + " (2^" + std::to_string(panel.counts.front().first) + " to 2^" +
                   std::to_string(panel.counts.back().first + 1) + ")");
  }
  return Finished(canvas, "Elements by magnitude against the ranges of FP16, BF16, E4M3, E5M2: " +
                              Join(told, "; ") + ".");
}

}  // namespace

Result<Picture> OfDiagnosis(const Json& arguments, const Json& answer,
                            const ToolContext& context) {
  if (!arguments.contains("run")) {
    return InvalidInput("A pasted log has no picture.",
                        "Call diagnose_run with `run` or `log_path`.");
  }
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  MPN_TRY_ASSIGN(auto run, CourseOf(source));
  const FirstBad bad = FirstBadOf(answer);
  HeatMapWish wish{{}, {bad.layer}};
  if (bad.step) wish.steps.push_back(*bad.step);
  MPN_TRY_ASSIGN(auto maps, ReadHeatMaps(source, wish));
  const HeatMap* const map = MapFor(maps, bad);

  const std::string font = FontOf(context);
  const int heat = map ? static_cast<int>(HeatMapHeight(maps, *map) + 2 * kMargin) : 0;
  Canvas canvas(kWidth, kPanelHeight + heat, font);
  CurvePanel panel = PanelOf({run}, kLoss);
  if (bad.step) panel.first_bad = static_cast<double>(*bad.step);
  DrawCurves(canvas, {kMargin, kMargin, kWidth - kMargin, kPanelHeight - kMargin}, panel);
  std::string shows = "Above: " + Told(run, kLoss);
  if (bad.step) shows += ", first bad step " + std::to_string(*bad.step) + " marked";
  if (map) {
    std::optional<HeatCell> cell;
    if (bad.step) cell = HeatCell{RawName(maps, bad.layer), *bad.step};
    DrawHeatMap(canvas,
                {kMargin, kPanelHeight + kMargin, kWidth - kMargin,
                 static_cast<double>(kPanelHeight + heat) - kMargin},
                maps, *map, cell);
    shows += ". Below: " + LowerCase(HeatMapTitle(*map)) + ", " +
             runs::Count(static_cast<int64_t>(maps.layers.size()), "layer") + " by " +
             runs::Count(static_cast<int64_t>(maps.samples_read), "sampled step");
    if (cell && !bad.layer.empty()) shows += ", the cell of " + bad.layer + " framed";
  }
  return Finished(canvas, shows + ".");
}

Result<Picture> OfSummary(const Json& arguments, const Json&, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context));
  auto run = CourseOf(source);
  if (!run) return run.error();
  return CoursePicture({*std::move(run)}, context);
}

Result<Picture> OfComparison(const Json& arguments, const Json&, const ToolContext& context) {
  std::vector<NamedCourse> both;
  for (const char* const key : {"a", "b"}) {
    MPN_TRY_ASSIGN(auto source, runs::OpenAskedRun(arguments, context, key));
    auto run = CourseOf(source);
    if (!run) return run.error();
    run->letter = key;
    run->name = run->letter + ": " + run->name;
    both.push_back(*std::move(run));
  }
  return CoursePicture(both, context);
}

Result<Picture> OfSeries(const Json&, const Json& answer, const ToolContext& context) {
  const Json& series = ValueAt(answer, {"series"});
  if (!series.is_array() || series.empty()) return NotFound("There is nothing to draw.");
  if (ValueAt(series[0], {"distribution"}).is_object()) return BarsOf(series, context);
  const std::string metric = answer.value("metric", ""), unit = answer.value("unit", "");
  CurvePanel panel{{metric, "step", metric + (unit == "value" ? "" : " (" + unit + ")")}, false, {}};
  CurveMarks broken{"NaN or Inf", kInk, {}};
  double least = HUGE_VAL, greatest = 0;
  std::vector<std::string> names;
  for (const Json& each : series) {
    const Json& points = ValueAt(each, {"points"});
    if (names.size() == kMostLines || !points.is_array() || points.empty()) continue;
    CurveLine line{LabelOf(each), kLineColours[names.size()], {}};
    for (const Json& point : points) {
      line.points.push_back({StepOf(point), ValueOf(point)});
      if (!std::isfinite(line.points.back().y)) {
        broken.steps.push_back(StepOf(point));
        continue;
      }
      least = std::min(least, line.points.back().y);
      greatest = std::max(greatest, line.points.back().y);
    }
    names.push_back(line.label);
    panel.lines.push_back(std::move(line));
  }
  if (names.empty()) return NotFound("There is nothing to draw: this answer has no points.");
  panel.logarithmic = least > 0 && greatest > 1000 * least;
  if (panel.logarithmic) panel.titles.y += ", logarithmic";
  panel.marks.push_back(std::move(broken));
  // A long list of names gets a row for each instead of the place beside the title.
  const int legend = names.size() > 1 ? static_cast<int>(names.size()) * 16 + 6 : 0;
  const int height = kPanelHeight + 100;
  const std::string font = FontOf(context);
  Canvas canvas(kWidth, height + legend, font);
  for (size_t at = 0; at < panel.lines.size() && legend > 0; ++at) {
    const double y = height + 12 + static_cast<double>(at) * 16;
    canvas.Fill({70, y - 7, 90, y - 3}, panel.lines[at].colour);
    canvas.Text({96, y}, kSmallLetters, canvas.Shortened(kSmallLetters, names[at], kWidth - 110),
                kInk);
    panel.lines[at].label.clear();
  }
  DrawCurves(canvas, {kMargin, kMargin, kWidth - kMargin, height - kMargin}, panel);
  std::string shows = "Lines: " + metric + " over steps of " + Join(names, "; ");
  if (least <= greatest) {
    shows += " (" + runs::Number(least, 4) + " to " + runs::Number(greatest, 4) + ")";
  }
  if (series.size() > names.size()) {
    shows += ". Not drawn: " + std::to_string(series.size() - names.size()) + " more series";
  }
  return Finished(canvas, shows + ".");
}

}  // namespace mpnanny::pictures
