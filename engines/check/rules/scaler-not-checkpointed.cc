#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engines/check/facts/checkpoints.h"
#include "engines/check/facts/fp16_use.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_not_checkpointed {
namespace {

// True if the file trains with a scaler whose state should be saved.
bool NeedsState(const FileFacts& facts) {
  if (!facts.scalers.Trains()) return false;
  const auto& made = facts.scalers.made();
  return made.empty() || !facts.scalers.wrappers().empty() ||
         std::any_of(made.begin(), made.end(),
                     [](const ScalerMade& one) { return !one.enabled_false; });
}

// True if something in the project names the function besides its definition. A loader that nobody
// calls resumes nothing.
bool IsUsed(const FileFacts& facts, NodeId function) {
  const Function* known = facts.bindings.FunctionAt(function);
  if (known == nullptr || known->node == 0 || known->name.starts_with("__") ||
      known->name == "load_state_dict")
    return true;
  return std::any_of(facts.files->begin(), facts.files->end(), [&](const FileFacts* file) {
    const std::vector<NodeId> uses = file->names.Uses(known->name);
    return std::any_of(uses.begin(), uses.end(), [&](NodeId use) {
      return !file->syntax.Is(file->syntax[use].parent, Kind::kFunction);
    });
  });
}

// True if the file makes torch's scaler for certain, steps with it, and resumes with the
// optimizer's state: then the scaler's is missed by whoever resumes. What is loaded further down in
// the function that saves is a way back within one run, in which the scaler lives on.
bool Resumes(const FileFacts& facts, const SavedOptimizer& saved) {
  const auto& made = facts.scalers.made();
  const bool on = std::any_of(made.begin(), made.end(), [&](const ScalerMade& one) {
    const NodeId enabled = facts.syntax.Unwrap(facts.names.Argument(one.call, -1, "enabled"));
    return !one.enabled_false && !facts.syntax.Is(enabled, Kind::kComparison) &&
           IsGradScaler(facts.names.Callee(one.call));
  });
  if (!on || !facts.scalers.Has(ScalerCall::Op::kStep)) return false;
  const std::span<const struct Call* const> loads = facts.names.CallsNamed("load_state_dict");
  return std::any_of(loads.begin(), loads.end(), [&](const struct Call* call) {
    return call->receiver != kNoNode &&
           facts.scalers.IsOptimizer(facts.names.Key(call->receiver)) &&
           !(facts.syntax.FunctionOf(call->node) == saved.function && call->node > saved.state) &&
           IsUsed(facts, facts.syntax.FunctionOf(call->node));
  });
}

// True if every scaler of the file lives and dies in a method, which is not the one that saves:
// there is nothing that could be saved (scaler-recreated-per-epoch says so where it is).
bool LivesElsewhere(const FileFacts& facts, NodeId saver) {
  const auto& made = facts.scalers.made();
  return !made.empty() && std::all_of(made.begin(), made.end(), [&](const ScalerMade& one) {
    const NodeId function = facts.syntax.FunctionOf(one.call);
    const Function* method = facts.bindings.FunctionAt(function);
    return method != nullptr && method->klass != kNoNode && function != saver &&
           one.key.find('.') == std::string::npos;
  });
}

// The files that call the function.
std::vector<const FileFacts*> Callers(const FileFacts& facts, const Function& function) {
  std::vector<const FileFacts*> found;
  for (const FileFacts* file : *facts.files) {
    const auto& edges = facts.modules->Edges(file->number);
    if (std::any_of(edges.begin(), edges.end(),
                    [&](const CallEdge& edge) { return edge.callee.function == &function; }))
      found.push_back(file);
  }
  return found;
}

// True for a class that is an optimizer itself, whatever it wraps: its state is the optimizer's.
bool IsOptimizer(const FileFacts& facts, NodeId klass) {
  const std::vector<NodeId> bases = facts.bindings.Bases(klass);
  return std::any_of(bases.begin(), bases.end(), [&](NodeId base) {
    const std::string name = facts.names.Key(base);
    return LastComponent(name).ends_with("Optimizer");
  });
}

bool UsesScaler(const FileFacts& facts, NodeId klass) {
  const auto& calls = facts.scalers.calls();
  return std::any_of(calls.begin(), calls.end(),
                     [&](const ScalerCall& call) { return IsInside(facts, call.call, klass); });
}

// True if nobody saves the scaler's state along with what that function saves, and somebody should.
bool Misses(const FileFacts& facts, NodeId function) {
  if (KnowsScalerState(facts)) return false;
  bool needed = NeedsState(facts);
  const Function* saver = facts.bindings.FunctionAt(function);
  if (saver == nullptr || saver->node == 0) return needed;
  // An optimizer's wrapper has a state of its own.
  if (saver->name == "state_dict" && saver->klass != kNoNode &&
      (!UsesScaler(facts, saver->klass) || IsOptimizer(facts, saver->klass)))
    return false;
  for (const FileFacts* caller : Callers(facts, *saver)) {
    if (KnowsScalerState(*caller)) return false;
    needed = needed || NeedsState(*caller);
  }
  return needed;
}

// What the finding points at: the torch.save(…) that writes the dict, else the state itself.
NodeId Shown(const FileFacts& facts, const SavedOptimizer& saved) {
  for (const struct Call* call : facts.names.CallsNamed("save")) {
    if (call->callee != "torch.save" || facts.syntax.FunctionOf(call->node) != saved.function)
      continue;
    if (IsInside(facts, saved.state, SavedTraining(facts, call->node))) return call->node;
  }
  return saved.state;
}

// True if some file of the project calls that method of a scaler, or of something called so.
bool CallsOnAnyScaler(const FileFacts& facts, const std::string& method) {
  return std::any_of(facts.files->begin(), facts.files->end(), [&](const FileFacts* file) {
    return !ScalerStateCalls(*file, method).empty();
  });
}

// The state is saved and never loaded.
void CheckResume(const FileFacts& facts, Sink& sink) {
  if (!NeedsState(facts) || ScalerStateCalls(facts, "state_dict").empty()) return;
  if (CallsOnAnyScaler(facts, "load_state_dict")) return;
  for (const struct Call* call : facts.names.CallsNamed("load_state_dict")) {
    if (call->receiver == kNoNode || !facts.scalers.IsOptimizer(facts.names.Key(call->receiver)))
      continue;
    sink.Add(call->node,
             "The optimizer's state is loaded here, and the GradScaler's, which the checkpoint "
             "holds, nowhere.");
    return;
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  std::set<NodeId> reported;  // one function may save the same under several names
  bool told = false;
  for (const SavedOptimizer& saved : FindSavedOptimizers(facts)) {
    if (reported.contains(saved.function) || !Misses(facts, saved.function)) continue;
    reported.insert(saved.function);
    // Each function of a trainer that saves says the same: once is enough.
    const bool sure = !told && Resumes(facts, saved) && !LivesElsewhere(facts, saved.function) &&
                      MayRunInFp16(facts);
    sink.Add(Shown(facts, saved)).guess = !sure;
    told = told || sure;
  }
  CheckResume(facts, sink);
}

}  // namespace mpnanny::check::scaler_not_checkpointed
