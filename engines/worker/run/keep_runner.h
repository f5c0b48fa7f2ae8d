// A run in the low precision in which some lines compute in a wider type, as they would if the user
// put them into FP32: what is asked when the answer says that FP32 cures something.
//
// What a kept line gives to another kept line stays wide; what it gives to any other is rounded to
// the type that it had. Owns its autocast regions.
#ifndef MPNANNY_ENGINES_WORKER_RUN_KEEP_RUNNER_H_
#define MPNANNY_ENGINES_WORKER_RUN_KEEP_RUNNER_H_

#include <ATen/core/TensorBody.h>

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engines/worker/run/autocast.h"
#include "engines/worker/run/call.h"
#include "engines/worker/run/interpreter.h"

namespace mpnanny::worker {

// The line of a step, or what stands in for it where the file has no lines.
std::string LineOf(const Node& node);

struct Kept {
  std::set<std::string> lines;
  c10::ScalarType type = c10::ScalarType::Float;
};

class KeepRunner : public Runner {
 public:
  // `types`: of the results of each operator in the run without kept lines, by its number.
  KeepRunner(const CastPolicy& precision, const Kept& kept,
             const std::vector<std::vector<c10::ScalarType>>& types);

  // Stops after operator `number` and keeps its results: the floating-point ones, or all.
  struct Stopped {
    std::vector<at::Tensor> results;
  };
  void StopAfter(int number) { last_ = number; }

  Value Begin(const IValue& constant) override { return {OwnCopy(constant), {}}; }
  void Run(const Node& node, std::vector<Value>& slots) override;
  void EnterRegion(const Region& region) override { regions_.Enter(region); }
  void LeaveRegion() override { regions_.Leave(); }

 private:
  // What kept lines have written into the memory of `tensor`; itself where that is nothing.
  at::Tensor Sum(const at::Tensor& tensor) const;
  void StartSums(const Node& node, const Stack& inputs);
  std::vector<IValue> RunKept(const Node& node, const Stack& inputs);
  std::vector<IValue> RunOther(const Node& node, const Stack& inputs);

  Regions regions_;
  const Kept& kept_;
  const std::vector<std::vector<c10::ScalarType>>& types_;
  int number_ = 0;
  int last_ = 0;  // 0: all
  // Memory that is wider than in the plain run, and what it would be.
  std::unordered_map<const void*, c10::ScalarType> wide_;
  // Of memory that kept lines write and that has the type of the plain run: its values unrounded.
  std::unordered_map<const void*, at::Tensor> sums_;
  std::vector<at::Tensor> alive_;  // whose memory those are
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_KEEP_RUNNER_H_
