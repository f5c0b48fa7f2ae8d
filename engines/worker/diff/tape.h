// The tape of a run as it is written: what ran and what was measured, row by row, to the judge
// (engines/judgement), which decides what is a finding.
//
// Follows one run. Owns its judge and what else the run has shown; borrows the nodes of its
// program. One thread.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_TAPE_H_
#define MPNANNY_ENGINES_WORKER_DIFF_TAPE_H_

#include <ATen/core/TensorBody.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engines/judgement/judge.h"
#include "engines/worker/diff/operator_errors.h"
#include "engines/worker/run/shadow_runner.h"

namespace mpnanny::worker {

// Whole numbers or booleans that are others than those of the references.
struct Decision {
  Site site;
  int number = 0;
  std::string dtype, shape;
  double share = 0;
  bool is_cast = false;
};

// The first result of a finding that a cure may be searched for: what another run is held against.
struct Suspect {
  FindingKind kind = FindingKind::kAmplified;
  int call = 0;
  size_t index = 0;     // among the floating-point results of the call
  double error = 0;     // a share of whole numbers, infinite, or relative
  bool narrow = false;  // it came of less than 32 bits
  at::Tensor reference;
};

class Tape : public Observer {
 public:
  void Before(const Called& call) override;
  void After(const Called& call) override;
  void Decided(const Called& call, const at::Tensor& held, const at::Tensor& reference) override;

  // An input or a state (by its name, else "") is there, with an error of `error`.
  void Enters(const at::Tensor& held, const std::string& name, double error);
  // An output of the model, and what a state holds in the end.
  std::optional<ReferenceError> Gives(const at::Tensor& held, const at::Tensor& reference,
                                      const std::string& name);
  void Keeps(const at::Tensor& held, const at::Tensor& reference, const std::string& name);
  void Finish();  // the run is over

  // Whether the reference of a tensor is 0 but for rounding.
  bool IsNoise(const at::Tensor& tensor);

  judgement::Judge& judge() { return judge_; }
  const judgement::Judge& judge() const { return judge_; }
  const std::vector<int>& found() const { return found_; }  // findings that count, the worst first
  const std::map<int, Suspect>& suspects() const { return suspects_; }  // by finding
  std::vector<Row> Rows() const { return errors_.Rows(); }
  const std::vector<Decision>& decisions() const { return decisions_; }
  const Node& NodeOf(int place) const { return *nodes_[static_cast<size_t>(place)]; }
  const Site& SiteOf(const judgement::Finding& finding) const { return NodeOf(finding.place).site; }
  // Of the floating-point results of each operator, by its number.
  const std::vector<std::vector<c10::ScalarType>>& types() const { return types_; }

 private:
  class Evidence;
  struct Pair {
    at::Tensor held, reference;
  };
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> memory;  // as long as it is here its address is its
    int64_t number = 0;
  };

  void Begin(const Called& call);
  int PlaceOf(const Node& node);
  int64_t NumberOf(const at::Tensor& tensor);                         // of its memory
  int Compared(const at::Tensor& held, const at::Tensor& reference);  // the slot

  judgement::LostChanges lost_;
  judgement::Judge judge_{lost_, 0, std::nullopt};
  std::vector<int> found_;
  std::map<int, Suspect> suspects_;
  OperatorErrors errors_;
  std::vector<Decision> decisions_;
  std::vector<std::vector<c10::ScalarType>> types_;
  std::vector<const Node*> nodes_;  // by place
  std::unordered_map<const Node*, int> places_;
  std::unordered_map<const void*, Known> memories_;
  std::map<int64_t, std::string> names_;  // of the states' memory
  int slots_ = 0;                         // the next one
  int number_ = 0;                        // of the call that has begun last
  std::vector<Pair> inputs_;              // its
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_TAPE_H_
