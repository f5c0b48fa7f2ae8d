// The figures of one line of a training log: pairs of "key=value", "key: value", "key value" or
// JSON, sentences of scalers and of loops that stop ("Loss is nan"), and bars of progress.
//
// Pure functions on text from outside: nothing of it is taken for more than a number. Safe from any
// thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_LOG_LINE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_LOG_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/runs/import/field.h"
#include "engines/runs/import/figure_store.h"

namespace mpnanny::imports {

// How a log's counter of steps goes at a record, as a survey of all of them says (survey.h).
enum class Turn {
  kUnknown,  // nobody looked: the numbers tell
  kOn,       // it goes on, or counts an epoch from its beginning
  kBack,     // it went back: what stood from there on is printed anew
  kRun,      // another run begins
};

// What a line says; absent where it says nothing.
struct Figures {
  std::optional<double> epoch, step, loss, grad_norm, scale, lr;
  std::optional<double> bad_part;  // a component of the loss that is not finite
  std::optional<double> at;        // Unix seconds
  // A line that stands for several steps says how many of them were skipped.
  std::optional<double> skipped_count;
  std::optional<double> scale_after;  // what a scaler goes on with after `scale`
  bool skipping = false;              // the scaler skips the optimizer's step
  // The step is counted from where the process began, not from where the training did.
  bool of_process = false;
  bool of_bar = false;  // the line is a bar of progress
  // A record that was printed behind a bar in the same line: the bar need not be of its step.
  bool behind_bar = false;
  std::optional<double> step_total;  // "12/614": how many steps there will be
  double step_unit = 1;              // 1000 of "12K": the step is rounded to it
  // It shows a loss of one of two players: a generator's or an actor's, a discriminator's or a
  // critic's. Each of them learns against or by the other, and need not fall.
  Players players;
  // How well their names fit: of two lines for one step the better-named loss stands.
  int loss_rank = 0, norm_rank = 0;
  // Of an evaluation, under the name that the log gives it; no figure of the training's course.
  std::optional<double> eval_loss;
  std::string eval_name;
  // The names under which they stand, in lower case; "" where words say it.
  std::string step_key, loss_key, norm_key, scale_key, lr_key;
  Turn turn = Turn::kUnknown;
  int64_t line = 0;  // of the file, from 1; 0: its format has none
  // Its loss was taken away, since such records recur beside those of the steps (survey.h): the
  // other figures are of the last step.
  bool other_shape = false;
  bool has_score = false;  // one of its names says which way is the good one
  bool of_scores = false;  // a record of a log that has no loss at all, but scores
  // Every number of the line under its own name, those above among them.
  std::vector<NamedValue> named;
  bool Any() const {
    return loss || bad_part || grad_norm || scale || lr || skipping || skipped_count || of_scores;
  }
};

// Puts one named value where it belongs; the best-named of each field wins.
class FigureCollector {
 public:
  // `key` in lower case; `field` as FieldOf(key) says.
  void Add(Field field, std::string_view key, double value);
  Figures Take() const;

 private:
  struct Named {
    bool known = false;
    int rank = 0;
    double value = 0;
    std::string key;
  };
  Named found_[kFields];
  std::optional<double> bad_part_;
  std::string eval_name_;
  Players players_;
};

// A bar of progress, "Steps:  67%|### | 12/100 [": what stands before it, and how far it has come.
struct Bar {
  std::string_view before;  // of the line that was looked at
  double done = 0;
  std::optional<double> total;
  size_t end = 0;  // of the count, in the line
};
std::optional<Bar> FindBar(std::string_view line);

// Reads one line. Keys are found by name, whatever stands before them; of several losses the total
// wins ("loss", "train/loss", "lm loss" over "loss_cls"), whatever their order.
Figures ReadFigures(std::string_view line);

// Whether it is a line of `mpnanny run` beside the training's own: what it says of steps, losses
// and faults is read from its record.
bool IsOfMonitor(std::string_view line);

// What Megatron's rerun state machine says of a result that it computed a second time, for people;
// "" for every other line.
std::string RerunSays(std::string_view line);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_LOG_LINE_H_
