#include "tools/query_stats/series_text.h"

#include <limits>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::query_stats {
namespace {

using runs::Number;

constexpr size_t kLeastRow = 4;  // points of one value from which they are told once
constexpr size_t kStepsNamed = 4;

bool IsConstant(const Series& series) {
  return series.points.size() > 1 && series.nonfinite == 0 &&
         series.least->value == series.largest->value;
}

// "20 to 42", "from 20 on", "up to 42".
std::string Asked(const runs::StepRange& range) {
  const bool from = range.first != std::numeric_limits<int64_t>::min();
  const bool to = range.last != std::numeric_limits<int64_t>::max();
  if (from && to) return std::to_string(range.first) + " to " + std::to_string(range.last);
  return from ? "from " + std::to_string(range.first) + " on"
              : "up to " + std::to_string(range.last);
}

}  // namespace

std::string PointsText(const std::vector<Point>& points) {
  std::string text;
  for (size_t at = 0; at < points.size();) {
    const std::string value = Number(points[at].value);
    size_t end = at + 1;
    while (end < points.size() && Number(points[end].value) == value) ++end;
    if (end - at >= kLeastRow) {
      text += "  " + std::to_string(points[at].step) + " to " +
              std::to_string(points[end - 1].step) + ": " + value + " (" +
              std::to_string(end - at) + " points)";
    } else {
      for (size_t i = at; i < end; ++i) {
        text += "  " + std::to_string(points[i].step) + ": " + value;
      }
    }
    at = end;
  }
  return text;
}

std::string ExtremeText(const Metric& metric, const Series& series) {
  if (IsConstant(series)) return Number(series.worst->value) + " throughout";
  return (metric.worse == Worse::kNone ? "largest " : "worst ") + Number(series.worst->value) +
         " at step " + std::to_string(series.worst->step) +
         (series.points.size() > 1
              ? ", from " + Number(series.least->value) + " to " + Number(series.largest->value)
              : "");
}

std::string RangeText(const Question& question, const Answer& answer) {
  const runs::StepRange all;
  if (question.steps.first == all.first && question.steps.last == all.last) return "";
  const std::vector<int64_t>& steps = answer.steps.steps;
  std::string text = ", of steps " + Asked(question.steps);
  if (steps.empty()) return text;
  if (question.metric->of_step) {
    const bool whole = steps.front() == question.steps.first && steps.back() == question.steps.last;
    return whole ? text
                 : text + " (recorded: " + std::to_string(steps.front()) + " to " +
                       std::to_string(steps.back()) + ")";
  }
  const char* what = question.metric->of_profile ? "shadow step" : "sample";
  text += ", in which lie " + std::string(answer.steps.all ? "" : "about ") +
          runs::Count(answer.steps.sampled, what);
  if (!answer.steps.all || steps.size() > kStepsNamed) {
    return text + " (" + std::to_string(steps.front()) + " to " + std::to_string(steps.back()) +
           ")";
  }
  std::vector<std::string> named;
  for (const int64_t step : steps) named.push_back(std::to_string(step));
  return text + " (" + Join(named, ", ") + ")";
}

}  // namespace mpnanny::query_stats
