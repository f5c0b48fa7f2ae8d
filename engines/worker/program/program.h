// A model that has left Python, as a list of steps over numbered slots: what TorchScript archives
// (torchscript.h) and exported programs (exported.h) are both turned into, and what interpreter.h
// runs.
//
// Plain values that own what they hold; immutable once loaded, but that running it may change the
// tensors of its states, as a batch norm in training does. One thread.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_PROGRAM_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_PROGRAM_H_

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mpnanny::worker {

using c10::IValue;
using Stack = std::vector<IValue>;

// Where a step comes from, in the words of the answer.
struct Site {
  std::string op;      // "aten.softmax.int"
  std::string module;  // its name in named_modules(); "" for the model itself
  std::string source;  // "model.py:12", the innermost line that is not torch's; "" where unknown
  bool has_users_line = false;
};

// What cannot be loaded or run, with what it is about.
struct ModelProblem : std::runtime_error {
  ModelProblem(const std::string& message, std::string advice)
      : std::runtime_error(message), hint(std::move(advice)) {}
  std::string hint;
};

struct Node;

struct Block {
  std::vector<int> inputs;
  std::vector<Node> nodes;
  std::vector<int> outputs;
};

// An autocast region that the code itself opens.
struct Region {
  std::string device = "cpu";
  bool enabled = true;
  std::optional<c10::ScalarType> dtype;
};

struct Node {
  enum class Kind {
    kOperator,   // `run` of the inputs; has a `schema`, and torch's dispatcher decides what runs
    kStructure,  // `run` of the inputs: lists, tuples, attributes; computes nothing
    kCopy,       // outputs[0] is inputs[0]
    kIf,         // inputs[0] chooses blocks[0] or blocks[1]
    kLoop,  // inputs: most turns, go on, carried…; blocks[0]: (turn, carried…) -> (go on, carried…)
    kEnterRegion,  // `region`, or that of the object inputs[0]
    kLeaveRegion,
    kGive,  // a call of module `site.module` gives inputs
  };
  Kind kind = Kind::kOperator;
  std::vector<int> inputs, outputs;
  std::function<void(Stack&)>
      run;  // takes its inputs from the end of the stack, leaves the outputs
  const c10::FunctionSchema* schema = nullptr;  // lives as long as the process
  bool may_draw = false;                        // random numbers; dropout that is off does not
  std::vector<Block> blocks;
  Region region;
  Site site;
  std::vector<int> frees;  // slots that nothing reads after this node
};

// An argument of the model.
struct Argument {
  std::string name;
  int slot = -1;
  std::optional<IValue> otherwise;  // its default
};

// A parameter, a buffer, or another attribute.
struct State {
  std::string name;
  int slot = -1;
  IValue value;
};

struct Program {
  std::string format;  // "TorchScript" or "torch.export"
  int slots = 0;
  std::vector<std::pair<int, IValue>> constants;
  std::vector<State> states;
  std::vector<Argument> arguments;
  Block body;                   // its outputs are those of the model
  std::vector<int> outputs;     // slots of the model's results
  std::shared_ptr<void> owner;  // keeps what schemas and objects point into
};

// Adds the slots that a node reads, its blocks included.
void AddReads(const Node& node, std::set<int>& reads);

// Nodes whose line the file has lost (TorchScript's of `1 - x` and of inlined functions of torch,
// an exported program's inside of regions) get that of the node of their module that reads them.
void FillLines(Program& program);

// Fills in what each node frees. Once, when all is there.
void MarkLastUses(Program& program);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_PROGRAM_H_
