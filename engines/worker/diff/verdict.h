// What two runs mean: broken, degraded, clean or not established.
//
// Borrows what the runs have measured. Trials are made when it is constructed.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_VERDICT_H_
#define MPNANNY_ENGINES_WORKER_DIFF_VERDICT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engines/worker/diff/measured.h"
#include "engines/worker/diff/trials.h"

namespace mpnanny::worker {

class Verdict {
 public:
  struct Limits {
    std::optional<double> warn, error;  // of an output's error
  };
  // Fills in the cures of `low`'s findings.
  Verdict(const Measured& full, Measured& low, Trials& trials, const Limits& limits);

  std::string Word() const;
  // Findings that make a verdict, the worst first. What FP32 has as well is none of the low
  // precision's.
  const std::vector<int>& bad() const { return bad_; }
  // Findings of the run in FP32.
  const std::vector<int>& ill_conditioned() const { return ill_; }
  // The operator that makes the largest error of the whole numbers that finding `root` changes.
  std::optional<int> Grown(int root) const;
  std::optional<int> Undefined() const;
  const Decision* Decided() const;
  // An error of an output that is spread over many operators.
  bool IsSpread() const;
  // The first operator that gives wrong whole numbers, where an output has such.
  std::optional<Row> WrongWhole() const;
  // What the roundings of all operators add up to if nothing amplifies them.
  double Expected() const;

 private:
  void FindGrown(Trials& trials);
  bool Cure(int finding, Trials& trials);  // whether it has one
  bool IsShared(const judgement::Finding& finding) const;
  bool OutputsDiffer() const;
  double Worst() const;

  const Measured& full_;
  Measured& low_;
  Limits limits_;
  const judgement::Findings& found_;  // those of `low_`
  std::vector<int> bad_, ill_;
  std::map<int, int> grown_;  // by their root
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_VERDICT_H_
