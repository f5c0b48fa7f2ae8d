#include "tools/analyze_tensor/report.h"

#include <cmath>

#include "base/text.h"
#include "engines/runs/schema.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::analyze_tensor {
namespace {

using runs::Number;
using runs::PercentText;

constexpr size_t kNotesShown = 5;

double Share(int64_t count, const FormatLoss& loss) {
  return loss.numel > 0 ? static_cast<double>(count) / static_cast<double>(loss.numel) : 0;
}

Json LossJson(const FormatLoss& loss) {
  return {{"underflow", JsonNumber(Share(loss.underflow, loss), 12)},
          {"subnormal", JsonNumber(Share(loss.subnormal, loss), 12)},
          {"overflow", JsonNumber(Share(loss.overflow, loss), 12)},
          {"saturated", JsonNumber(Share(loss.saturated, loss), 12)},
          {"distortion_share", JsonNumber(Share(loss.distorted, loss), 12)},
          {"rel_error",
           {{"mean", JsonNumber(loss.mean_error, 9)},
            {"p99", JsonNumber(loss.p99_error, 9)},
            {"max", JsonNumber(loss.max_error, 9)}}},
          {"sqnr_db", JsonNumber(loss.sqnr_db, 9)}};
}

Json StatsJson(const TensorStats& stats) {
  const bool known = stats.finite > 0;
  const auto figure = [&](double value) { return known ? JsonNumber(value, 9) : Json(); };
  return {{"nan", stats.nan},
          {"posinf", stats.posinf},
          {"neginf", stats.neginf},
          {"zeros", stats.zeros},
          {"min", figure(stats.min)},
          {"max", figure(stats.max)},
          {"absmax", figure(stats.absmax)},
          {"absmin", figure(stats.absmin)},
          {"mean", figure(stats.mean)},
          {"std", figure(stats.std())},
          {"rms", figure(stats.rms())},
          {"l2", figure(stats.l2())},
          {"grid", GridName(GridOf(stats))},
          {"dynamic_range", figure(stats.absmin > 0 ? stats.absmax / stats.absmin : 1)}};
}

std::string PercentOr(double value) {
  return std::isfinite(value) ? PercentText(value) : std::isnan(value) ? "-" : "inf";
}

std::string FormatLine(const InFormat& in) {
  const FormatLoss& loss = in.plain;
  std::string text = "  " + std::string(Info(in.format).name) + ": to 0 " +
                     PercentText(Share(loss.underflow, loss)) + ", subnormal " +
                     PercentText(Share(loss.subnormal, loss)) + ", overflow " +
                     PercentText(Share(loss.overflow, loss)) + ", error mean " +
                     PercentOr(loss.mean_error) + " p99 " + PercentOr(loss.p99_error) + " max " +
                     PercentOr(loss.max_error);
  if (std::isfinite(loss.sqnr_db)) text += ", SQNR " + Number(loss.sqnr_db, 4) + " dB";
  text += "; times 2^" + std::to_string(in.best_scale) + ": to 0 " +
          PercentText(Share(in.scaled.underflow, in.scaled)) + ", p99 " +
          PercentOr(in.scaled.p99_error);
  return text + "\n";
}

std::string DimensionLine(const DimensionLoss& dim) {
  return "  dimension " + std::to_string(dim.dim) + " (" + std::to_string(dim.size) +
         "): imbalance " + Number(dim.imbalance, 4) + ", absorbed " + PercentText(dim.absorbed) +
         ", error of sum " + PercentOr(dim.sum_error) + ", mean " + PercentOr(dim.mean_error) +
         ", norm " + PercentOr(dim.norm_error) + "\n";
}

// What is worst about a row, in a few words.
std::string WorstOf(const Ranked& row) {
  if (!row.problem.empty()) return "not read: " + EscapeControl(row.problem, 200);
  if (row.nonfinite > 0) return std::to_string(row.nonfinite) + " not finite";
  if (row.overflow > 0) return PercentText(row.overflow) + " overflow";
  if (row.underflow > 0) return PercentText(row.underflow) + " become 0";
  if (row.subnormal > 0) return PercentText(row.subnormal) + " subnormal";
  return "rounding only";
}

}  // namespace

