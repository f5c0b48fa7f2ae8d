#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "engines/check/facts/half_models.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::ema_in_half {
namespace {

bool NamesAverage(std::string_view key) {
  const std::string text = LowerCase(key);
  if (Holds(text, "shadow") || Holds(text, "averaged") || Holds(text, "moving_average") ||
      Holds(text, "swa_model"))
    return true;
  // "ema" as a word of its own: not schema, nor remap.
  for (size_t at = text.find("ema"); at != std::string::npos; at = text.find("ema", at + 1)) {
    const bool begins = at == 0 || !std::isalpha(static_cast<unsigned char>(text[at - 1]));
    const bool ends =
        at + 3 == text.size() || !std::isalpha(static_cast<unsigned char>(text[at + 3]));
    if (begins && ends) return true;
  }
  return false;
}

bool IsCast(const FileFacts& facts, const Call& call) {
  if (call.method == "half" || call.method == "bfloat16")
    return facts.names.Arguments(call.node).empty();
  for (const NodeId argument : facts.names.Arguments(call.node)) {
    if (facts.regions.ReadHalfType(argument) != HalfType::kUnknown) return true;
  }
  return false;
}

// What a name may be: one of its assignments is a 16-bit type, or a choice that names one.
bool MayBeHalfType(const FileFacts& facts, NodeId expression) {
  if (facts.regions.ReadHalfType(expression) != HalfType::kUnknown) return true;
  const NodeId id = facts.syntax.Unwrap(expression);
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return false;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
    if (assignment.value == kNoNode) continue;
    if (facts.regions.ReadHalfType(assignment.value) != HalfType::kUnknown) return true;
    if (!facts.syntax.Is(assignment.value, Kind::kConditional)) continue;
    for (const NodeId part : facts.syntax.Children(assignment.value)) {
      if (facts.regions.ReadHalfType(part) != HalfType::kUnknown) return true;
    }
  }
  return false;
}

// The model has been cast to what is, or may be, a 16-bit type where it was made.
bool IsMadeInHalf(const FileFacts& facts, NodeId model) {
  // As it was last assigned before the copy is taken.
  NodeId value = kNoNode;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(model)) {
    if (assignment.target < model) value = assignment.value;
  }
  for (NodeId id = facts.syntax.Unwrap(value); facts.syntax.Is(id, Kind::kCall);
       id = facts.names.Receiver(id)) {
    const Call* call = facts.names.CallAt(id);
    if (call == nullptr || call->receiver == kNoNode) return false;
    if (call->name == "float") return false;
    if (call->name == "half" || call->name == "bfloat16") return true;
    if (call->name != "to") continue;
    for (const NodeId argument : facts.names.Arguments(id)) {
      if (MayBeHalfType(facts, argument)) return true;
    }
    if (MayBeHalfType(facts, facts.names.Argument(id, -1, "dtype"))) return true;
  }
  return false;
}

// True if the chain of methods around the copy makes it FP32, or another type again.
bool IsCastAfterwards(const FileFacts& facts, NodeId copy) {
  NodeId id = copy;
  for (NodeId up = facts.syntax[id].parent; up != kNoNode; up = facts.syntax[up].parent) {
    const Kind kind = facts.syntax.kind(up);
    if (kind != Kind::kAttribute && kind != Kind::kCall) break;
    if (kind == Kind::kCall) id = up;
  }
  const std::string_view rest = facts.syntax.Text(id).substr(facts.syntax.Text(copy).size());
  return rest.find("float") != std::string_view::npos ||
         rest.find("dtype") != std::string_view::npos;
}

// The average is made, not only looked at, in this file.
bool Updates(const FileFacts& facts) {
  const std::string& text = facts.syntax.text();
  return Holds(text, "decay") || Holds(text, "lerp_") || Holds(text, "update_parameters") ||
         Holds(text, "ema.update") || Holds(text, "ema.step");
}

// What is moved off the GPU before it is cast is to be saved: copy.deepcopy(ema).cpu().half().
bool IsMovedAway(const FileFacts& facts, const Call& cast) {
  for (const Call* call = facts.names.CallAt(cast.receiver); call != nullptr;
       call = facts.names.CallAt(call->receiver)) {
    if (call->method == "cpu") return true;
  }
  return false;
}

