#include "tools/query_stats/distribution_report.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/runs/page.h"
#include "engines/runs/show.h"
#include "tools/query_stats/distribution.h"

namespace mpnanny::query_stats {
namespace {

using runs::Number;
using runs::TensorRow;

constexpr size_t kDistributionReserve = 1500;
constexpr size_t kLayersOneByOne = 16;
constexpr size_t kSamplesTried = 256;  // dense samples between two full ones have no exponents
constexpr size_t kMostPlots = 200;
constexpr size_t kTensorsLookedAt = 8;  // to choose a sample

constexpr char kHowToRecord[] =
    "Exponents are recorded with periodic samples, at most every 25 steps, if the run stores them: "
    "MixedPrecisionNanny(model, metrics=None) stores all figures, a list must name \"exponents\"; "
    "on CUDA devices and in dense samples after an ERROR there are none.";

std::string RowCursor(const TensorRow& row) {
  return std::to_string(row.layer_id) + "." + std::to_string(row.kind) + "." +
         std::to_string(row.slot);
}

// Whether any element was finite. A tensor without elements holds nothing that is not.
bool AnythingFinite(const Distribution& d) { return d.total == 0 || d.nonfinite < d.total; }

struct ChosenSample {
  std::optional<int64_t> step;
  // A newer sample that was passed over: of one of the tensors nothing is finite there.
  std::optional<int64_t> nothing_finite;
};

class DistributionReading {
 public:
  DistributionReading(const runs::Source& source, const Question& question,
                      runs::SampleReader& reader)
      : source_(source), question_(question), reader_(reader) {}

  // The tensors asked about at a step, by (layer, kind, slot).
  Result<std::vector<TensorRow>> Rows(int64_t step) {
    std::vector<TensorRow> found;
    const auto take = [&](const std::vector<TensorRow>& rows) {
      for (const TensorRow& row : rows) {
        if (question_.Asks(row.kind) && question_.layers.Holds(row.layer_id)) found.push_back(row);
      }
    };
    if (question_.layers.ids.size() > kLayersOneByOne) {
      MPN_TRY_ASSIGN(auto rows, reader_.Sample(step));
      take(*rows);
      return found;
    }
    for (const int64_t layer : question_.layers.ids) {
      MPN_TRY_ASSIGN(auto rows, reader_.Layer(step, layer));
      take(*rows);
    }
    return found;
  }

  // The newest step of the range with exponents of one of them, and finite values in all that have
  // some; else the newest with exponents at all. Of a single step that has none the nearest one
  // before it, else after it.
  Result<ChosenSample> Step() {
    const bool single = question_.steps.first == question_.steps.last;
    const int64_t first = single ? std::numeric_limits<int64_t>::min() : question_.steps.first;
    ChosenSample chosen;
    size_t tried = 0;
    for (int64_t last = question_.steps.last; tried < kSamplesTried;) {
      MPN_TRY_ASSIGN(auto steps,
                     runs::LastSampledSteps(source_, {first, last}, tried == 0 ? 1 : 16));
      if (steps.empty()) break;
      for (auto step = steps.rbegin(); step != steps.rend(); ++step, ++tried) {
        MPN_TRY_ASSIGN(auto holds, Look(*step));
        if (holds == Holds::kNone) continue;
        const bool finite = holds == Holds::kFinite;
        if (finite || !chosen.step) {
          if (chosen.step) chosen.nothing_finite = chosen.step;
          chosen.step = *step;
        }
        // Who asks about one step is shown what it holds.
        if (finite || *step == question_.steps.first) return chosen;
      }
      if (steps.front() <= first) break;
      last = steps.front() - 1;
    }
    if (chosen.step || !single || question_.steps.last == INT64_MAX) return chosen;
    int64_t from = question_.steps.last + 1;
    for (tried = 0; tried < kSamplesTried; ++tried) {
      MPN_TRY_ASSIGN(auto step, reader_.StepFrom(from));
      if (!step) break;
      MPN_TRY_ASSIGN(auto holds, Look(*step));
      if (holds != Holds::kNone) {
        chosen.step = *step;
        break;
      }
      from = *step + 1;
    }
    return chosen;
  }

 private:
  enum class Holds { kNone, kNothingFinite, kFinite };

