#include "tools/query_stats/log_figure.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace mpnanny::query_stats {
namespace {

constexpr size_t kLogPointsKept = 20'000;
constexpr size_t kNamesTold = 30;
constexpr size_t kNameShown = 120;

Error NoSuchFigure(const runs::Source& source, const std::string& name,
                   const std::vector<runs::FigureName>& names) {
  const std::string run = runs::ShownHandle(source);
  if (names.empty()) {
    return NotFound(run + " has no figures under names of a log.",
                    source.format.empty()
                        ? "It is a monitor's record: its own metrics are loss, lr, loss_scale, "
                          "grad_norm and the figures of tensors."
                        : "Its lines print none beside the loss and what belongs to it.");
  }
  std::vector<std::string> all;
  for (const runs::FigureName& known : names) all.push_back(EscapeControl(known.name, kNameShown));
  const std::string near = DidYouMean(name, all);
  const size_t more = all.size() > kNamesTold ? all.size() - kNamesTold : 0;
  all.resize(all.size() - more);
  return NotFound(run + " prints no figure '" + EscapeControl(name, kNameShown) + "'." +
                      (near.empty() ? "" : " " + near),
                  "It prints: " + Join(all, ", ") +
                      (more > 0 ? " and " + std::to_string(more) + " more" : "") + ".");
}

}  // namespace

Result<std::unique_ptr<LogFigure>> FindLogFigure(const runs::Source& source,
                                                 const std::string& asked) {
  const std::string name = asked.substr(kLogPrefix.size());
  auto figure = std::make_unique<LogFigure>();
  MPN_TRY_ASSIGN(figure->values, runs::ReadFigure(source, name));
  std::string found = name;
  if (figure->values.empty()) {
    MPN_TRY_ASSIGN(auto names, runs::ReadFigureNames(source));
    const auto same = std::find_if(names.begin(), names.end(), [&](const runs::FigureName& known) {
      return LowerCase(known.name) == LowerCase(name);
    });
    if (same == names.end()) return NoSuchFigure(source, name, names);
    found = same->name;
    MPN_TRY_ASSIGN(figure->values, runs::ReadFigure(source, found));
  }
  figure->shown = std::string(kLogPrefix) + EscapeControl(found, kNameShown);
  figure->metric.name = figure->shown;
  figure->metric.unit = "value";
  figure->metric.meaning = "as the log prints it under this name";
  figure->metric.worse = Worse::kNone;
  figure->metric.of_step = [](const runs::StepRow&) { return std::optional<double>(); };
  return figure;
}

Answer ReadLogFigure(const LogFigure& figure, const Question& question) {
  Answer answer;
  answer.steps.all = true;
  Series series;
  for (const auto& [step, value] : figure.values) {
    if (step < question.steps.first || step > question.steps.last) continue;
    ++answer.steps.looked_at;
    if (answer.steps.steps.empty())
      answer.steps.steps = {step, step};  // from the first to the last
    answer.steps.steps.back() = step;
    series.Add({step, value, !std::isfinite(value), -1}, figure.metric.worse, kLogPointsKept);
  }
  answer.steps.sampled = answer.steps.looked_at;
  if (!series.points.empty()) answer.series.push_back(std::move(series));
  return answer;
}

}  // namespace mpnanny::query_stats
