// What a comparison of a result with its reference says: whether the operator made an error, and
// which kind of it. The thresholds are those of the monitor's shadow steps.
//
// Follows one run; owns what it has found.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_JUDGE_H_
#define MPNANNY_ENGINES_WORKER_DIFF_JUDGE_H_

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engines/worker/diff/finding.h"
#include "engines/worker/run/shadow_runner.h"
#include "numerics/reference_error.h"

namespace mpnanny::worker {

// A result this far from its reference (relative, L2) is wrong, one that makes this many times the
// error of its inputs has made it.
inline constexpr double kWrong = 0.2;
inline constexpr double kAmplification = 5;
// Less than wrong and yet made here: counts where it gets to an output.
inline constexpr double kNoted = 0.04;
inline constexpr double kNotedAmplification = 8;
inline constexpr double kCarries = 0.02;     // errors below this are not followed
inline constexpr int64_t kFewestWhole = 16;  // elements that are not whole numbers by chance

class Judge : public Observer {
 public:
  void Before(const Called& call) override;
  void After(const Called& call) override;
  void Decided(const Called& call, const at::Tensor& held, const at::Tensor& reference) override;

  std::vector<Finding>& findings() { return findings_; }
  const std::vector<Finding>& findings() const { return findings_; }
  // The one in which the error came in that `finding` works on; itself, if it made the error.
  Finding& RootOf(const Finding& finding);
  std::vector<Row> Rows() const;  // in the order in which they ran
  const std::vector<Decision>& decisions() const { return decisions_; }
  const std::vector<CallRecord>& calls() const { return calls_; }  // by number

  // Whether the reference of a tensor is 0 but for rounding.
  bool IsOnlyNoise(const at::Tensor& tensor) const;
  // Tells the findings whose error `result` carries: that in which it came in last, and those
  // before it.
  void Reached(const at::Tensor& result, const Reach& reach);

 private:
  struct InputError {
    double error = 0;              // the largest
    int rank = 0;                  // 0 finite, 1 infinite, 2 NaN, 3 not finite here only
    double squared_reference = 0;  // the largest
    int64_t flushed = 0;           // the most
    bool all_whole = true;         // and right
    bool any_noise = false;
    double terms_squared = 0, terms = 0;  // of the first
  };
  InputError ErrorOfInputs(const Called& call) const;
  CallRecord& Record(const Called& call);
  void Restart(const Made& made);
  void Tell(int finding, const Reach& reach);  // and those whose error it works on; -1: nobody
  void Look(const Called& call, size_t index, const ReferenceError& found, const InputError& inputs,
            int origin, CallRecord& record);
  void AddToRow(const Called& call, size_t index, const ReferenceError& found, bool noise);
  // What the operator itself has done to this result; -1: nothing.
  int Judged(const Called& call, size_t index, const ReferenceError& found,
             const InputError& inputs, CallRecord& record);
  bool IsNoiseHere(const Called& call, const ReferenceError& found, const Made& made,
                   const InputError& inputs) const;
  bool DependsOnNoise(const Called& call, size_t index) const;
  // The finding that the worst of the inputs carries; -1: none.
  int OriginOfInputs(const Called& call) const;
  int Add(FindingKind kind, const Called& call, const Made& made, size_t index,
          const ReferenceError& found, double share, double error_in, double error_out);
  int AddPlaces(const Called& call, const at::Tensor& held, const at::Tensor& reference,
                double share, int origin);

  std::vector<Finding> findings_;
  std::map<std::string, size_t> finding_of_;  // by kind and place
  std::map<std::string, Row> rows_;
  std::vector<Decision> decisions_;
  std::vector<CallRecord> calls_;
  std::unordered_map<const void*, int> producer_;  // of each memory: the call that wrote it last
  std::unordered_set<const void*> noise_;          // memory whose reference is its own rounding
  // Errors that are followed: of each memory, how large, and the finding that they come from.
  struct Carried {
    double error = 0;
    int finding = -1;
  };
  std::unordered_map<const void*, Carried> carried_;
  std::vector<int> parent_;  // of each finding: the one whose error it works on
  InputError before_;
  int origin_before_ = -1;
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_JUDGE_H_
