#include "engines/check/facts/fill_values.h"

#include <cmath>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

// The constant of self.masked_bias, also cast to a dtype, where __init__ registers it as a buffer.
std::optional<double> BufferConstant(const FileFacts& facts, NodeId expression) {
  NodeId id = facts.syntax.Unwrap(expression);
  const std::string_view method = facts.names.Method(id);
  if (method == "to" || method == "type_as") id = facts.syntax.Unwrap(facts.names.Receiver(id));
  const std::string_view key = facts.syntax.Text(id);
  if (!key.starts_with("self.")) return std::nullopt;
  const NodeId klass = facts.syntax.Enclosing(expression, Kind::kClass);
  for (const Call* call : facts.names.CallsNamed("register_buffer")) {
    const std::string_view name = facts.syntax.Text(facts.names.Argument(call->node, 0, "name"));
    if (facts.syntax.Enclosing(call->node, Kind::kClass) == klass && name.size() > 2 &&
        name.substr(1, name.size() - 2) == key.substr(5))
      return Constant(facts, facts.names.Argument(call->node, 1, "tensor"));
  }
  return std::nullopt;
}

}  // namespace

bool IsTooLarge(std::optional<double> value) {
  return value && std::isfinite(*value) && std::fabs(*value) > kFp16Max;
}

std::optional<double> Written(const FileFacts& facts, NodeId expression) {
  if (const auto number = Constant(facts, expression)) return number;
  if (const auto buffer = BufferConstant(facts, expression)) return buffer;
  const NodeId id = Traced(facts, expression);
  if (const auto full = TracedCall(facts, id, {"full_like"}))
    return Constant(facts, ArgumentOf(facts, *full, 0, "fill_value"));
  if (OperatorOf(facts, id) != "*") return std::nullopt;
  const NodeId left = facts.syntax.Child(id, PythonFields().left);
  const NodeId right = facts.syntax.Child(id, PythonFields().right);
  if (TracedCall(facts, right, {"ones_like"})) return Constant(facts, left);
  return TracedCall(facts, left, {"ones_like"}) ? Constant(facts, right) : std::nullopt;
}

}  // namespace mpnanny::check
