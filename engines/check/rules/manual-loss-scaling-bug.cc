#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "engines/check/rule_support.h"

namespace mpnanny::check::manual_loss_scaling_bug {
namespace {

// Smaller factors are weights of a loss more often than scales.
constexpr double kSmallestScale = 64.0;

// The factor if the expression is a loss times a constant that is a power of two.
std::optional<double> ScaleIn(const FileFacts& facts, NodeId expression) {
  const Fields& f = PythonFields();
  const NodeId id = facts.syntax.Unwrap(expression);
  if (!facts.syntax.Is(id, Kind::kBinary) ||
      facts.syntax.Text(facts.syntax.Child(id, f.operator_)) != "*")
    return std::nullopt;
  for (const uint16_t side : {f.left, f.right}) {
    const auto value = facts.bindings.Number(facts.syntax.Child(id, side));
    int exponent = 0;
    if (value && *value >= kSmallestScale && std::frexp(*value, &exponent) == 0.5) return value;
  }
  return std::nullopt;
}

// True if the file touches gradients or computes with that constant anywhere else.
bool MayUnscale(const FileFacts& facts, double scale) {
  const Syntax& syntax = facts.syntax;
  for (NodeId id = 0; id < syntax.size(); ++id) {
    const Kind kind = syntax.kind(id);
    if (kind == Kind::kAttribute && syntax.Text(id).ends_with(".grad")) return true;
    const bool divides = (kind == Kind::kBinary || kind == Kind::kAugmentedAssignment) &&
                         syntax.Text(syntax.Child(id, PythonFields().operator_)).starts_with("/");
    if (divides && facts.bindings.Number(syntax.Child(id, PythonFields().right)) == scale)
      return true;
  }
  return false;
}

// params[0].grad.mul_(1 / scale): the gradient of one parameter of a list that is trained as a
// whole.
void CheckFirstOnly(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  for (const std::string_view name : {"mul_", "div_"}) {
    for (const struct Call* call : facts.names.CallsNamed(name)) {
      const std::string key = facts.names.Key(call->receiver);
      const size_t index = key.find("[0].grad");
      if (index == std::string::npos || index + 8 != key.size()) continue;
      if (syntax.Text(syntax.Child(call->node, PythonFields().arguments)).find("scale") ==
          std::string_view::npos)
        continue;
      const NodeId function = syntax.FunctionOf(call->node);
      const auto steps = facts.names.CallsNamed("step");
      const bool stepped = std::any_of(steps.begin(), steps.end(), [&](const struct Call* step) {
        return step->node > call->node && syntax.FunctionOf(step->node) == function &&
               facts.scalers.IsOptimizer(facts.names.Key(step->receiver));
      });
      if (!stepped) continue;
      sink.Add(call->node, "Only the first gradient of " + key.substr(0, index) +
                               " is divided by the loss scale before the step.")
          .guess = true;
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  CheckFirstOnly(facts, sink);
  if (!facts.project.sixteen_bit || facts.project.scaling_elsewhere) return;
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    if (call->receiver == kNoNode || facts.names.Argument(call->node, 0, "gradient") != kNoNode)
      continue;
    const auto scale = ScaleIn(facts, facts.bindings.ValueOf(call->receiver, 1));
    if (!scale) continue;
    const auto& steps = facts.names.CallsNamed("step");
    const bool stepped = std::any_of(steps.begin(), steps.end(), [&](const struct Call* step) {
      return step->node > call->node &&
             facts.syntax.FunctionOf(step->node) == facts.syntax.FunctionOf(call->node) &&
             facts.scalers.IsOptimizer(facts.names.Key(step->receiver));
    });
    if (!stepped || MayUnscale(facts, *scale)) continue;
    sink.Add(call->node, "The loss is multiplied by " + ShowNumber(*scale) +
                             ", and nothing divides the gradients by it before the step.");
  }
}

}  // namespace mpnanny::check::manual_loss_scaling_bug
