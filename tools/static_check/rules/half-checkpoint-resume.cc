#include <set>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::half_checkpoint_resume {
namespace {

// A model.half() inside the expression, kNoNode if there is none.
NodeId HalfIn(const FileFacts& facts, NodeId expression) {
  if (expression == kNoNode) return kNoNode;
  for (NodeId id = expression; id < facts.syntax[expression].after; ++id) {
    if (facts.names.Method(id) == "half" && facts.names.Argument(id, 0, "") == kNoNode) return id;
  }
  return kNoNode;
}

// True if the text asks in which precision something is, or is meant for use only.
bool AsksForPrecision(std::string_view text) {
  return HoldsAny(text, {"half", "fp16", "float16", "dtype", "precision"});
}

// A function that writes a state, by what it calls or how it is called, and no export.
bool SavesState(const FileFacts& facts, NodeId function) {
  const std::string_view text = facts.syntax.Text(function);
  const std::string name =
      LowerCase(facts.syntax.Text(facts.syntax.Child(function, PythonFields().name)));
  if (HoldsAny(name, {"export", "convert", "merge", "strip", "quant", "half", "fp16", "infer"}))
    return false;
  return Holds(name, "save") || HoldsAny(text, {"torch.save(", "save_file("});
}

// {k: v.half() for k, v in model.state_dict().items()} in what saves: FP16 whatever the run is in.
void GuessSavedState(const FileFacts& facts, std::set<NodeId>* reported, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  // Tools that only work on files of weights have no run whose type they could keep.
  if (!facts.project.HasHalfChoice() || !Holds(syntax.text(), "save") ||
      !HoldsAny(syntax.text(), {"optim", "trainable", "requires_grad", "Trainer", "train("}) ||
      HoldsAny(LowerCase(facts.path), {"export", "convert", "merge", "quant"}))
    return;
  for (const std::string_view name : {"half", "to", "type"}) {
    for (const struct Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || !call->callee.empty()) continue;
      const std::vector<NodeId> arguments = facts.names.Arguments(call->node);
      bool half = name == "half" && arguments.empty();
      for (const NodeId argument : arguments)
        half = half || (Holds(syntax.Text(argument), "torch.") &&
                        facts.regions.ReadHalfType(argument) == HalfType::kFp16);
      const NodeId function = syntax.FunctionOf(call->node);
      if (!half || function == 0 || !SavesState(facts, function)) continue;
      bool state = Holds(syntax.Text(syntax.StatementOf(call->node)), "state_dict");
      bool asked = false;
      for (NodeId up = syntax[call->node].parent; up > function; up = syntax[up].parent) {
        const NodeId condition = syntax.Child(up, PythonFields().condition);
        const std::string_view over = syntax.Text(syntax.Child(up, PythonFields().right));
        state = state || (syntax.Is(up, Kind::kFor) && HoldsAny(over, {"state_dict", "state"}));
        asked = asked || AsksForPrecision(LowerCase(syntax.Text(condition))) ||
                syntax.Is(up, Kind::kConditional);
      }
      if (!state || asked || !reported->insert(call->node).second) continue;
      MarkGuess(sink.Add(call->node,
                         "Saved in FP16 whatever type training runs in: weights of a BF16 or FP32 "
                         "run lose what is below 6e-8 and above 65504, and those of FP32 13 bits "
                         "more. Save them in the type of the run."));
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  std::set<NodeId> reported, told;
  for (const struct Call* call : facts.names.CallsNamed("save")) {
    if (call->callee != "torch.save") continue;
    const NodeId dict = SavedTraining(facts, call->node);
    if (dict == kNoNode || !reported.insert(dict).second) continue;
    for (const NodeId pair : facts.syntax.Children(dict)) {
      const NodeId half = HalfIn(facts, facts.syntax.Child(pair, PythonFields().value));
      if (half == kNoNode) continue;
      sink.Add(half);
      told.insert(half);
    }
  }
  GuessSavedState(facts, &told, sink);
}

}  // namespace mpnanny::static_check::half_checkpoint_resume
