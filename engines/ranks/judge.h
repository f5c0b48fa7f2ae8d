// Judges compared steps, one after the other: which ranks hold what they should not.
//
// Owns what it has to remember of earlier steps, which does not grow with their number. One judge,
// one run, one thread.
#ifndef MPNANNY_ENGINES_RANKS_JUDGE_H_
#define MPNANNY_ENGINES_RANKS_JUDGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engines/ranks/finding.h"
#include "engines/ranks/same.h"
#include "engines/runs/rank_figures.h"

namespace mpnanny::ranks {

class Judge {
 public:
  void Take(const runs::RankStep& step);  // ascending
  // The faults, the first first; what follows from an earlier one is left out.
  std::vector<Finding> Finish();

 private:
  // A parameter or buffer over the steps so far.
  struct State {
    std::optional<bool> same_at_first;  // absent: never compared
    std::optional<int64_t> differs_since;
    bool differs = false;  // at the newest step
    bool reduced = false;  // its gradient was put together from all ranks' at some step
    bool claimed = false;
    bool buffer = false;
    bool moved = false;                 // of a buffer: some rank wrote to it
    bool gradients_were_same = false;   // in the step before it parted
    std::map<int64_t, int64_t> hashes;  // by rank, of the step before
    std::vector<int64_t> outliers, of;
    double l2 = 0, other_l2 = 0;
  };
  struct InPlace {
    std::vector<double> kept;
    int64_t step = 0;
    std::string source;
    double last_l2 = 0, growth = 0;
  };

  // A norm by hand that is not the true one.
  struct ByHand {
    int64_t step = 0;
    double norm = 0, truth = 0;
    int steps = 0;
    bool empty() const { return steps == 0; }
  };

  // Ranks among which a tensor should be the same in this step: as the program says, or because it
  // began the same in a training whose ranks work together on it.
  std::vector<Parts> Comparable(const std::string& name, const ByRank& tensor) const;
  void TakeStates(const runs::RankStep& step);
  void TakeState(const std::string& name, const ByRank& tensor, int64_t step);
  void TakeGradients(const runs::RankStep& step);
  void TakeGradient(const std::string& name, const Parts& parts, int64_t step);
  void TakeTied(const runs::RankStep& step);
  struct Mean {
    std::string tensor;
    double factor = 0;  // 0: no multiple
  };
  std::vector<Mean> MeansAt(const runs::RankStep& step, Moment moment) const;
  void TakeMeans(const runs::RankStep& step);
  void TakeFactors(const runs::RankStep& step);
  void TakeNorms(const runs::RankStep& step);
  void TakeCollectives(const runs::RankStep& step);
  void TakeNonFinite(const runs::RankStep& step);
  void JudgeStates();

  // Adds a tensor to the finding of its kind and step; later steps of a kind add nothing.
  Finding* Add(Fault fault, int64_t step, const std::string& tensor);
  std::optional<int64_t> StepBefore(int64_t step) const;

  std::vector<Finding> findings_;
  std::map<std::string, State> states_;
  std::map<std::string, InPlace> in_place_;
  ByHand by_hand_;
  std::set<int64_t> ranks_;
  std::vector<int64_t> steps_;
  bool work_together_ = false;  // a gradient was reduced, or a tensor is spread over ranks
  bool in_parallel_ = false;    // on different data: gradients are reduced
  bool nonfinite_seen_ = false;
  std::map<std::string, std::map<int64_t, std::string>> tied_;  // by the first name: name by rank
};

}  // namespace mpnanny::ranks

#endif  // MPNANNY_ENGINES_RANKS_JUDGE_H_
