// A run in which every operator runs a second time in FP64, on what it would have been given if
// nothing had been rounded, and a third time in FP64 on what it really was given.
//
// Both lanes do the same with lists, views and writes, so each value has its reference beside it.
// What is decided by values (branches, indices, masks) is the held lane's in both. Owns its
// autocast regions; borrows the observer.
#ifndef MPNANNY_ENGINES_WORKER_RUN_SHADOW_RUNNER_H_
#define MPNANNY_ENGINES_WORKER_RUN_SHADOW_RUNNER_H_

#include <ATen/core/TensorBody.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engines/worker/run/autocast.h"
#include "engines/worker/run/call.h"
#include "engines/worker/run/interpreter.h"

namespace mpnanny::worker {

// A floating-point result of one call.
struct Made {
  at::Tensor held, reference;
  at::Tensor exact;  // what FP64 makes of the held inputs; undefined where that was not computed
};

// A call of an operator.
struct Called {
  const Node& node;
  int number;  // of the operator in its run, from 1
  const Stack& held;
  const Stack& reference;
  std::vector<Made> made;
  bool wrote = false;  // `made` is what it wrote into arguments, which no longer are what they were
  bool computes = true;  // no other look at an argument's memory, no memory that nobody has written
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Before an operator writes into its arguments.
  virtual void Before(const Called& call) = 0;
  virtual void After(const Called& call) = 0;
  // Whole numbers or booleans came out of floating-point ones; `reference`: out of the references.
  virtual void Decided(const Called& call, const at::Tensor& held, const at::Tensor& reference) = 0;
};

class ShadowRunner : public Runner {
 public:
  ShadowRunner(const CastPolicy& precision, Observer& observer);

  Value Begin(const IValue& constant) override { return BeginWith(OwnCopy(constant), constant); }
  // A state or an input, and what it was before it was rounded.
  Value BeginWith(const IValue& held, const IValue& exact);
  void Run(const Node& node, std::vector<Value>& slots) override;
  void EnterRegion(const Region& region) override { regions_.Enter(region); }
  void LeaveRegion() override { regions_.Leave(); }

  int operators() const { return number_; }
  int in_low() const { return in_low_; }  // of these, that read or gave a value of less than 32 bits
  // Operators that this machine lacks in the low type: computed in FP32 and rounded.
  const std::set<std::string>& missing_kernels() const { return missing_kernels_; }
  // Operators that have no FP64: their results are taken as they are.
  const std::set<std::string>& not_followed() const { return not_followed_; }

 private:
  std::vector<IValue> Held(const Node& node, const Stack& inputs);
  std::vector<IValue> Reference(const Node& node, const Stack& held_inputs, const Stack& inputs,
                                const std::vector<IValue>& held, bool drew);
  IValue Merged(const Called& call, const IValue& held, const IValue& reference);
  IValue Widened(const IValue& value);
  void DecideWritten(const Called& call, const Stack& unwritten);
  void AddExact(const Node& node, const Stack& inputs, std::vector<Made>& made);

  Regions regions_;
  Observer& observer_;
  std::map<const void*, at::Tensor> wide_;  // of states and constants, by their memory
  int number_ = 0, in_low_ = 0;
  std::set<std::string> missing_kernels_, not_followed_;
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_SHADOW_RUNNER_H_