std::string ShapeText(const tensor_files::Entry& entry) {
  std::string text = entry.type == nullptr ? "?" : std::string(entry.type->name);
  text += "[";
  for (size_t at = 0; at < entry.shape.size(); ++at) {
    text += (at == 0 ? "" : ", ") + std::to_string(entry.shape[at]);
  }
  return text + "]";
}

Json OneJson(const tensor_files::Entry& entry, const Analysis& analysis, const Advice& advice,
             const std::vector<std::string>& cases, const std::vector<std::string>& notes) {
  Json formats = Json::array();
  for (const InFormat& in : analysis.formats) {
    Json row = LossJson(in.plain);
    row["format"] = Info(in.format).name;
    row["best_scale"] = JsonNumber(std::ldexp(1.0, in.best_scale), 17);
    row["scaled"] = LossJson(in.scaled);
    formats.push_back(std::move(row));
  }
  Json dims = Json::array();
  for (const DimensionLoss& dim : analysis.dims) {
    dims.push_back({{"dim", dim.dim},
                    {"size", dim.size},
                    {"imbalance", JsonNumber(dim.imbalance, 9)},
                    {"absorbed", JsonNumber(dim.absorbed, 9)},
                    {"reduce_error",
                     {{"sum", JsonNumber(dim.sum_error, 9)},
                      {"mean", JsonNumber(dim.mean_error, 9)},
                      {"norm", JsonNumber(dim.norm_error, 9)}}}});
  }
  Json escaped = Json::array();
  for (size_t at = 0; at < std::min(notes.size(), kNotesShown); ++at) {
    escaped.push_back(EscapeControl(notes[at], 300));
  }
  return {{"tensor",
           {{"key", EscapeControl(entry.key, 500)},
            {"shape", entry.shape},
            {"dtype", entry.type == nullptr ? "" : std::string(entry.type->name)},
            {"numel", analysis.stats.numel}}},
          {"stats", StatsJson(analysis.stats)},
          {"formats", std::move(formats)},
          {"dims", std::move(dims)},
          {"reduced_in", Info(analysis.reduced_in).name},
          {"advice", advice.sentences},
          {"cases", cases},
          {"notes", std::move(escaped)}};
}

std::string OneText(const tensor_files::Entry& entry, const Analysis& analysis,
                    const Advice& advice, const std::vector<std::string>& cases,
                    const std::vector<std::string>& notes) {
  std::string text = EscapeControl(entry.key, 300) + " " + ShapeText(entry) + "\n";
  for (const std::string& sentence : advice.sentences) text += sentence + "\n";
  const TensorStats& stats = analysis.stats;
  if (stats.finite > 0) {
    text += "Magnitudes from " + Number(stats.absmin, 4) + " to " + Number(stats.absmax, 4) +
            ", mean " + Number(stats.mean, 4) + ", std " + Number(stats.std(), 4) + ", zeros " +
            std::to_string(stats.zeros) + " of " + std::to_string(stats.numel) + ".\n";
  }
  text += "Shares of all elements, relative errors of those that fit:\n";
  for (const InFormat& in : analysis.formats) text += FormatLine(in);
  if (!analysis.dims.empty()) {
    text += "Reduced one element after the other in " +
            std::string(Info(analysis.reduced_in).name) + ", against double:\n";
    for (const DimensionLoss& dim : analysis.dims) text += DimensionLine(dim);
  }
  if (!cases.empty()) text += "Cases: " + Join(cases, ", ") + "\n";
  for (size_t at = 0; at < std::min(notes.size(), kNotesShown); ++at) {
    text += "Note: " + EscapeControl(notes[at], 300) + "\n";
  }
  return text;
}

