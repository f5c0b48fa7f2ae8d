#include "tools/static_check/mixed_types/untyped_factories.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/type_ties.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

constexpr std::string_view kFactories[] = {"zeros",  "ones",   "empty",      "full",     "rand",
                                           "randn",  "eye",    "linspace",   "logspace", "arange",
                                           "tensor", "Tensor", "FloatTensor"};

// 0.5, 1e-3, float("inf") or a quotient stands in the text.
bool HoldsFloat(std::string_view text) {
  for (size_t at = text.find('.'); at != std::string_view::npos; at = text.find('.', at + 1)) {
    const bool digit = at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0;
    if (digit) return true;
  }
  return HoldsAny(text, {" / ", "inf", "math.pi", "e-"});
}

// torch.zeros(1), torch.zeros([]), torch.zeros((1,)): a sum that starts at zero; of one element it
// widens little, and of none nothing.
bool IsScalar(const FileFacts& facts, const Call& call) {
  const std::vector<NodeId> given = facts.names.Arguments(call.node);
  if (given.empty()) return true;
  const NodeId sizes = facts.syntax.Unwrap(given.front());
  if ((facts.syntax.Is(sizes, Kind::kTuple) || facts.syntax.Is(sizes, Kind::kList)) &&
      facts.syntax.Children(sizes).size() > 1)
    return false;
  std::string_view size = facts.syntax.Text(given.front());
  while (!size.empty() && (size.front() == '(' || size.front() == '[')) size.remove_prefix(1);
  size = size.substr(0, size.find_first_of(",)]"));
  const bool several =
      given.size() > 1 && !facts.syntax.Is(facts.syntax[given[1]].parent, Kind::kKeywordArgument);
  return !several && (size == "1" || size.empty() || size == "0");
}

// Whether the call makes a floating-point tensor, by its name and arguments.
bool MakesFloats(const FileFacts& facts, const Call& call) {
  const std::string_view name = call.name;
  const NodeId first = facts.names.Argument(call.node, 0, name == "tensor" ? "data" : "size");
  if (name == "FloatTensor" || name == "Tensor") return facts.names.Arguments(call.node).size() > 0;
  if (name == "tensor") {
    const NodeId data = facts.syntax.Unwrap(first);
    const bool list = facts.syntax.Is(data, Kind::kList) || facts.syntax.Is(data, Kind::kTuple);
    return list && HoldsFloat(facts.syntax.Text(data));
  }
  if (name == "arange") {
    const std::string_view arguments =
        facts.syntax.Text(facts.syntax.Child(call.node, PythonFields().arguments));
    if (HoldsFloat(arguments)) return true;
    // torch.arange(w) + 0.5
    const NodeId up = facts.syntax[call.node].parent;
    const std::string_view op = OperatorOf(facts, up);
    if (op == "/") return true;
    if (op.empty() || op == "//" || op == "%") return false;
    const auto other = facts.bindings.Number(facts.syntax.Child(
        up, facts.syntax.Child(up, PythonFields().left) == call.node ? PythonFields().right
                                                                     : PythonFields().left));
    return other && *other != static_cast<double>(static_cast<int64_t>(*other));
  }
  if (IsScalar(facts, call)) return false;
  if (name == "full") {
    const NodeId fill = facts.syntax.Unwrap(facts.names.Argument(call.node, 1, "fill_value"));
    if (fill == kNoNode || facts.syntax.Is(fill, Kind::kTrue) ||
        facts.syntax.Is(fill, Kind::kFalse) || facts.syntax.Is(fill, Kind::kIdentifier))
      return false;
    return HoldsFloat(facts.syntax.Text(fill));
  }
  return true;
}

// Only compared, or turned into a mask: torch.rand(n) < p, torch.ones(n, n).triu() == 1.
bool IsCompared(const FileFacts& facts, NodeId id) {
  const NodeId statement = facts.syntax.StatementOf(id);
  for (NodeId up = facts.syntax[id].parent; up != kNoNode && up != statement;
       up = facts.syntax[up].parent) {
    if (facts.syntax.Is(up, Kind::kComparison)) return true;
  }
  return false;
}

// The argument of a distribution: its samples have the type of what it is given.
bool GivesDistribution(const FileFacts& facts, NodeId id) {
  NodeId up = facts.syntax[id].parent;
  while (facts.syntax.Is(up, Kind::kArgumentList) || facts.syntax.Is(up, Kind::kKeywordArgument))
    up = facts.syntax[up].parent;
  const Call* call = facts.names.CallAt(up);
  return call != nullptr && HoldsAny(call->callee, {"distributions", "Uniform", "Normal"});
}

// nn.Parameter(torch.empty(n)) in a class or a file where parameters are given a type.
bool IsUntypedParameter(const FileFacts& facts, const Call& call) {
  NodeId up = facts.syntax[call.node].parent;
  if (facts.syntax.Is(up, Kind::kArgumentList)) up = facts.syntax[up].parent;
  const Call* outer = facts.names.CallAt(up);
  if (outer == nullptr || outer->name != "Parameter") return false;
  const NodeId klass = facts.syntax.Enclosing(call.node, Kind::kClass);
  if (klass == kNoNode) return false;
  const std::string_view name = facts.syntax.Text(facts.syntax.Child(klass, PythonFields().name));
  if (HoldsAny(name, {"Lora", "LoRA", "Adapter"})) return true;
  return HoldsAny(facts.syntax.Text(klass),
                  {"params_dtype", "param_dtype", "dtype=dtype", "factory_kwargs", "cfg.dtype",
                   "config.dtype", "torch_dtype"}) ||
         HoldsAny(facts.syntax.text(), {"params_dtype", "megatron"});
}

}  // namespace

std::vector<UnlikeWrite> FindUntypedFactories(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  for (const std::string_view name : kFactories) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.") ||
          facts.names.Argument(call->node, -1, "dtype") != kNoNode ||
          facts.names.Argument(call->node, -1, "out") != kNoNode)
        continue;
      const std::string_view text = facts.syntax.Text(call->node);
      if (Holds(text, "**")) continue;
      if (name != "arange" && name != "tensor" && IsUntypedParameter(facts, *call)) {
        found.push_back({call->node,
                         "A parameter without dtype= is FP32: where the others take the type that "
                         "the model is built with, a product of the two fails, or what follows is "
                         "promoted to FP32."});
        continue;
      }
      const bool distribution = GivesDistribution(facts, call->node);
      if (!(distribution || MakesFloats(facts, *call)) || IsCompared(facts, call->node) ||
          !IsModelCode(facts, call->node) || IsTiedLater(facts, call->node))
        continue;
      found.push_back({call->node,
                       "This is FP32 whatever the model runs in: beside 16-bit activations it "
                       "makes the result FP32, which a layer of a cast model refuses, and what is "
                       "16-bit cannot be written into it by an index. dtype=x.dtype or x.new_…() "
                       "takes their type."});
    }
  }
  return found;
}

}  // namespace mpnanny::static_check
