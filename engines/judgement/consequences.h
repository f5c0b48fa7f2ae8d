// What the errors of a step reach: the loss, gradients, weights and buffers, numbers that the
// program reads, masks by which it decides.
//
// Borrows the step's calls, findings and figures.
#ifndef MPNANNY_ENGINES_JUDGEMENT_CONSEQUENCES_H_
#define MPNANNY_ENGINES_JUDGEMENT_CONSEQUENCES_H_

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/findings.h"
#include "engines/judgement/slots.h"

namespace mpnanny::judgement {

class Consequences {
 public:
  // `first_loss`: the magnitude of the run's first losses, beside which a loss may be too small to
  // matter.
  Consequences(Calls& calls, Findings& findings, Slots& slots, std::optional<double> first_loss)
      : calls_(calls), findings_(findings), slots_(slots), first_loss_(first_loss) {}

  // A call is about to run that puts numbers in the place of what is not finite.
  void Replaces(int call);
  // Whether the mask is another one with the references.
  bool Take(const Mask& row);
  void Take(const Decided& row);
  void Take(const Read& row);
  void Take(const Leaves& row);
  void Take(const Fed& row);
  void Take(const Loss& row);
  void Take(const Output& row);
  void Take(const GradientAgain& row);
  void Take(const Optimizer& row);
  void Take(const Gradient& row);
  void Take(const OptimizerEnds& row);
  void Take(const Change& row);
  void Take(const State& row);
  // A result has been judged that is a parameter's or a buffer's memory.
  void Wrote(const Result& row);
  // The step is over: what needed all buffers, or all updates.
  void Finish();

  std::optional<double> loss() const { return loss_; }  // the newest magnitude
  // Whether the loss is so small that there is nothing left to learn.
  bool IsSmallLoss() const { return loss_ && IsConverged(*loss_); }
  // Whether the exact update, too, is smaller than the weights can hold in FP32: errors are errors
  // of what rounding leaves.
  bool IsSettled() const;

 private:
  struct GradientRow {
    Gradient row;
    ReferenceError found;
    Memory memory;
  };
  struct StateRow {
    std::string name, owner;
    ReferenceError found;
    Memory memory;
  };

  // The squared errors of what each finding's error gets to, the first one first.
  class Squares {
   public:
    void Add(int origin, double squared);
    const std::vector<std::pair<int, double>>& all() const { return all_; }

   private:
    std::vector<std::pair<int, double>> all_;
  };

  bool IsConverged(double loss) const;
  bool Counts(int origin) const;  // of gradients that are not finite, at the loss scale
  void ReachesAlone(Reached what);
  void TakeGradient(const GradientRow& gradient, double mean, Squares& squares);

  Calls& calls_;
  Findings& findings_;
  Slots& slots_;
  std::optional<double> first_loss_;
  std::optional<double> loss_;
  std::unordered_map<int, std::pair<int, double>> masks_;  // that are wrong: finding, share
  std::vector<std::pair<int, double>> left_gradients_;     // that went on to what is not followed
  Optimizer optimizer_;                                    // under way
  std::vector<GradientRow> gradients_;                     // that it is about to use
  std::vector<StateRow> states_;
  // What all changes of the weights add up to.
  double squared_change_ = 0, squared_weight_ = 0;
  Squares updates_;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_CONSEQUENCES_H_
