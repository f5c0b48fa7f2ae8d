// Which call of a module ends where, from the stacks of modules that the nodes of an exported
// program carry.
//
// Follows one graph from its first node to its last; plain values.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_MODULE_CALLS_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_MODULE_CALLS_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "engines/worker/program/program.h"

namespace mpnanny::worker {

struct ModuleCall {
  std::string key;   // of this call
  std::string name;  // in named_modules()
  bool operator==(const ModuleCall& other) const = default;
};

// The calls that a node lies in, the outermost first. The root is not among them.
std::vector<ModuleCall> ModuleStackOf(const Json& metadata);

class ModuleCalls {
 public:
  // Adds a kGive for each call that the next node no longer lies in.
  void Before(const std::vector<ModuleCall>& stack, Block& out);
  void After(const std::vector<int>& outputs) { last_ = outputs; }
  void End(Block& out) { Before({}, out); }

 private:
  std::vector<ModuleCall> open_;
  std::vector<int> last_;
};

// Calls give of their last node's results what anything reads: a layer norm also makes its mean.
void KeepWhatIsRead(Program& program);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_MODULE_CALLS_H_
