// The figures of one line of a training log: pairs of "key=value", "key: value", "key value" or
// JSON, sentences of scalers and of loops that stop ("Loss is nan"), and rows under a CSV header.
//
// Pure functions on text from outside: nothing of it is taken for more than a number. Safe from any
// thread.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_LOG_LINE_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_LOG_LINE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::diagnose_run {

enum class Field { kNone, kEpoch, kStep, kLoss, kGradNorm, kScale, kLr };

// What a line says; absent where it says nothing.
struct Figures {
  std::optional<double> epoch, step, loss, grad_norm, scale, lr;
  std::optional<double> bad_part;  // a component of the loss that is not finite
  bool skipping = false;           // the scaler skips the optimizer's step
  bool Any() const { return loss || bad_part || grad_norm || scale || lr || skipping; }
};

// Reads one line. Keys are found by name, whatever stands before them; of several losses the total
// wins ("loss", "train/loss", "lm loss" over "loss_cls"), whatever their order.
Figures ReadFigures(std::string_view line);

// A column of a CSV file: its name in lower case and what it stands for.
struct Column {
  std::string key;
  Field field = Field::kNone;
};

// The columns of a CSV header; empty if the line is no header with a loss or a gradient norm.
std::vector<Column> ReadHeader(std::string_view line);

// A row under such a header; nullopt if it has another number of cells.
std::optional<Figures> ReadCells(std::string_view line, const std::vector<Column>& columns);

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_LOG_LINE_H_
