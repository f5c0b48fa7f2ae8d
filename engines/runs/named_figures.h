// The numbers that a log prints under names of its own ("reward", "rollout_corr/kl", "ppl"), step
// by step: what an imported log holds beside the loss, the rate, the scale and the gradient norm,
// and these four under the log's names for them.
//
// A monitor's database has none: the readers then give nothing. Plain values and free functions.
#ifndef MPNANNY_ENGINES_RUNS_NAMED_FIGURES_H_
#define MPNANNY_ENGINES_RUNS_NAMED_FIGURES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

// Steps and values, ascending, one value a step: the last one that the log gives. Values that are
// not finite stand as they are.
using FigureSeries = std::vector<std::pair<int64_t, double>>;

struct FigureName {
  std::string name;  // exactly as the log has it, raw
  int64_t count = 0, first_step = 0, last_step = 0;
};

struct NamedSeries {
  std::string name;
  FigureSeries values;  // never empty
};

// The names of the source's run, in the order in which the log has them first.
Result<std::vector<FigureName>> ReadFigureNames(const Source& source);

// The values of one name; empty if the run has none of it.
Result<FigureSeries> ReadFigure(const Source& source, std::string_view name);

// All of them: what compares one name with another. At most kMostFigures values.
Result<std::vector<NamedSeries>> ReadAllFigures(const Source& source);

// By step, the line of the log that prints the value of that name; only of names that say which way
// is the good one (figure_sense.h). Empty where the format has no lines.
Result<FigureSeries> ReadLinesOfFigure(const Source& source, const std::string& name);

// Lines are kept as a series beside the figure's own, under its name behind this.
inline constexpr std::string_view kLinesOf = "\x01";
inline bool IsLinesOf(std::string_view name) { return name.starts_with(kLinesOf); }

// How many names and values of a log are kept; what comes after them is left out, and told.
inline constexpr size_t kMostFigureNames = 200;
// Beyond those, names that stand for a loss, a norm, a rate or a scale.
inline constexpr size_t kMostKnownNames = 56;
inline constexpr int64_t kMostFigures = 8'000'000;

// How the importer lays them down. A log is read once from front to back, and a row of a table for
// each number would take longer than the reading: numbers of one name are put together into parts.
//   figure_name (name_id INTEGER PRIMARY KEY, name TEXT)
//   figure_part (part INTEGER PRIMARY KEY, name_id INTEGER, points BLOB), in the log's order
//   figure_cut  (after_part INTEGER, name_id INTEGER, run_id INTEGER, step INTEGER): after that
//   part
//     the log went back to `step`: what stood from there on belongs to `run_id`, an attempt that
//     was resumed (0: nobody's). A name_id of -1 means every name.
inline constexpr int64_t kEveryName = -1;

// Appends one point to a part; `last` is the step before it in the same part, 0 for the first.
void AppendPoint(std::string& part, int64_t& last, int64_t step, double value);
// Adds a part's points to a series. False if it is damaged: what was read until then stands.
bool ReadPoints(std::string_view part, FigureSeries& into);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_NAMED_FIGURES_H_