bool IsSavedOrLoaded(const FileFacts& facts, NodeId node) {
  for (NodeId up = facts.syntax[node].parent; up != kNoNode; up = facts.syntax[up].parent) {
    const Kind kind = facts.syntax[up].kind;
    if (kind == Kind::kFunction) break;
    if (kind == Kind::kDictionary || kind == Kind::kPair) return true;
    if (const Call* call = facts.names.CallAt(up);
        call != nullptr && (call->name == "save" || call->name == "export"))
      return true;
  }
  const std::string_view name =
      facts.syntax.Text(facts.syntax.Child(facts.syntax.FunctionOf(node), PythonFields().name));
  return name.find("save") != std::string_view::npos ||
         name.find("load") != std::string_view::npos ||
         name.find("state_dict") != std::string_view::npos;
}

// The variable or attribute to which the value at `node` goes, or on which a statement works.
std::string Destination(const FileFacts& facts, const Call& call) {
  const Fields& f = PythonFields();
  NodeId id = call.node;
  for (NodeId up = facts.syntax[id].parent; up != kNoNode; up = facts.syntax[up].parent) {
    switch (facts.syntax.kind(up)) {
      case Kind::kAssignment: {
        const NodeId left = facts.syntax.Child(up, f.left);
        const NodeId array =
            facts.syntax.Is(left, Kind::kSubscript) ? facts.syntax.Child(left, f.value) : left;
        return facts.names.Key(array);
      }
      case Kind::kExpressionStatement: {
        NodeId root = call.node;
        while (facts.syntax.Is(root, Kind::kCall)) root = facts.names.Receiver(root);
        return root == kNoNode ? "" : facts.names.Key(root);
      }
      case Kind::kAttribute:
      case Kind::kCall:
      case Kind::kParenthesized:
      case Kind::kBinary:
      case Kind::kConditional:
        break;
      default:
        return "";
    }
  }
  return "";
}

// The share of the new value in `a.mul_(d).add_(p, alpha=1 - d)` and `a.lerp_(p, 1 - d)`, where the
// text has it and the two agree.
std::optional<double> ShareOfNew(const FileFacts& facts, const TorchCall& call) {
  if (call.name == "lerp_") return Constant(facts, ArgumentOf(facts, call, 1, "weight"));
  const auto scaled = TorchCallAt(facts, call.tensor);
  const auto share = Constant(facts, ArgumentOf(facts, call, 1, "alpha"));
  if (!scaled || scaled->name != "mul_" || !share) return std::nullopt;
  const auto kept = Constant(facts, ArgumentOf(facts, *scaled, 0, "other"));
  return kept && std::abs(*kept + *share - 1) < 1e-9 ? share : std::nullopt;
}

// The model whose parameters() the loop variable runs over, also beside others in zip().
NodeId ModelOfLoop(const FileFacts& facts, NodeId variable) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  for (NodeId up = syntax.Enclosing(variable, Kind::kFor); up != kNoNode;
       up = syntax.Enclosing(up, Kind::kFor)) {
    const NodeId left = syntax.Child(up, f.left);
    NodeId over = syntax.Unwrap(syntax.Child(up, f.right));
    std::vector<NodeId> targets{left};
    if (syntax.Is(left, Kind::kPatternList) || syntax.Is(left, Kind::kTuple))
      targets = syntax.Children(left);
    const auto at = std::find_if(targets.begin(), targets.end(), [&](NodeId target) {
      return syntax.Text(target) == syntax.Text(variable);
    });
    if (at == targets.end()) continue;
    const auto place = static_cast<size_t>(at - targets.begin());
    if (facts.names.Method(over) == "zip" || syntax.Text(syntax.Child(over, f.function)) == "zip") {
      const std::vector<NodeId> all = facts.names.Arguments(over);
      over = place < all.size() ? syntax.Unwrap(all[place]) : kNoNode;
    }
    return facts.names.Method(over) == "parameters" ? facts.names.Receiver(over) : kNoNode;
  }
  return kNoNode;
}

// The 16-bit type that the weights of the model were cast to where it is used, or where callers in
// this file hand it in.
HalfType CastOf(const FileFacts& facts, const std::vector<WeightCast>& casts, NodeId model) {
  const std::string key = facts.names.Key(model);
  const auto at = [&](const std::string& name, NodeId use) {
    const WeightCast* cast = CastAt(facts, casts, name, use);
    return cast != nullptr && RunsBefore(facts, cast->origin, use) ? cast->type
                                                                   : HalfType::kUnknown;
  };
  if (const HalfType type = at(key, model); type != HalfType::kUnknown) return type;
  const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(model));
  if (function == nullptr) return HalfType::kUnknown;
  const auto& names = function->parameters;
  const auto place = std::find(names.begin(), names.end(), key);
  if (place == names.end()) return HalfType::kUnknown;
  for (const CallEdge& edge : facts.modules->Edges(facts.number)) {
    if (edge.callee.function != function) continue;
    const NodeId given =
        facts.names.Argument(edge.call, static_cast<int>(place - names.begin()), key);
    if (const HalfType type = at(facts.names.Key(given), edge.call); type != HalfType::kUnknown)
      return type;
  }
  return HalfType::kUnknown;
}

