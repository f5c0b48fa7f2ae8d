// A run without a reference: each operator once, in the run's precision.
//
// Owns its autocast regions, which are the state of this thread; one at a time.
#ifndef MPNANNY_ENGINES_WORKER_RUN_PLAIN_RUNNER_H_
#define MPNANNY_ENGINES_WORKER_RUN_PLAIN_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "engines/worker/run/autocast.h"
#include "engines/worker/run/interpreter.h"

namespace mpnanny::worker {

class PlainRunner : public Runner {
 public:
  // `given(module, values)`: what each call of a module gives; may be empty.
  using Given = std::function<void(const std::string& module, const std::vector<IValue>& values)>;
  explicit PlainRunner(const CastPolicy& precision, Given given = {});

  Value Begin(const IValue& constant) override { return {constant, {}}; }
  void Run(const Node& node, std::vector<Value>& slots) override;
  void EnterRegion(const Region& region) override { regions_.Enter(region); }
  void LeaveRegion() override { regions_.Leave(); }
  void Give(const Node& node, const std::vector<Value>& slots) override;

 private:
  Regions regions_;
  Given given_;
  Stack stack_;
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_PLAIN_RUNNER_H_
