#include "tools/query_stats/report.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/runs/page.h"
#include "engines/runs/schema.h"
#include "engines/runs/show.h"
#include "tools/query_stats/reading.h"
#include "tools/query_stats/series_text.h"
#include "tools/query_stats/why_nothing.h"

namespace mpnanny::query_stats {
namespace {

using runs::Number;

constexpr size_t kReservedBytes = 1900;
constexpr size_t kSeriesAPage = 10;  // of 8,000 bytes
constexpr size_t kCloserSeries = 16;
constexpr size_t kSparkWidth = 48;
constexpr size_t kSeriesNamed = 3;

std::string CursorOf(const SeriesKey& key) {
  return std::to_string(key.group) + "." + std::to_string(key.kind) + "." +
         std::to_string(key.slot);
}

// The place after the series that the cursor names.
Result<size_t> PlaceAfter(const Answer& answer, const std::string& cursor) {
  if (cursor.empty()) return size_t{0};
  for (size_t i = 0; i < answer.series.size(); ++i) {
    if (CursorOf(answer.series[i].key) == cursor) return i + 1;
  }
  return InvalidInput("cursor '" + EscapeControl(cursor, 60) + "' is not one of this question.",
                      "Give next_cursor of the answer before, with the same arguments.");
}

class Writer {
 public:
  Writer(const runs::Source& source, const Question& question, Answer& answer,
         const ReportOptions& options)
      : source_(source), question_(question), answer_(answer), options_(options), layers_(source) {}

  Result<ToolOutput> Write() {
    const size_t found = answer_.series.size();
    LeaveOutZeros();
    SetNothingFiniteAside();
    MPN_TRY_ASSIGN(auto first, PlaceAfter(answer_, options_.cursor));
    const size_t total = question_.top
                             ? std::min(answer_.series.size(), static_cast<size_t>(*question_.top))
                             : answer_.series.size();
    const size_t begin = std::min(first, total);
    const size_t most = options_.bytes >= SIZE_MAX / 2
                            ? total
                            : std::max<size_t>(1, kSeriesAPage * options_.bytes / kAnswerBytes);
    const size_t end = std::min(total, begin + most);
    MPN_TRY(ReadCloser(begin, end));

    runs::Page page(options_.bytes, kReservedBytes);
    size_t shown = begin;
    for (; shown < end; ++shown) {
      MPN_TRY_ASSIGN(auto row, Row(answer_.series[shown], end - begin));
      if (!page.Add(std::move(row.first), row.second)) break;
      omitted_ += row_omitted_;
    }
    return Finish(page, begin, shown, total, found);
  }

 private:
  bool of_step() const { return question_.metric->of_step != nullptr; }
  bool ByLayer() const {
    return !of_step() &&
           (question_.grouping == Grouping::kLayer || question_.grouping == Grouping::kSlot);
  }

  // Layers that were only seen in a few whole samples.
  Result<void> ReadCloser(size_t begin, size_t end) {
    if (!question_.metric->of_tensor || !ByLayer() || answer_.steps.all || answer_.out_of_time ||
        end - begin > kCloserSeries) {
      return {};
    }
    std::vector<size_t> places;
    for (size_t i = begin; i < end; ++i) {
      if (answer_.series[i].looked_at < 2 * answer_.steps.looked_at) places.push_back(i);
    }
    if (places.empty() || end - begin < places.size()) return {};
    return LookCloser(source_, question_, places, answer_);
  }

  Result<std::string> NameOf(int64_t layer_id) {
    MPN_TRY_ASSIGN(auto layer, layers_.Find(layer_id));
    return runs::Name(layer.name);
  }

  Json PointJson(const Point& point) const {
    return Json::array({point.step, JsonNumber(point.value)});
  }

