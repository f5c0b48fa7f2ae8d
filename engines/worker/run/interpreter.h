// Runs a program step by step. What a step computes, and how often, is the runner's.
//
// A free function; the runner is borrowed. One thread. Exceptions of torch and ModelProblem pass
// through as StepFailed, with the step at which they came.
#ifndef MPNANNY_ENGINES_WORKER_RUN_INTERPRETER_H_
#define MPNANNY_ENGINES_WORKER_RUN_INTERPRETER_H_

#include <string>
#include <vector>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// A value of the run, and what it would be without rounding where the runner follows that too.
struct Value {
  IValue held;
  IValue reference;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // A constant, before the first step.
  virtual Value Begin(const IValue& constant) = 0;
  // A step of kind kOperator or kStructure: reads and writes `slots`.
  virtual void Run(const Node& node, std::vector<Value>& slots) = 0;
  virtual void EnterRegion(const Region& region) = 0;
  virtual void LeaveRegion() = 0;
  // A call of a module has ended.
  virtual void Give(const Node& node, const std::vector<Value>& slots) {
    (void)node;
    (void)slots;
  }
};

struct StepFailed : std::runtime_error {
  StepFailed(Site at, const std::string& what) : std::runtime_error(what), site(std::move(at)) {}
  Site site;
};

// What a run begins with: a value for each argument and for each state of the program.
struct Start {
  std::vector<Value> inputs;
  std::vector<Value> states;
};

// What a run ends with: the program's outputs, and what its states hold by then.
struct Finish {
  std::vector<Value> outputs;
  std::vector<Value> states;
};

Finish Interpret(const Program& program, const Start& start, Runner& runner);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_INTERPRETER_H_
