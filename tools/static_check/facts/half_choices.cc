#include "tools/static_check/facts/half_choices.h"

#include <algorithm>
#include <cctype>

#include "tools/static_check/facts/half_models.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// True for a name that holds a precision: precision, args.precision, trainer_precision.
bool NamesPrecision(std::string_view text) {
  return text.size() < 60 && text.ends_with("precision");
}

// What stands for the default of: the target of an assignment, a parameter, an option; "" for
// others.
std::string_view DefaultOf(const FileFacts& facts, NodeId id) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  for (NodeId up = syntax[id].parent; up != kNoNode; id = up, up = syntax[up].parent) {
    switch (syntax.kind(up)) {
      case Kind::kConditional:
        // The condition only asks for it.
        if (syntax.Children(up)[1] == id) return "";
        continue;
      case Kind::kBoolean:
      case Kind::kParenthesized:
        continue;
      case Kind::kAssignment:
        return syntax.Child(up, f.right) == id ? syntax.Text(syntax.Child(up, f.left)) : "";
      case Kind::kDefaultParameter:
      case Kind::kTypedDefaultParameter:
        return syntax.Text(syntax.Child(up, f.name));
      case Kind::kPair: {  // {"precision": "16-true"}
        std::string_view key = syntax.Text(syntax.Children(up)[0]);
        while (key.ends_with('"') || key.ends_with('\'')) key.remove_suffix(1);
        return key;
      }
      case Kind::kKeywordArgument: {
        // add_argument("--precision", default="16-true")
        const NodeId call = syntax[syntax[up].parent].parent;
        if (const Call* dict = facts.names.CallAt(call); dict != nullptr && dict->name == "dict")
          return syntax.Text(syntax.Child(up, f.name));
        if (syntax.Text(syntax.Child(up, f.name)) != "default" ||
            facts.names.Method(call) != "add_argument")
          return "";
        std::string_view option = syntax.Text(facts.names.Argument(call, 0, ""));
        while (option.ends_with('"') || option.ends_with('\'')) option.remove_suffix(1);
        return option;
      }
      default:
        return "";
    }
  }
  return "";
}

// True where something keeps FP32 weights beside the 16-bit ones, or what is trained is FP32.
bool KeepsFp32(std::string_view text) {
  return HoldsAny(text, {"deepspeed", "DeepSpeed", "master_weights", "master_params",
                         "cast_training_params", "stochastic_round", "Kahan", "MixedPrecision(",
                         "data.float()", "param.float()", "FP16_Optimizer", "FP16Optimizer"});
}

// True if the text holds what begins with a whole name: model.eval(), not eval_model.eval().
bool HoldsName(std::string_view text, std::string_view what) {
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before != '_' && before != '.' && std::isalnum(static_cast<unsigned char>(before)) == 0)
      return true;
  }
  return false;
}

// True if the function gives the model's parameters, or the model, to an optimizer or a Trainer
// behind `node`.
bool IsTrained(const FileFacts& facts, const std::string& model, NodeId node) {
  const NodeId function = facts.syntax.FunctionOf(node);
  const std::string_view text = facts.syntax.Text(function);
  if (HoldsName(text, model + ".requires_grad_(False)") || HoldsName(text, model + ".float()") ||
      HoldsName(text, model + ".to(torch.float32"))
    return false;
  const bool parameters =
      HoldsName(text, model + ".parameters()") || HoldsName(text, model + ".named_parameters()");
  for (const Call& call : facts.names.calls()) {
    if (call.node < node || facts.syntax.FunctionOf(call.node) != function) continue;
    if (call.name.ends_with("Trainer") &&
        facts.names.Key(facts.names.Argument(call.node, 0, "model")) == model)
      return true;
    const bool optimizer = (call.callee.starts_with("torch.optim.") || Holds(call.name, "Adam") ||
                            Holds(call.name, "ptimizer")) &&
                           !Holds(call.callee, "lr_scheduler") && !Holds(call.name, "scheduler");
    if (!optimizer) continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      if (facts.names.Key(argument) == model) return true;
      if (parameters && (Holds(facts.syntax.Text(argument), "param") ||
                         Holds(facts.syntax.Text(argument), "group")))
        return true;
    }
  }
  return false;
}

}  // namespace

std::vector<NodeId> DefaultPrecisions(const FileFacts& facts, std::string_view precision) {
  std::vector<NodeId> found;
  const std::string& text = facts.syntax.text();
  if (!Holds(text, precision) || !(Holds(text, "Fabric(") || Holds(text, "Trainer(")) ||
      !(facts.names.ImportsModule("lightning") || facts.names.ImportsModule("pytorch_lightning") ||
        facts.names.ImportsModule("lightning_fabric")))
    return found;
  if (!Holds(text, "ptim") && !Holds(text, ".fit(") && !Holds(text, "backward(")) return found;
  for (size_t at = text.find(precision); at != std::string::npos;
       at = text.find(precision, at + 1)) {
    const char quote = at == 0 ? ' ' : text[at - 1];
    const size_t end = at + precision.size();
    if ((quote != '"' && quote != '\'') || end >= text.size() || text[end] != quote) continue;
    NodeId id = facts.syntax.At(static_cast<uint32_t>(at));
    while (id != kNoNode && !facts.syntax.Is(id, Kind::kString)) id = facts.syntax[id].parent;
    if (id != kNoNode && MayTrain(facts, id) && NamesPrecision(DefaultOf(facts, id)))
      found.push_back(id);
  }
  return found;
}