  // One series in both forms; `shown`: how many share the page.
  Result<std::pair<Json, std::string>> Row(const Series& series, size_t shown) {
    const SeriesKey& key = series.key;
    std::string name;
    if (!of_step() && ByLayer()) {
      MPN_TRY_ASSIGN(auto found, NameOf(key.group));
      name = found;
    } else if (!of_step() && question_.grouping == Grouping::kBlock) {
      name = runs::Name(answer_.blocks.names[static_cast<size_t>(key.group)]);
    }
    const std::string kind = of_step()                       ? "step"
                             : !question_.metric->of_profile ? runs::KindName(key.kind)
                             : key.kind == runs::kActivation ? "forward"
                                                             : "backward";
    Json json = {{"layer", name.empty() ? Json(nullptr) : Json(name)}, {"kind", kind}};
    std::string line = (!name.empty() ? LayerWord(name)
                        : of_step()   ? std::string(question_.metric->name)
                                      : "all layers") +
                       (of_step() ? "" : " " + kind);
    if (key.slot >= 0) {
      json["slot"] = key.slot;
      line += " slot " + std::to_string(key.slot);
      if (key.kind == runs::kOptimizerState) {
        const std::string state = StateName(key.slot);
        json["state"] = state;
        line += " (" + state + ")";
      }
    }
    const std::vector<Point> points = Thinned(series.points, PointsAFor(shown));
    json["points"] = Json::array();
    for (const Point& point : points) json["points"].push_back(PointJson(point));
    const int64_t recorded =
        answer_.steps.all ? series.looked_at : std::max(series.looked_at, answer_.steps.sampled);
    row_omitted_ = recorded - static_cast<int64_t>(points.size());
    json["looked_at"] = series.looked_at;
    if (points.size() > 1) line += "  " + runs::Sparkline(SparkCells(series.points, kSparkWidth));
    MPN_TRY(AddFacts(series, json, line));
    return std::pair(std::move(json), line + "\n " + PointsText(points));
  }

  Result<void> AddFacts(const Series& series, Json& json, std::string& line) {
    if (series.worst) {
      const Point& worst = *series.worst;
      const char* word = question_.metric->worse == Worse::kNone ? "largest" : "worst";
      json[word] = {{"step", worst.step}, {"value", JsonNumber(worst.value)}};
      line += "  " + ExtremeText(*question_.metric, series);
      const bool joined =
          question_.grouping == Grouping::kBlock || question_.grouping == Grouping::kStep;
      if (joined && !of_step() && worst.layer_id >= 0) {
        MPN_TRY_ASSIGN(auto layer, NameOf(worst.layer_id));
        json[word]["layer"] = layer;
        line += ", in " + LayerWord(layer);
      }
    }
    if (question_.order == Order::kGrowth) {
      const auto growth = Growth(series.points);
      json["growth"] = JsonNumber(growth);
      line += growth ? ", grows by " + Number(*growth, 4) : ", growth not known";
    }
    if (series.nonfinite > 0) {
      json["nonfinite"] = {{"samples", series.nonfinite},
                           {"first_step", *series.first_nonfinite},
                           {"last_step", *series.last_nonfinite}};
      line += "; NOT FINITE at " + std::to_string(series.nonfinite) + " of " +
              std::to_string(series.looked_at) + " points, steps " +
              std::to_string(*series.first_nonfinite) + " to " +
              std::to_string(*series.last_nonfinite);
    }
    if (options_.all_figures && ByLayer() && series.points.size() == 1) {
      return AddFigures(series, json, line);
    }
    return {};
  }

  // The other figures of the tensor, where one step is asked about and no metric named.
  Result<void> AddFigures(const Series& series, Json& json, std::string& line) {
    if (!figures_) {
      auto reader = runs::SampleReader::Create(source_);
      if (!reader) return reader.error();
      figures_.emplace(*std::move(reader));
    }
    MPN_TRY_ASSIGN(auto rows, figures_->Layer(series.points[0].step, series.key.group));
    for (const runs::TensorRow& row : *rows) {
      if (row.kind != series.key.kind || (series.key.slot >= 0 && row.slot != series.key.slot)) {
        continue;
      }
      if (row.absmax != series.worst.value_or(Point()).value && row.NonFinite() == 0) continue;
      Json figures = Json::object();
      for (const char* name : {"absmin", "rms", "mean", "nonfinite_share", "zeros_share",
                               "below_fp16_share", "above_fp16_share"}) {
        const auto value = FindMetric(name)->metric->of_tensor(row);
        if (!value) continue;
        figures[name] = JsonNumber(*value, 4);
        line += std::string(figures.size() == 1 ? "; " : ", ") + name + " " + Number(*value, 4);
      }
      json["figures"] = std::move(figures);
      return {};
    }
    return {};
  }

