// How far an epoch has come, in the forms of a line that have no "step": "[3][50/294]",
// "Epoch:[1/1](1250/56608)", "128/469 [=====>....]"; and counts of steps as they are spelled.
//
// Pure functions on text from outside; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_EPOCH_COUNT_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_EPOCH_COUNT_H_

#include <optional>
#include <string>
#include <string_view>

#include "engines/runs/import/log_line.h"

namespace mpnanny::imports {

// The epoch and the count of steps in it, if the line says both. `lower`: the line in lower case.
void ReadEpochCount(std::string_view line, const std::string& lower, Figures& figures);

// Keras: "128/469 [=====>....] - ETA: 3s - loss: 0.5" and "128/469 ━━━━━ 3s 5ms/step - loss: 0.5".
std::optional<double> CountOfBatches(std::string_view line);

// As NumberAt; a step may be written with thousands separators ("12,000").
std::optional<double> CountAt(std::string_view line, size_t& i);
// "49K" of a step: the thousands, 1 where there are none; moves past the letter.
double UnitAt(std::string_view line, size_t& i);
// "/614" behind a step, "/  500000" as well.
std::optional<double> TotalAt(std::string_view line, size_t i);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_EPOCH_COUNT_H_
