#include "tools/query_stats/ranks_report.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/runs/page.h"
#include "engines/runs/rank_samples.h"
#include "engines/runs/show.h"
#include "tools/query_stats/collector.h"
#include "tools/query_stats/rank_spread.h"

namespace mpnanny::query_stats {
namespace {

using runs::Number;

constexpr size_t kRanksReserve = 1700;
constexpr size_t kMostLayersOfRanks = 8;
// Rows of a layer over all ranks and steps that one answer is told from; a rank has some (kinds,
// outputs) at a step.
constexpr size_t kRankRows = 60'000, kThoroughRankRows = 2'000'000;
constexpr size_t kLeastRankSteps = 6, kMostRankSteps = 1'000;
constexpr size_t kOutliersShown = 10, kPointsInText = 6;

struct RankSeries {
  SeriesKey key;
  int64_t ranks = 0;
  RankSpread spread;
};

// The steps to look at, as samples of the deciding rank lie.
Result<ChosenSteps> RankSteps(const runs::Source& source, const Question& question) {
  MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source, {"absmax"}));
  const size_t kinds = static_cast<size_t>(std::popcount(question.kinds));
  const size_t a_step = (source.others.size() + 1) * kinds * question.layers.ids.size();
  const size_t most = std::clamp((question.thorough ? kThoroughRankRows : kRankRows) / a_step,
                                 kLeastRankSteps, kMostRankSteps);
  MPN_TRY_ASSIGN(auto chosen, ChooseSteps(reader, source, question.steps, most, most, {}));
  if (chosen.all) return chosen;
  std::vector<int64_t> steps;
  for (size_t place = 0; place < chosen.steps.size(); ++place) {
    MPN_TRY_ASSIGN(auto step, Recorded(reader, chosen, place));
    if (step && (steps.empty() || *step > steps.back())) steps.push_back(*step);
  }
  chosen.steps = std::move(steps);
  return chosen;
}

// The series of one layer: each rank's, folded as those of one rank are, then laid side by side.
Result<std::vector<RankSeries>> ReadLayerOfRanks(const runs::Source& source,
                                                 const Question& question,
                                                 const std::vector<int64_t>& steps,
                                                 int64_t layer_id, const std::string& name) {
  std::map<int64_t, std::map<int64_t, std::vector<runs::TensorRow>>> ranks;
  MPN_TRY(runs::ForEachRankRow(source, name, steps, question.kinds, question.metric->needs,
                               [&](int64_t rank, const runs::TensorRow& row) {
                                 ranks[rank][row.step].push_back(row);
                                 ranks[rank][row.step].back().layer_id = layer_id;
                               }));
  Question about = question;
  about.grouping = Grouping::kLayer;
  about.layers.all = false;
  about.layers.ids = {layer_id};
  const Blocks none;
  std::map<SeriesKey, std::map<int64_t, std::vector<RankFigure>>> by_key;
  for (auto& [rank, samples] : ranks) {
    Collector collector(about, none);
    for (auto& [step, rows] : samples) {
      std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
        return std::pair(a.kind, a.slot) < std::pair(b.kind, b.slot);
      });
      collector.Add(rows);
      collector.EndStep(step);
    }
    for (const Series& series : collector.Take()) {
      for (const Point& point : series.points) {
        by_key[series.key][point.step].push_back({rank, point.value});
      }
    }
  }
  std::vector<RankSeries> all;
  for (const auto& [key, by_step] : by_key) {
    RankSeries series{.key = key, .spread = SpreadOf(by_step)};
    for (const RankPoint& point : series.spread.points) {
      series.ranks = std::max(series.ranks, point.ranks);
    }
    all.push_back(std::move(series));
  }
  return all;
}

Json RankPointJson(const RankPoint& point) {
  return Json::array({point.step, point.median ? JsonNumber(*point.median) : Json("nan"),
                      JsonNumber(point.least), JsonNumber(point.largest)});
}

Json OutlierJson(const Outlier& outlier) {
  return {{"rank", outlier.rank},
          {"first_step", outlier.first_step},
          {"steps", outlier.steps},
          {"step", outlier.step},
          {"value", JsonNumber(outlier.value)},
          {"median", JsonNumber(outlier.median)}};
}

std::string OutlierText(const Outlier& outlier, size_t steps) {
  return "\n  rank " + std::to_string(outlier.rank) + " stands apart from step " +
         std::to_string(outlier.first_step) + " on, at " + std::to_string(outlier.steps) + " of " +
         runs::Count(static_cast<int64_t>(steps), "step") + ": " + Number(outlier.value, 4) +
         " at step " + std::to_string(outlier.step) + ", where the median is " +
         Number(outlier.median, 4);
}

// The points that are shown: at most `most`, evenly spread, the first and the last among them.
std::vector<RankPoint> ShownPoints(const std::vector<RankPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<RankPoint> shown;
  for (size_t i = 0; i < most; ++i) shown.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return shown;
}

class RanksWriter {
 public:
  RanksWriter(const runs::Source& source, const ReportOptions& options)
      : source_(source), options_(options) {}