TypeChoice ChoiceOf(const FileFacts& facts, NodeId dtype, int depth) {
  const NodeId id = facts.syntax.Unwrap(dtype);
  TypeChoice choice;
  if (id == kNoNode || depth == 0) return choice;
  const HalfType type = facts.regions.ReadHalfType(id);
  choice.fp16 = type == HalfType::kFp16;
  choice.bf16 = type == HalfType::kBf16;
  const auto add = [&](NodeId other) {
    const TypeChoice one = ChoiceOf(facts, other, depth - 1);
    choice.fp16 = choice.fp16 || one.fp16;
    choice.bf16 = choice.bf16 || one.bf16;
  };
  if (facts.syntax.Is(id, Kind::kConditional)) {
    const std::vector<NodeId> parts = facts.syntax.Children(id);
    if (parts.size() == 3) add(parts[0]), add(parts[2]);
  } else if (facts.syntax.Is(id, Kind::kIdentifier) && !choice.any()) {
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) add(assignment.value);
  }
  return choice;
}

std::vector<TrainedHalf> FindTrainedLoads(const FileFacts& facts) {
  std::vector<TrainedHalf> found;
  const std::string& text = facts.syntax.text();
  if (!Holds(text, "from_pretrained") || !Holds(text, "float16") || TrainsAdapters(facts) ||
      KeepsFp32(text) || !(Holds(text, "backward(") || Holds(text, ".train(")))
    return found;
  const std::vector<HalfOptimizer> proved = FindHalfOptimizers(facts);
  for (const Call* call : facts.names.CallsNamed("from_pretrained")) {
    NodeId dtype = facts.names.Argument(call->node, -1, "torch_dtype");
    if (dtype == kNoNode) dtype = facts.names.Argument(call->node, -1, "dtype");
    const TypeChoice type = ChoiceOf(facts, dtype);
    const NodeId assignment = facts.syntax[call->node].parent;
    if (!type.any() || !facts.syntax.Is(assignment, Kind::kAssignment) ||
        facts.names.Argument(call->node, -1, "quantization_config") != kNoNode)
      continue;
    const std::string model = facts.names.Key(facts.syntax.Child(assignment, PythonFields().left));
    const bool known = std::any_of(proved.begin(), proved.end(),
                                   [&](const HalfOptimizer& one) { return one.model == model; });
    if (!model.empty() && !known && IsTrained(facts, model, call->node))
      found.push_back({call->node, model, type});
  }
  return found;
}

std::vector<TrainedHalf> FindTrainedCasts(const FileFacts& facts) {
  std::vector<TrainedHalf> found;
  const std::string& text = facts.syntax.text();
  if (!Holds(text, "backward(") || TrainsAdapters(facts) || KeepsFp32(text)) return found;
  const std::vector<HalfOptimizer> proved = FindHalfOptimizers(facts);
  for (const std::string_view name : {"half", "bfloat16", "to"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      TypeChoice type{name == "half", name == "bfloat16"};
      const std::vector<NodeId> arguments = facts.names.Arguments(call->node);
      if (call->receiver == kNoNode || (name != "to" && !arguments.empty())) continue;
      for (const NodeId argument : arguments) {
        const HalfType to = facts.regions.ReadHalfType(argument);
        type.fp16 = type.fp16 || to == HalfType::kFp16;
        type.bf16 = type.bf16 || to == HalfType::kBf16;
      }
      if (!type.any()) continue;
      const NodeId statement = facts.syntax.StatementOf(call->node);
      const NodeId first = facts.syntax[statement].first_child;
      // A list of models, or a model that is cast in place or assigned again.
      std::string model = facts.names.Key(call->receiver);
      NodeId up = facts.syntax[call->node].parent;
      while (facts.syntax.Is(up, Kind::kAttribute)) {  // Net().half().cuda()
        const NodeId next = facts.syntax[up].parent;
        if (!facts.syntax.Is(next, Kind::kCall)) break;
        up = facts.syntax[next].parent;
      }
      if (facts.syntax.Is(first, Kind::kAssignment)) {
        const NodeId value = facts.syntax.Child(first, PythonFields().right);
        const bool list = facts.syntax.Text(value).starts_with("[");
        if (!list && up != first) continue;
        model = facts.names.Key(facts.syntax.Child(first, PythonFields().left));
      } else if (!facts.syntax.Is(up, Kind::kExpressionStatement)) {
        continue;
      }
      const bool known = std::any_of(proved.begin(), proved.end(),
                                     [&](const HalfOptimizer& one) { return one.model == model; });
      if (!model.empty() && !known && MayTrain(facts, call->node) &&
          IsTrained(facts, model, call->node))
        found.push_back({call->node, model, type});
    }
  }
  return found;
}

}  // namespace mpnanny::static_check