FileReport ReportFile(const tensor_files::TensorFile& file, const std::vector<Ranked>& ranked,
                      Format target, size_t first, size_t bytes) {
  constexpr size_t kAround = 1500;  // of the answer, beside its rows
  runs::Page page(bytes, kAround);
  for (size_t at = first; at < ranked.size(); ++at) {
    const Ranked& row = ranked[at];
    const tensor_files::Entry& entry = file.entries()[row.entry];
    const std::string worst = WorstOf(row);
    Json json = {{"key", EscapeControl(entry.key, 300)},
                 {"shape", entry.shape},
                 {"dtype", entry.type == nullptr ? "" : std::string(entry.type->name)},
                 {"worst", worst}};
    if (row.problem.empty()) {
      json["overflow"] = JsonNumber(row.overflow);
      json["underflow"] = JsonNumber(row.underflow);
      json["absmax"] = JsonNumber(row.absmax);
      if (row.grid == Grid::kBf16 || row.grid == Grid::kFp16) json["grid"] = GridName(row.grid);
    }
    if (!page.Add(std::move(json),
                  EscapeControl(entry.key, 200) + "  " + ShapeText(entry) + "  " + worst)) {
      break;
    }
  }
  const size_t end = first + page.size();
  FileReport report;
  report.text = std::to_string(ranked.size()) + " tensors (" + file.format() + "), the worst in " +
                std::string(Info(target).name) + " first:\n" + page.text();
  if (end < ranked.size()) {
    report.text += "… " + std::to_string(ranked.size() - end) + " more: cursor \"" +
                   std::to_string(end) + "\".\n";
  }
  const std::vector<std::string> advice = GridAdvice(ranked);
  for (const std::string& sentence : advice) report.text += sentence + "\n";
  report.text += "Give `key` for one tensor in all formats.\n";
  Json notes = Json::array();
  for (size_t at = 0; at < std::min(file.notes().size(), kNotesShown); ++at) {
    const std::string note = EscapeControl(file.notes()[at], 200);
    notes.push_back(note);
    report.text += "Note: " + note + "\n";
  }
  report.structured = {{"tensors", page.TakeRows()}, {"total", ranked.size()},
                       {"format", file.format()},    {"target", Info(target).name},
                       {"advice", advice},           {"notes", std::move(notes)}};
  if (end < ranked.size()) report.structured["next_cursor"] = std::to_string(end);
  return report;
}

Json AnalysisSchema() {
  const Json rows = {{"type", "array"}, {"items", {{"type", "object"}}}};
  const Json texts = {{"type", "array"}, {"items", {{"type", "string"}}}};
  const auto described = [](Json schema, const char* text) {
    schema["description"] = text;
    return schema;
  };
  return {
      {"type", "object"},
      {"properties",
       {{"tensor", {{"type", "object"}, {"description", "key, shape, dtype, numel."}}},
        {"stats",
         {{"type", "object"},
          {"description",
           "Of finite elements; counts of others; grid: the 16-bit format whose numbers all "
           "are."}}},
        {"formats", described(rows,
                              "format, underflow, subnormal, overflow, saturated, distortion_share "
                              "(shares of all elements), rel_error {mean, p99, max}, sqnr_db, "
                              "best_scale, and the same figures scaled by it.")},
        {"dims", described(rows,
                           "dim, size, imbalance, absorbed, reduce_error {sum, mean, norm} "
                           "with an accumulator in reduced_in.")},
        {"reduced_in", {{"type", "string"}}},
        {"advice", texts},
        {"cases", texts},
        {"tensors",
         described(rows, "key, shape, dtype, worst, overflow, underflow, absmax, grid.")},
        {"total", {{"type", "integer"}}},
        {"format", {{"type", "string"}}},
        {"target", {{"type", "string"}}},
        {"notes", described(texts, "What was left out; what Python would execute.")},
        {"next_cursor", {{"type", "string"}}}}}};
}

}  // namespace mpnanny::analyze_tensor