  std::pair<Json, std::string> Row(const RankSeries& series, const std::string& name) {
    const std::vector<Outlier>& outliers = series.spread.outliers;
    Json json = {{"layer", name}, {"kind", runs::KindName(series.key.kind)}};
    std::string text = LayerWord(name) + " " + runs::KindName(series.key.kind);
    if (series.key.slot >= 0) {
      const auto found = runs::StateName(source_, series.key.slot);
      const std::string state = found ? EscapeControl(*found, 40) : "not known";
      json["slot"] = series.key.slot;
      json["state"] = state;
      text += " (" + state + ")";
    }
    text += " on " + runs::Count(series.ranks, "rank");
    const size_t most = options_.max_points              ? static_cast<size_t>(*options_.max_points)
                        : options_.bytes >= SIZE_MAX / 2 ? kMostRankSteps
                                                         : 40;
    json["points"] = Json::array();
    const auto points = ShownPoints(series.spread.points, most);
    for (const RankPoint& point : points) json["points"].push_back(RankPointJson(point));
    omitted_ += static_cast<int64_t>(series.spread.points.size() - points.size());
    json["looked_at"] = series.spread.points.size();
    json["ranks"] = series.ranks;
    json["outliers"] = Json::array();
    json["outliers_total"] = outliers.size();
    for (const RankPoint& point : ShownPoints(series.spread.points, kPointsInText)) {
      text += "\n  step " + std::to_string(point.step) + ": median " + Number(point.median) +
              ", from " + Number(point.least) + " to " + Number(point.largest);
      if (point.nonfinite > 0) {
        text += "; not finite on " + runs::Count(point.nonfinite, "rank");
      }
    }
    for (size_t i = 0; i < std::min(outliers.size(), kOutliersShown); ++i) {
      json["outliers"].push_back(OutlierJson(outliers[i]));
      text += OutlierText(outliers[i], series.spread.points.size());
    }
    if (outliers.size() > kOutliersShown) {
      text += "\n  and " + std::to_string(outliers.size() - kOutliersShown) + " more";
    } else if (outliers.empty()) {
      text += "\n  no rank stands apart";
    }
    return {std::move(json), std::move(text)};
  }

  int64_t omitted() const { return omitted_; }

 private:
  const runs::Source& source_;
  const ReportOptions& options_;
  int64_t omitted_ = 0;
};

Result<void> CanAskRanks(const runs::Source& source, const Question& question) {
  if (!question.metric || !question.metric->of_tensor) {
    return InvalidInput("aggregate \"ranks\" is for figures of tensors, which samples hold.",
                        "Ask for absmax, rms, mean, nonfinite … of a layer.");
  }
  if (question.layers.all) {
    return InvalidInput("aggregate \"ranks\" lays one layer of all ranks side by side.",
                        "Name it in `layers`.");
  }
  if (source.others.empty()) {
    return InvalidInput(source.run.world_size > 1
                            ? "aggregate \"ranks\" needs all ranks, and one alone was asked for."
                            : "This run has one process: there are no ranks to lay side by side.",
                        source.run.world_size > 1 ? "Leave `rank` out." : "");
  }
  return {};
}

}  // namespace

Result<ToolOutput> ReportRanks(const runs::Source& source, const Question& asked,
                               const ReportOptions& options) {
  MPN_TRY(CanAskRanks(source, asked));
  Question question = asked;
  std::vector<std::string> notes = options.notes;
  std::vector<int64_t>& ids = question.layers.ids;
  if (ids.size() > kMostLayersOfRanks) {
    notes.push_back("The first " + std::to_string(kMostLayersOfRanks) + " of " +
                    std::to_string(ids.size()) + " layers; name others in `layers`.");
    ids.resize(kMostLayersOfRanks);
  }
  MPN_TRY_ASSIGN(const ChosenSteps steps, RankSteps(source, question));
  runs::Layers layers(source);
  runs::Page page(options.bytes, kRanksReserve);
  RanksWriter writer(source, options);
  int64_t total = 0;
  bool full = false;
  for (const int64_t id : ids) {
    MPN_TRY_ASSIGN(auto layer, layers.Find(id));
    MPN_TRY_ASSIGN(auto all, ReadLayerOfRanks(source, question, steps.steps, id, layer.name));
    for (const RankSeries& series : all) {
      ++total;
      auto row = writer.Row(series, runs::Name(layer.name));
      full = full || !page.Add(std::move(row.first), row.second);
    }
  }
  if (full) notes.push_back("Not all of it fits: name fewer layers, or `kinds`.");
  if (!steps.all) {
    notes.push_back("Not every step was looked at (" + std::to_string(steps.steps.size()) +
                    " of about " + std::to_string(steps.sampled) +
                    "): a narrower `steps`, or detail \"full\", looks at more.");
  }
  notes.insert(notes.end(), source.notes.begin(), source.notes.end());

  const Metric& metric = *question.metric;
  const std::string handle = runs::ShownHandle(source);
  const std::string meaning = MeaningOf(source, metric);
  ToolOutput output;
  output.text = handle + ": " + std::string(metric.name) + " (" + std::string(metric.unit) + ": " +
                meaning + ") over " +
                runs::Count(static_cast<int64_t>(source.others.size()) + 1, "rank") + ".\n" +
                page.text();
  if (total == 0) output.text += "No rank has a sample of it in these steps.\n";
  for (const std::string& note : notes) output.text += "Note: " + note + "\n";
  const auto looked_at = static_cast<int64_t>(steps.steps.size());
  output.structured = {{"metric", metric.name},
                       {"unit", metric.unit},
                       {"series", page.TakeRows()},
                       {"omitted", writer.omitted()},
                       {"total", total},
                       {"run", handle},
                       {"meaning", meaning},
                       {"aggregate", "ranks"},
                       {"steps",
                        {{"looked_at", looked_at},
                         {"recorded", steps.all ? looked_at : steps.sampled},
                         {"all", steps.all},
                         {"first", steps.steps.empty() ? Json(nullptr) : Json(steps.steps.front())},
                         {"last", steps.steps.empty() ? Json(nullptr) : Json(steps.steps.back())}}},
                       {"notes", notes},
                       {"fold", FoldName(metric.fold)}};
  if (total > 0) {
    output.text += "Next: `rank` with the other tools asks for one of them alone.\n";
  }
  return output;
}

}  // namespace mpnanny::query_stats