// Averages by what is done, whatever they are called: the share of the new weights is so small that
// it is less than half an ulp of the average, unless the two differ by more than the average is.
void CheckUpdates(const FileFacts& facts, Sink& sink) {
  std::vector<WeightCast> casts;
  ForEachTorchCall(facts, {"add_", "lerp_"}, [&](const TorchCall& call) {
    const auto share = call.is_method ? ShareOfNew(facts, call) : std::nullopt;
    if (!share || *share <= 0 || *share > 0x1p-9) return;
    NodeId average = facts.syntax.Unwrap(call.tensor);
    if (call.name == "add_") average = facts.syntax.Unwrap(TorchCallAt(facts, average)->tensor);
    const NodeId model = ModelOfLoop(facts, average);
    if (model == kNoNode) return;
    if (casts.empty()) casts = FindWeightCasts(facts);
    const HalfType type = CastOf(facts, casts, model);
    if (type == HalfType::kUnknown || (type == HalfType::kFp16 && *share > 0x1p-12)) return;
    sink.Add(call.node, std::string("This average of weights is ") +
                            (type == HalfType::kFp16 ? "FP16" : "BF16") + ", and " +
                            ShowNumber(*share) +
                            " of what a weight has moved is less than half of its step: it stays "
                            "where it is.");
  });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  CheckUpdates(facts, sink);
  if (!Updates(facts)) return;
  for (const std::string_view name : {"half", "bfloat16", "to"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || !IsCast(facts, *call)) continue;
      // Evaluation runs it in 16 bits and may; so may a copy that is saved.
      const NodeId function = facts.syntax.FunctionOf(call->node);
      if (IsSavedOrLoaded(facts, call->node) || IsMovedAway(facts, *call) ||
          !MayTrain(facts,
                    function == 0 ? call->node : facts.syntax.Child(function, PythonFields().body)))
        continue;
      if (!NamesAverage(Destination(facts, *call))) continue;
      sink.Add(call->node);
    }
  }
  for (const std::string_view name : {"AveragedModel", "ModelEMA", "ModelEma", "ModelEmaV2",
                                      "EMAModel", "EMA", "ExponentialMovingAverage"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const auto cast = TorchCallAt(facts, facts.names.Argument(call->node, 0, "model"));
      if (!cast || !cast->is_method) continue;
      const Call* inner = facts.names.CallAt(cast->node);
      if ((cast->name == "half" || cast->name == "bfloat16" || cast->name == "to") &&
          IsCast(facts, *inner))
        sink.Add(call->node);
    }
    for (const Call* call : facts.names.CallsNamed(name)) {
      const NodeId type = facts.names.Argument(call->node, -1, "dtype");
      if (type == kNoNode || !MayBeHalfType(facts, type)) continue;
      RawFinding& finding = sink.Add(call->node, "The moving average of the weights is kept in " +
                                                     std::string(facts.syntax.Text(type)) +
                                                     ", which is or may be a 16-bit type.");
      if (facts.regions.ReadHalfType(type) == HalfType::kUnknown) {
        finding.confidence = "medium";
        finding.form = "may-be-half";
      }
    }
  }
  // The copy of a model that was cast is in its dtype.
  for (const Call* copy : facts.names.CallsNamed("deepcopy")) {
    const NodeId model = facts.names.Argument(copy->node, 0, "x");
    if (!NamesAverage(Destination(facts, *copy)) || !IsMadeInHalf(facts, model) ||
        IsCastAfterwards(facts, copy->node) || IsSavedOrLoaded(facts, copy->node))
      continue;
    RawFinding& finding =
        sink.Add(copy->node, "The moving average is a copy of " +
                                 std::string(facts.syntax.Text(model).substr(0, 40)) +
                                 ", which was cast to a type that is or may be 16-bit.");
    finding.confidence = "medium";
    finding.form = "may-be-half";
  }
}

}  // namespace mpnanny::check::ema_in_half
