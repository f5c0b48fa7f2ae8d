// Which step a row of a log belongs to. Logs count from their epoch's beginning, go back when a run
// is resumed, are printed by several ranks at once, or do not count at all.
//
// A value owned by one reader.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_PLACEMENT_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/runs/import/log_line.h"
#include "engines/runs/import/recorder.h"

namespace mpnanny::imports {

class Placement {
 public:
  explicit Placement(Recorder& recorder) : recorder_(recorder) {}

  // Records what a line or row says at the step that it belongs to. Lines that do not say theirs
  // are held until one does: the next that has come further tells how many steps they share.
  void Add(const Figures& figures);
  // Nothing follows: records what is held.
  void Finish();

  // Sentences about the steps' numbers, and what the log itself says of skipped ones.
  void AddNotes(std::vector<std::string>& notes) const;

  // False if no line said which step it is of.
  bool numbered() const { return any_step_; }
  // Whether the losses are those of two players that learn by each other.
  bool of_players() const { return players_.Both(); }

 private:
  void Record(const Figures& figures);
  void Release(const Figures* next);
  int64_t EveryByEpochs(const std::vector<Figures>& held) const;
  void LeaveOutConfiguration(const Figures& next, std::vector<Figures>& held);
  int64_t AddEvaluation(const Figures& figures);
  bool IsSum(const Figures& figures) const;
  int64_t PlaceOfProcess(int64_t count);
  int64_t Place(const Figures& figures);
  int64_t PlaceStep(int64_t step, const Figures& figures);
  void LeaveToBetter(const Figures& figures, int64_t step, StepFigures& row);
  void PutNamed(int64_t step, const Figures& figures);
  void AddIterations(const Figures& figures, int64_t step, StepFigures& row);

  Recorder& recorder_;               // borrowed
  std::vector<Figures> held_;        // lines without a step since the last that has one
  std::optional<int64_t> mark_;      // the step of that one
  std::optional<int64_t> assigned_;  // the step of the line that is being recorded, if told so
  int64_t every_ = 0;                // steps between two lines without a step, by a bar; 0: unknown
  std::optional<int64_t> announced_;   // a step number that stood alone in its line
  std::optional<int64_t> last_loss_;   // the step of the last line with a step and a loss
  std::optional<int64_t> first_loss_;  // … of the first one since the counter began
  int64_t stride_ = 1, offset_ = 0;
  std::optional<double> epoch_, loss_epoch_;
  bool any_step_ = false, restarted_ = false, rounded_ = false;
  Players players_;
  std::optional<int64_t> last_counted_;  // the step of the last line that counts skipped iterations
  double skipped_told_ = 0;
  int64_t losses_left_out_ = 0, sums_ = 0, before_first_ = 0;
  std::optional<double> eval_loss_;  // the last one
  // What the scaler goes on with after the step of the last line: of the next step, if that has no
  // scale of its own.
  std::optional<double> scale_after_;
  // How well the loss and the norm of the last step that was recorded are named.
  std::optional<int64_t> ranked_step_;
  int loss_rank_ = 0, norm_rank_ = 0;
  // Of the last line that counts from where the process began: what it says, and where that is.
  std::optional<int64_t> process_count_, process_step_;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_PLACEMENT_H_