  // What the exponents of the first few tensors at a step hold.
  Result<Holds> Look(int64_t step) {
    MPN_TRY_ASSIGN(auto rows, Rows(step));
    if (rows.size() > kTensorsLookedAt) rows.resize(kTensorsLookedAt);
    Holds holds = Holds::kNone;
    for (const TensorRow& row : rows) {
      auto exponents = runs::ReadExponents(source_, row);
      // Damaged ones are there: the page says what is wrong with them.
      if (!exponents) {
        if (exponents.error().kind == ErrorKind::kDataCorrupt) return Holds::kFinite;
        return exponents.error();
      }
      if (!*exponents) continue;
      if (!AnythingFinite(MakeDistribution(row, **exponents, {}))) return Holds::kNothingFinite;
      holds = Holds::kFinite;
    }
    return holds;
  }

  const runs::Source& source_;
  const Question& question_;
  runs::SampleReader& reader_;
};

std::string Percent(double share) { return Number(100 * share, 3) + "%"; }

// "65536" or "2^40" of 2^shift times what the values were held under.
Json ScaleJson(const Distribution& d, int shift) {
  return JsonNumber(std::ldexp(d.held_factor.value_or(1), shift));
}

Json FitJson(const Distribution& d, const FormatFit& fit) {
  Json json = {{"format", Info(fit.format).name},
               {"under", JsonNumber(fit.under, 4)},
               {"subnormal", JsonNumber(fit.subnormal, 4)},
               {"over", JsonNumber(fit.over, 4)}};
  if (fit.over_at_most > fit.over) json["over_at_most"] = JsonNumber(fit.over_at_most, 4);
  if (fit.best_shift) {
    json["best_scale"] = ScaleJson(d, *fit.best_shift);
    json["under_at_best"] = JsonNumber(fit.under_at_best, 4);
  }
  return json;
}

std::string FitText(const Distribution& d, const FormatFit& fit) {
  std::string line = "  " + std::string(Info(fit.format).name) + ": " + Percent(fit.under) +
                     " become 0, " + Percent(fit.subnormal) + " subnormal, " + Percent(fit.over);
  if (fit.over_at_most > fit.over) line += " to " + Percent(fit.over_at_most);
  line += " overflow";
  if (fit.best_shift) {
    line += "; best scale " + Number(std::ldexp(d.held_factor.value_or(1), *fit.best_shift), 6) +
            " (" + Percent(fit.under_at_best) + " become 0)";
  }
  return line + "\n";
}

std::string HeldText(const Distribution& d) {
  const bool gradient = d.row.kind == runs::kGradient || d.row.kind == runs::kActivationGradient;
  if (!gradient) return "";
  if (!d.held_factor) return ", as they were held, under a scale that is not known";
  if (*d.held_factor == 1) return ", unscaled";
  return ", as they were held under the loss scale " + Number(*d.held_factor, 6);
}

Json SeriesJson(const std::string& layer, const Distribution& d) {
  Json bins = Json::array();
  for (int e = -126; e <= 127; ++e) {
    if (const int64_t count = CountAt(d, e); count > 0) bins.push_back(Json::array({e, count}));
  }
  Json formats = Json::array();
  if (AnythingFinite(d)) {
    for (const FormatFit& fit : FitFormats(d)) formats.push_back(FitJson(d, fit));
  }
  return {{"layer", layer},
          {"kind", runs::KindName(d.row.kind)},
          {"slot", d.row.slot},
          {"points", Json::array()},
          {"distribution",
           {{"step", d.row.step},
            {"numel", d.total},
            {"zeros", d.zeros},
            {"nonfinite", d.nonfinite},
            {"fp32_subnormal", d.tiny},
            {"held_under", d.held_factor ? JsonNumber(*d.held_factor) : Json(nullptr)},
            {"bins", std::move(bins)},
            {"formats", std::move(formats)}}}};
}

std::string SeriesText(const std::string& layer, const Distribution& d) {
  std::string text = LayerWord(layer) + " " + runs::KindName(d.row.kind) +
                     (d.row.slot != 0 ? " slot " + std::to_string(d.row.slot) : "") + " at step " +
                     std::to_string(d.row.step) + ": ";
  if (!AnythingFinite(d)) {
    return text + "all " + std::to_string(d.total) +
           " elements are NaN or infinite, so there is nothing to fit into a format.\n";
  }
  text += "magnitudes of " + std::to_string(d.total) + " elements by power of two" + HeldText(d) +
          ". " + std::to_string(d.zeros) + " are 0, " + std::to_string(d.nonfinite) +
          " not finite" + (d.tiny > 0 ? ", " + std::to_string(d.tiny) + " FP32 subnormals" : "") +
          ".\n" + Plot(d);
  for (const FormatFit& fit : FitFormats(d)) text += FitText(d, fit);
  return text;
}

Result<size_t> RowAfter(const std::vector<TensorRow>& rows, const std::string& cursor) {
  if (cursor.empty()) return size_t{0};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (RowCursor(rows[i]) == cursor) return i + 1;
  }
  return InvalidInput("cursor '" + EscapeControl(cursor, 60) + "' is not one of this question.",
                      "Give next_cursor of the answer before, with the same arguments.");
}

}  // namespace

