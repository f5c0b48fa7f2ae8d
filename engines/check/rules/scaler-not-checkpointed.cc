#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/check/facts/checkpoints.h"
#include "engines/check/facts/fp16_use.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::scaler_not_checkpointed {
namespace {

bool IsScalerName(std::string_view name) {
  return LowerCase(name).find("scaler") != std::string::npos;
}

// enabled=(dtype == "float16") with a dtype that is BF16 by default: the scaler is hardly ever on.
bool IsHardlyOn(const FileFacts& facts, const ScalerMade& made) {
  const NodeId enabled = facts.syntax.Unwrap(facts.names.Argument(made.call, -1, "enabled"));
  if (made.enabled_false) return true;
  if (!facts.syntax.Is(enabled, Kind::kComparison)) return false;
  for (const NodeId operand : facts.syntax.Children(enabled)) {
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(operand)) {
      const std::string_view text = facts.syntax.Text(assignment.value);
      if (Holds(text, "bfloat16") || Holds(text, "bf16")) return true;
    }
    if (!facts.syntax.Is(operand, Kind::kString) && Holds(facts.syntax.text(), "default=\"bf"))
      return true;
  }
  return false;
}

// True if the file trains with a scaler whose state should be saved.
bool NeedsState(const FileFacts& facts) {
  if (!facts.scalers.Trains()) return false;
  const auto& made = facts.scalers.made();
  return made.empty() || !facts.scalers.wrappers().empty() ||
         std::any_of(made.begin(), made.end(),
                     [&](const ScalerMade& one) { return !IsHardlyOn(facts, one); });
}

// True if something in the project names the function besides its definition. A loader that nobody
// calls resumes nothing.
bool IsUsed(const FileFacts& facts, NodeId function) {
  const Function* known = facts.bindings.FunctionAt(function);
  if (known == nullptr || known->node == 0 || known->name.starts_with("__") ||
      known->name == "load_state_dict")
    return true;
  const std::string definition = "def " + known->name;
  const auto named = [&](std::string_view text) {
    size_t uses = 0;
    for (size_t at = text.find(known->name); at != std::string_view::npos;
         at = text.find(known->name, at + 1)) {
      const auto part = [&](size_t i) {
        return i < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
      };
      const bool whole = !(at > 0 && part(at - 1)) && !part(at + known->name.size());
      const bool defined = at >= 4 && text.substr(at - 4, definition.size()) == definition;
      uses += whole && !defined ? 1 : 0;
    }
    return uses > 0;
  };
  return std::any_of(facts.files->begin(), facts.files->end(),
                     [&](const FileFacts* file) { return named(file->syntax.text()); });
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
  return std::any_of(bases.begin(), bases.end(),
                     [&](NodeId base) { return facts.syntax.Text(base).ends_with("Optimizer"); });
}

// True if nobody saves the scaler's state along with what that function saves, and somebody should.
bool Misses(const FileFacts& facts, NodeId function) {
  if (KnowsScalerState(facts)) return false;
  bool needed = NeedsState(facts);
  const Function* saver = facts.bindings.FunctionAt(function);
  if (saver == nullptr || saver->node == 0) return needed;
  // An optimizer's wrapper has a state of its own.
  if (saver->name == "state_dict" && saver->klass != kNoNode &&
      (!IsScalerName(facts.syntax.Text(saver->klass)) || IsOptimizer(facts, saver->klass)))
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

// A class that trains with a scaler of its own and takes state_dict() from a class that does not
// know of one.
void CheckClasses(const FileFacts& facts, Sink& sink, std::set<NodeId>* reported) {
  std::set<NodeId> seen;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (call.op != ScalerCall::Op::kStep || !call.scaler.starts_with("self.")) continue;
    const NodeId klass = facts.syntax.Enclosing(call.call, Kind::kClass);
    if (klass == kNoNode || !seen.insert(klass).second || KnowsScalerState(facts)) continue;
    if (facts.bindings.FunctionNamed(klass, "state_dict") != nullptr) continue;
    const Definition inherited = facts.modules->Method({facts.number, klass}, "state_dict");
    if (inherited.function == nullptr) continue;
    const FileFacts& base = *(*facts.files)[inherited.module];
    const std::string_view text = base.syntax.Text(inherited.function->node);
    if (IsScalerName(text) || !Holds(text, "optim")) continue;
    reported->insert(klass);
    sink.Add(facts.syntax.Child(klass, PythonFields().name),
             "This class steps with a GradScaler of its own, and the state_dict() that it inherits "
             "holds the optimizer's state only.")
        .guess = true;
  }
}

// A function that would save a scaler's state is not given the scaler.
void CheckCalls(const FileFacts& facts, Sink& sink) {
  if (!NeedsState(facts)) return;
  for (const auto& [node, callee] : facts.modules->Edges(facts.number)) {
    const std::vector<std::string>& parameters = callee.function->parameters;
    const auto scaler = std::find_if(parameters.begin(), parameters.end(), IsScalerName);
    if (scaler == parameters.end() || facts.syntax.Text(node).find('*') != std::string_view::npos)
      continue;
    const int position = static_cast<int>(scaler - parameters.begin());
    if (facts.names.Argument(node, position, *scaler) != kNoNode) continue;
    const std::vector<NodeId> arguments = facts.names.Arguments(node);
    const bool optimizer = std::any_of(arguments.begin(), arguments.end(), [&](NodeId argument) {
      return facts.scalers.IsOptimizer(facts.names.Key(argument));
    });
    const FileFacts& there = *(*facts.files)[callee.module];
    const std::vector<SavedOptimizer> saved = FindSavedOptimizers(there);
    const NodeId saves = callee.function->node;
    if (!optimizer || std::none_of(saved.begin(), saved.end(), [&](const SavedOptimizer& one) {
          return one.function == saves;
        }))
      continue;
    sink.Add(node, callee.function->name +
                       "() would save the scaler's state too, and is not given "
                       "the scaler.")
        .guess = true;
  }
}

// True if some file of the project calls that method of a scaler, or of something called so.
bool CallsOnAnyScaler(const FileFacts& facts, const std::string& method) {
  return std::any_of(facts.files->begin(), facts.files->end(), [&](const FileFacts* file) {
    return !ScalerStateCalls(*file, method).empty() ||
           Holds(file->syntax.text(), "scaler." + method);
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

// The state is loaded where there is one, and nobody ever saves it: told at the model's.
void CheckSave(const FileFacts& facts, Sink& sink) {
  if (!NeedsState(facts) || ScalerStateCalls(facts, "load_state_dict").empty()) return;
  if (CallsOnAnyScaler(facts, "state_dict")) return;
  for (const struct Call* call : facts.names.CallsNamed("state_dict")) {
    const NodeId up = facts.syntax[call->node].parent;
    if (!facts.syntax.Is(up, Kind::kPair) &&
        !(facts.syntax.Is(up, Kind::kAssignment) &&
          facts.syntax.Is(facts.syntax.Child(up, PythonFields().left), Kind::kSubscript)))
      continue;
    sink.Add(call->node,
             "This goes into a checkpoint without the GradScaler's state, which is looked for "
             "when training resumes.")
        .guess = true;
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
  CheckClasses(facts, sink, &reported);
  CheckCalls(facts, sink);
  CheckResume(facts, sink);
  if (std::none_of(reported.begin(), reported.end(), [&](NodeId node) {
        return facts.syntax.Is(node, Kind::kFunction) || node == 0;
      }))
    CheckSave(facts, sink);
}

}  // namespace mpnanny::check::scaler_not_checkpointed
