// The one judge of shadow steps: takes the rows of a tape in their order, and says what was found.
//
// Belongs to one step. Owns what it knows of it; the run's LostChanges outlives it. Used by one
// thread at a time.
#ifndef MPNANNY_ENGINES_JUDGEMENT_JUDGE_H_
#define MPNANNY_ENGINES_JUDGEMENT_JUDGE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/consequences.h"
#include "engines/judgement/evidence.h"
#include "engines/judgement/findings.h"
#include "engines/judgement/layer_profiles.h"
#include "engines/judgement/lost_changes.h"
#include "engines/judgement/operator_judge.h"
#include "engines/judgement/slots.h"

namespace mpnanny::judgement {

class Judge {
 public:
  // `step`: the training step. `first_loss`: the magnitude of the run's first losses.
  Judge(LostChanges& run, int step, std::optional<double> first_loss);
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  void Take(const Place& row) { calls_.Add(row); }
  void Take(const Figures& row) { slots_.Put(row.slot, row.found); }
  void Take(const Enters& row) { calls_.MemoryOf(row.memory).error = row.error; }
  // The inputs whose formats are to be measured, each with the layer that it has left.
  std::vector<std::pair<int, int>> Take(const Call& row);
  // Whether the reference has to begin anew, as what is held.
  bool Take(const Result& row, Evidence& evidence);
  void Take(const Indices& row, Evidence& evidence) { operators_.Take(row, evidence); }
  void Take(const Change& row);
  bool Take(const Mask& row) { return consequences_.Take(row); }  // whether it is another one
  void Take(const Decided& row) { consequences_.Take(row); }
  void Take(const Read& row) { consequences_.Take(row); }
  // The layer whose formats are to be measured by it; kNone.
  int Take(const Leaves& row);
  void Take(const Formats& row) { profiles_.Take(row); }
  void Take(const Fed& row) { consequences_.Take(row); }
  void Take(const Loss& row) { consequences_.Take(row); }
  void Take(const Output& row) { consequences_.Take(row); }
  void Take(const GradientAgain& row) { consequences_.Take(row); }
  void Take(const Optimizer& row) { consequences_.Take(row); }
  void Take(const Gradient& row) { consequences_.Take(row); }
  void Take(const OptimizerEnds& row) { consequences_.Take(row); }
  void Take(const State& row) { consequences_.Take(row); }
  void Take(const Together& row) { changes_.Take(row); }
  void Take(const LostLine& row) { changes_.Take(row); }
  void Take(const KeptAtRandom& row) { changes_.Take(row); }

  // The step is over. The numbers of the findings that count, the worst first.
  std::vector<int> Finish();
  // What was searched for afterwards, by running everything again, cures a finding.
  void Cures(int finding, Cure cure);

  const Findings& findings() const { return findings_; }
  const Calls& calls() const { return calls_; }
  Memory MemoryOf(int64_t memory) { return calls_.MemoryOf(memory); }
  // Where the error of what lies in memory came in, as elements of `type`, and what cures it.
  struct Source {
    CameIn came_in;
    std::optional<Cure> cure;
    bool is_finding = false;
  };
  std::optional<Source> SourceOf(int64_t memory, Element type);
  const Consequences& consequences() const { return consequences_; }
  const StepChanges& changes() const { return changes_; }
  const LayerProfiles& profiles() const { return profiles_; }
  const Slots& slots() const { return slots_; }
  int compared() const { return operators_.compared(); }
  // Why the newest result, or whole numbers, are a finding or none.
  const Verdict& verdict() const { return operators_.verdict(); }
  // Of each place's results: the largest magnitude of the reference.
  const std::map<int, double>& magnitudes() const { return magnitudes_; }

 private:
  Calls calls_;
  Findings findings_;
  Slots slots_;
  LostChanges& run_;
  OperatorJudge operators_;
  Consequences consequences_;
  LayerProfiles profiles_;
  StepChanges changes_;
  std::map<int, double> magnitudes_;
  int newest_ = 0;  // the number of the newest call
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_JUDGE_H_