Result<ToolOutput> ReportDistribution(const runs::Source& source, const Question& question,
                                      const ReportOptions& options) {
  if (question.layers.all) {
    return InvalidInput("A distribution is of a few tensors: `layers` is missing.",
                        "metric \"absmax\" or \"below_fp16_share\" with top 5 tells which layers "
                        "are worth a look.");
  }
  MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source));
  DistributionReading reading(source, question, reader);
  MPN_TRY_ASSIGN(auto chosen, reading.Step());
  const std::optional<int64_t> step = chosen.step;
  const std::string handle = runs::ShownHandle(source);

  std::vector<std::string> notes = options.notes;
  std::vector<TensorRow> rows;
  std::optional<double> loss_scale;
  if (step) {
    auto found = reading.Rows(*step);
    if (!found) return found.error();
    rows = *std::move(found);
    MPN_TRY_ASSIGN(auto row, runs::ReadStep(source, *step));
    if (row) loss_scale = row->loss_scale;
    const bool single = question.steps.first == question.steps.last;
    if (single && *step != question.steps.first) {
      notes.push_back("Step " + std::to_string(question.steps.first) +
                      " has no exponents of these tensors; this is the nearest step that has.");
    }
    if (chosen.nothing_finite) {
      notes.push_back("Step " + std::to_string(*step) +
                      " is the last sample with exponents and finite values in each of these "
                      "tensors. At step " +
                      std::to_string(*chosen.nothing_finite) +
                      " one of them held nothing but NaN or Inf; `steps` shows it.");
    }
  }
  MPN_TRY_ASSIGN(auto begin, RowAfter(rows, options.cursor));

  runs::Page page(options.bytes, kDistributionReserve);
  runs::Layers layers(source);
  size_t shown = begin, without = 0;
  for (; shown < rows.size() && page.size() < kMostPlots; ++shown) {
    auto exponents = runs::ReadExponents(source, rows[shown]);
    if (!exponents) {
      if (exponents.error().kind != ErrorKind::kDataCorrupt) return exponents.error();
      notes.push_back(exponents.error().message);
      continue;
    }
    if (!*exponents) {
      ++without;
      continue;
    }
    MPN_TRY_ASSIGN(auto layer, layers.Find(rows[shown].layer_id));
    const Distribution d = MakeDistribution(rows[shown], **exponents, loss_scale);
    const std::string name = runs::Name(layer.name);
    if (!page.Add(SeriesJson(name, d), SeriesText(name, d))) break;
  }
  if (!step) {
    notes.push_back("No exponents of these layers and kinds were recorded in this range.");
  } else if (without > 0) {
    notes.push_back(std::to_string(without) + " of these tensors have no exponents at step " +
                    std::to_string(*step) + ".");
  }
  if (!step || without > 0) notes.emplace_back(kHowToRecord);
  if (notes.size() > 8) notes.resize(8);
  notes.insert(notes.end(), source.notes.begin(), source.notes.end());

  ToolOutput output;
  output.text = handle + ": distribution of exponents.\n" + page.text();
  output.structured = {
      {"metric", "distribution"},
      {"unit", "count"},
      {"series", page.TakeRows()},
      {"omitted", 0},
      {"total", rows.size()},
      {"run", handle},
      {"meaning", "elements by the exponent e of their magnitude: 2^e <= |x| < 2^(e+1)"},
      {"aggregate", "slot"},
      {"steps",
       {{"looked_at", step ? 1 : 0},
        {"recorded", step ? 1 : 0},
        {"all", true},
        {"first", step ? Json(*step) : Json(nullptr)},
        {"last", step ? Json(*step) : Json(nullptr)}}},
      {"notes", notes}};
  for (const std::string& note : notes) output.text += "Note: " + note + "\n";
  if (shown < rows.size() && shown > begin) {
    const std::string cursor = RowCursor(rows[shown - 1]);
    output.structured["next_cursor"] = cursor;
    output.text += std::to_string(rows.size() - shown) +
                   " more tensors: call query_stats with cursor \"" + cursor + "\".\n";
  }
  output.text +=
      "Next: metric \"below_fp16_share\" or \"absmax\" shows how it came over the "
      "steps.\n";
  return output;
}

}  // namespace mpnanny::query_stats