  size_t PointsAFor(size_t shown) const {
    if (options_.max_points) return static_cast<size_t>(*options_.max_points);
    if (options_.bytes >= SIZE_MAX / 2) return shown <= 4 ? 200 : 24;
    return std::clamp<size_t>(240 * options_.bytes / kAnswerBytes / std::max<size_t>(1, shown), 16,
                              1'000);
  }

  std::string StateName(int64_t slot) {
    const auto name = runs::StateName(source_, slot);
    return name ? EscapeControl(*name, 40) : "not known";
  }

  // Where nobody named layers, tensors that have nothing of what is counted stand for nothing
  // behind those that have some.
  void LeaveOutZeros() {
    const Metric& metric = *question_.metric;
    if (!question_.top_unasked || of_step() || question_.order != Order::kWorst ||
        (metric.unit != "share" && metric.unit != "count")) {
      return;
    }
    const auto is_zero = [](const Series& series) {
      return series.worst && series.worst->value == 0 && series.nonfinite == 0;
    };
    const auto zeros = std::count_if(answer_.series.begin(), answer_.series.end(), is_zero);
    if (zeros == 0 || zeros == static_cast<int64_t>(answer_.series.size())) return;
    std::erase_if(answer_.series, is_zero);
    nothing_of_it_ = runs::Count(zeros, "tensor has", "tensors have") + " 0 throughout and " +
                     (zeros == 1 ? "is" : "are") + " left out; `layers` shows them.";
  }

  // Series without any finite figure have no place in an order of values: they come last, and are
  // not among the first so many.
  void SetNothingFiniteAside() {
    if (of_step() || question_.order == Order::kModel) return;
    std::vector<std::string> named;
    int64_t count = 0;
    for (const Series& series : answer_.series) {
      if (series.worst) continue;
      ++count;
      if (named.size() == kSeriesNamed || !ByLayer()) continue;
      if (auto layer = NameOf(series.key.group); layer) {
        named.push_back(LayerWord(*layer) + " " + runs::KindName(series.key.kind));
      }
    }
    if (count == 0) return;
    const bool left_out = question_.top && !question_.top_unasked &&
                          count < static_cast<int64_t>(answer_.series.size());
    if (left_out) std::erase_if(answer_.series, [](const Series& each) { return !each.worst; });
    const int64_t more = count - static_cast<int64_t>(named.size());
    std::string names = Join(named, ", ");
    if (!named.empty() && more > 0) names += " and " + std::to_string(more) + " more";
    nothing_finite_ = runs::Count(count, "tensor is", "tensors are") +
                      (left_out ? " left out" : " last in the order") + ": nothing in " +
                      (count == 1 ? "it" : "them") + " was finite at the steps looked at" +
                      (names.empty() ? "" : " (" + names + ")") +
                      ". metric \"nonfinite_share\" shows what is not finite.";
  }

  std::vector<std::string> Notes(size_t shown) const {
    std::vector<std::string> notes = options_.notes;
    if (question_.top_unasked && static_cast<int64_t>(answer_.series.size()) > *question_.top) {
      notes.insert(notes.begin(), "The first " + std::to_string(*question_.top) + " of " +
                                      runs::Count(static_cast<int64_t>(answer_.series.size()),
                                                  "series", "series") +
                                      "; `top` asks for more, `layers` for others.");
    }
    if (!nothing_of_it_.empty()) notes.insert(notes.begin(), nothing_of_it_);
    if (!nothing_finite_.empty()) notes.insert(notes.begin(), nothing_finite_);
    if (answer_.out_of_time) {
      notes.push_back(
          "Stopped at the time limit: these are the points read until then. Ask for "
          "fewer steps or layers.");
    }
    if (!answer_.steps.all && shown > 0) {
      notes.push_back(
          "Not every step was looked at (" + std::to_string(answer_.steps.looked_at) +
          " of about " + std::to_string(answer_.steps.sampled) +
          (ByLayer() ? " samples; more for the series shown" : "") +
          "; spread over the range, next to alerts and around the extremes): a narrower `steps`, " +
          "or detail \"full\", looks at all.");
    }
    notes.insert(notes.end(), source_.notes.begin(), source_.notes.end());
    return notes;
  }

  const char* GroupingName() const {
    switch (question_.grouping) {
      case Grouping::kSlot:
        return "slot";
      case Grouping::kLayer:
        return "layer";
      case Grouping::kBlock:
        return "block";
      case Grouping::kStep:
        return "step";
      case Grouping::kRanks:
        return "ranks";
    }
    return "layer";
  }

  ToolOutput Finish(runs::Page& page, size_t begin, size_t shown, size_t total, size_t found) {
    const Metric& metric = *question_.metric;
    const std::string handle = runs::ShownHandle(source_);
    const std::string meaning = MeaningOf(source_, metric);
    const std::vector<std::string> notes = Notes(page.size());
    ToolOutput output;
    output.text = handle + ": " + std::string(metric.name) + " (" + std::string(metric.unit) +
                  ": " + meaning + ")";
    if (total > 0) {
      output.text += ", " + runs::Count(static_cast<int64_t>(total), "series", "series");
      if (total < found) output.text += " of " + std::to_string(found);
      if (begin > 0) output.text += " (" + std::to_string(begin) + " on earlier pages)";
    }
    output.text += RangeText(question_, answer_) + ".\n" + page.text();
    if (found == 0) output.text += WhyNothing(question_, answer_) + "\n";
    for (const std::string& note : notes) output.text += "Note: " + note + "\n";
    if (omitted_ > 0) {
      output.text +=
          std::to_string(omitted_) + " recorded points of these series are left out " +
          (answer_.steps.all ? "(extremes and non-finite stretches are kept).\n" : ".\n");
    }
    output.structured = {{"metric", metric.name},
                         {"unit", metric.unit},
                         {"series", page.TakeRows()},
                         {"omitted", omitted_},
                         {"total", total},
                         {"run", handle},
                         {"meaning", meaning},
                         {"aggregate", GroupingName()},
                         {"steps", StepsJson()},
                         {"notes", notes}};
    if (question_.grouping != Grouping::kSlot && !of_step()) {
      output.structured["fold"] = FoldName(metric.fold);
    }
    if (shown < total) {
      const std::string cursor = CursorOf(answer_.series[shown - 1].key);
      output.structured["next_cursor"] = cursor;
      output.text += std::to_string(total - shown) +
                     " more series: call query_stats with cursor \"" + cursor + "\".\n";
    }
    if (total > 0 && metric.of_tensor) {
      output.text +=
          "Next: metric \"distribution\" with one layer and step shows the exponents "
          "against each format's limits.\n";
    } else if (total > 0 && metric.of_profile) {
      output.text += "Next: metric \"findings\" tells what shadow steps found, with its lines.\n";
    } else if (total > 0) {
      output.text += "Next: query_alerts tells what was wrong at a step.\n";
    }
    return output;
  }

  Json StepsJson() const {
    const auto& steps = answer_.steps.steps;
    return {{"looked_at", answer_.steps.looked_at},
            {"recorded", answer_.steps.sampled},
            {"all", answer_.steps.all && !answer_.out_of_time},
            {"first", steps.empty() ? Json(nullptr) : Json(steps.front())},
            {"last", steps.empty() ? Json(nullptr) : Json(steps.back())}};
  }

  const runs::Source& source_;
  const Question& question_;
  Answer& answer_;
  const ReportOptions& options_;
  runs::Layers layers_;
  std::optional<runs::SampleReader> figures_;
  int64_t omitted_ = 0, row_omitted_ = 0;
  std::string nothing_finite_, nothing_of_it_;  // notes; "" without such series
};

}  // namespace

Result<ToolOutput> Report(const runs::Source& source, const Question& question, Answer& answer,
                          const ReportOptions& options) {
  return Writer(source, question, answer, options).Write();
}

std::string MeaningOf(const runs::Source& source, const Metric& metric) {
  std::string own(metric.meaning);
  if (metric.column.empty()) return own;
  auto row = source.database->Prepare("SELECT text FROM meaning WHERE what='column' AND value=?1");
  if (!row) return own;
  const std::string table = metric.of_step      ? "step."
                            : metric.of_profile ? "shadow_profile."
                                                : "tensor_stats.";
  row->Bind(1, table + std::string(metric.column));
  auto next = row->Next();
  if (!next || !*next) return own;
  const std::string text = EscapeControl(row->TextOr(0), 200);
  return text.empty() ? own : text;
}

}  // namespace mpnanny::query_stats
