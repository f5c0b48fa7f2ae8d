#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/facts/autograd_functions.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::custom_function_no_custom_fwd {

// The variable below views of it: grad of grad.t().contiguous().
static std::string_view Root(const FileFacts& facts, NodeId id) {
  const Fields& f = PythonFields();
  for (int depth = 0; depth < 8; ++depth) {
    id = facts.syntax.Unwrap(id);
    const Call* call = facts.names.CallAt(id);
    if (call != nullptr) {
      for (const std::string_view view : {"t", "view", "reshape", "transpose", "contiguous",
                                          "permute", "flatten", "unsqueeze", "squeeze"}) {
        if (call->method == view) id = call->receiver;
      }
      if (facts.syntax.Is(id, Kind::kCall)) return {};
    } else if (facts.syntax.Is(id, Kind::kAttribute) &&
               facts.syntax.Text(facts.syntax.Child(id, f.attribute)).ends_with("T")) {
      id = facts.syntax.Child(id, f.object);
    } else {
      break;
    }
  }
  return facts.syntax.Is(id, Kind::kIdentifier) ? facts.syntax.Text(id) : std::string_view{};
}

static bool IsWeight(std::string_view name) {
  return name == "w" || name.find("weight") != std::string_view::npos ||
         name.find("kernel") != std::string_view::npos;
}

// True if forward() is given weights: those are FP32 under autocast, activations are mostly 16-bit.
static bool TakesWeights(const FileFacts& facts, NodeId forward) {
  for (const Function& function : facts.bindings.functions()) {
    if (function.node != forward) continue;
    return std::any_of(function.parameters.begin(), function.parameters.end(), IsWeight);
  }
  return false;
}

// True if backward() gives the gradient itself to a product or a kernel: there its 16 bits meet
// the FP32 of what was saved. Arithmetic before that would have promoted it.
static bool MultipliesGradient(const FileFacts& facts, NodeId backward) {
  const Fields& f = PythonFields();
  std::string gradient;
  for (const Function& function : facts.bindings.functions()) {
    if (function.node == backward && function.parameters.size() > 1)
      gradient = function.parameters[1];
  }
  if (gradient.empty() || gradient[0] == '*') return false;
  const Syntax& syntax = facts.syntax;
  for (NodeId id = backward; id < syntax[backward].after; ++id) {
    if (!IsCastOperation(facts, id)) continue;
    if (syntax.Is(id, Kind::kBinary)) {
      if (Root(facts, syntax.Child(id, f.left)) == gradient ||
          Root(facts, syntax.Child(id, f.right)) == gradient)
        return true;
      continue;
    }
    const Call* call = facts.names.CallAt(id);
    if (call->receiver != kNoNode && Root(facts, call->receiver) == gradient) return true;
    for (const NodeId argument : facts.names.Arguments(id)) {
      if (Root(facts, argument) == gradient) return true;
    }
  }
  return false;
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.trains_under_autocast) return;
  const std::vector<AutogradFunction> functions = FindAutogradFunctions(facts);
  if (functions.empty()) return;
  // Wrappers that cast before they apply the function, as apex has them.
  if (Holds(facts.syntax.text(), "cast_if_autocast")) return;
  for (const AutogradFunction& function : functions) {
    const std::string name(
        facts.syntax.Text(facts.syntax.Child(function.klass, PythonFields().name)));
    if (function.custom_fwd != function.custom_bwd) {
      sink.Add(function.custom_fwd ? function.backward : function.forward,
               function.custom_fwd ? "forward() of " + name +
                                         " has custom_fwd and backward() no custom_bwd: they "
                                         "run under different autocast states."
                                   : "backward() of " + name +
                                         " has custom_bwd and forward() no custom_fwd, which "
                                         "is to remember the autocast state for it.");
      continue;
    }
    // One that casts, or asks whether autocast is on, minds its dtypes itself; what is complex, or
    // decomposes matrices, does not run in 16 bits.
    if (function.custom_fwd ||
        NamesAny(facts, function.klass,
                 {"autocast", "amp", "dtype", "float", "half", "type_as", "fft", "linalg"}) ||
        FirstCastOperation(facts, function.forward) == kNoNode ||
        !TakesWeights(facts, function.forward) || !MultipliesGradient(facts, function.backward))
      continue;
    sink.Add(function.forward, name +
                                   " multiplies matrices in forward() and backward() without "
                                   "custom_fwd and custom_bwd, in a project that uses autocast.");
  }
}

}  // namespace mpnanny::check::custom_function_no_custom_fwd
