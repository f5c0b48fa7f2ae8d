#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/facts/half_models.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::ema_in_half {
namespace {

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

// The model whose parameters() the loop variable runs over, also beside others in zip(); of p.data
// that of p.
NodeId ModelOfLoop(const FileFacts& facts, NodeId variable) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  if (syntax.Is(variable, Kind::kAttribute) &&
      syntax.Text(syntax.Child(variable, f.attribute)) == "data")
    variable = syntax.Child(variable, f.object);
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

}  // namespace

// Averages by what is done, whatever they are called: the share of the new weights is so small that
// it is less than half an ulp of the average, unless the two differ by more than the average is.
void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
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

}  // namespace mpnanny::check::ema_in_half
