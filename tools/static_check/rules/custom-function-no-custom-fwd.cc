#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tools/static_check/facts/autograd_functions.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/precision_setup.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::custom_function_no_custom_fwd {

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

// True if the function, or one of the project that it calls, multiplies; with `gradients` only one
// that has names for gradients.
static bool Multiplies(const FileFacts& facts, NodeId function, bool gradients, int depth) {
  if ((!gradients || NamesAny(facts, function, {"grad"})) &&
      FirstCastOperation(facts, function) != kNoNode)
    return true;
  if (depth == 0) return false;
  for (NodeId id = function; id < facts.syntax[function].after; ++id) {
    if (facts.syntax[id].kind != Kind::kCall) continue;
    const Definition callee = facts.Callee(id);
    if (callee.function != nullptr && callee.function->node != 0 &&
        Multiplies(*(*facts.files)[callee.module], callee.function->node, gradients, depth - 1))
      return true;
  }
  return false;
}

// True if values are converted in backward(), or weights in forward(): it minds their types.
static bool Converts(const FileFacts& facts, const AutogradFunction& function) {
  for (const Call& call : facts.names.calls()) {
    if (call.receiver == kNoNode) continue;
    bool cast = false;
    for (const std::string_view name : {"to", "type", "type_as", "float", "half", "bfloat16"})
      cast = cast || call.method == name;
    if (!cast) continue;
    if (IsInside(facts, call.node, function.backward) ||
        (IsInside(facts, call.node, function.forward) && IsWeight(Root(facts, call.receiver))))
      return true;
  }
  return false;
}

// What is not proved: a library whose callers use autocast, products in functions that it calls.
static void Guess(const FileFacts& facts, const AutogradFunction& function, std::string_view name,
                  Sink& sink) {
  if (!facts.project.sixteen_bit || !TakesWeights(facts, function.forward) ||
      NamesAny(facts, function.klass, {"autocast", "custom_fwd", "fft", "linalg", "complex"}) ||
      Converts(facts, function))
    return;
  if (!MultipliesGradient(facts, function.backward) &&
      !Multiplies(facts, function.backward, false, 2) &&
      !Multiplies(facts, function.forward, true, 2))
    return;
  MarkGuess(sink.Add(function.forward,
                     std::string(name) +
                         " multiplies weights for a gradient and has no custom_fwd and custom_bwd: "
                         "under autocast the 16-bit gradient meets FP32 weights."));
}

// kernel(input, weight, …): an extension gets weights beside activations as they come.
static void GuessKernel(const FileFacts& facts, const AutogradFunction& function,
                        std::string_view name, Sink& sink) {
  if (!facts.project.HasHalfChoice() || Converts(facts, function) ||
      HoldsAny(facts.syntax.Text(function.klass),
               {"autocast", "custom_fwd", "type_as", ".float()"}))
    return;
  for (const Call& call : facts.names.calls()) {
    if (!IsInside(facts, call.node, function.forward) || !TorchFunction(call.callee).empty() ||
        HoldsAny(call.name, {"save_for_backward", "mark_", "print", "isinstance", "size"}))
      continue;
    bool weight = false;
    bool other = false;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      const std::string_view root = Root(facts, argument);
      if (root.empty() || root == "ctx") continue;
      (IsWeight(root) ? weight : other) = true;
    }
    if (!weight || !other) continue;
    MarkGuess(sink.Add(function.forward,
                       std::string(name) +
                           " gives a kernel its weights as they are and has no custom_fwd: under "
                           "autocast the activations are 16-bit and the weights FP32."));
    return;
  }
}

// backward() casts what was saved to one type and takes the gradient as it comes.
static void GuessGradient(const FileFacts& facts, const AutogradFunction& function, Sink& sink) {
  const Function* backward = facts.bindings.FunctionAt(function.backward);
  if (!facts.project.HasHalfChoice() || backward == nullptr || backward->parameters.size() < 2)
    return;
  const std::string& gradient = backward->parameters[1];
  const std::string_view body = facts.syntax.Text(function.backward);
  if (gradient.starts_with("*") || !HoldsAny(body, {".to(dtype)", ".to(compute_dtype)", ".dtype)"}))
    return;
  bool casts = false;
  for (const Call* call : facts.names.CallsNamed("to")) {
    if (!IsInside(facts, call->node, function.backward) || call->receiver == kNoNode) continue;
    const std::string_view to = facts.syntax.Text(facts.names.Argument(call->node, 0, "dtype"));
    if (!Holds(to, "dtype")) continue;
    if (Root(facts, call->receiver) == gradient) return;
    // A result that goes back is cast last: only what is multiplied counts.
    casts = casts || !facts.syntax.Is(facts.syntax.StatementOf(call->node), Kind::kReturn);
  }
  if (!casts ||
      HoldsAny(body, {gradient + ".float()", gradient + ".type", "(" + gradient + ".to("}))
    return;
  MarkGuess(sink.Add(function.backward,
                     "backward() casts what was saved and takes " + gradient +
                         " as it comes: where the gradient has another type than the compute type, "
                         "as under autocast, the products of the two fail."));
}

// `if amp: q = q.float()` before Kernel.apply(q), where amp is False unless a caller says so: the
// kernel takes FP32 only, and autocast can be asked about.
static void GuessFlag(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  for (const Call* call : facts.names.CallsNamed("apply")) {
    const std::string_view klass = syntax.Text(call->receiver);
    if (call->receiver == kNoNode || klass.empty() || klass.front() < 'A' || klass.front() > 'Z')
      continue;
    const Function* function = facts.bindings.FunctionAt(syntax.FunctionOf(call->node));
    if (function == nullptr || function->node == 0 || !facts.project.HasHalfChoice() ||
        Holds(syntax.Text(function->node), "is_autocast_enabled"))
      continue;
    const auto off = [&](std::string_view text) {
      return std::any_of(
          function->parameters.begin(), function->parameters.end(), [&](const std::string& name) {
            const NodeId value = facts.bindings.ParameterDefault(function->node, name);
            return value != kNoNode && syntax.Is(value, Kind::kFalse) && name.size() > 2 &&
                   Holds(text, name);
          });
    };
    for (const NodeId id : facts.assignments) {
      if (id <= function->node || id >= call->node) continue;
      const NodeId branch = syntax.Enclosing(id, Kind::kIf);
      if (branch == kNoNode || !IsInside(facts, branch, function->node) ||
          IsInside(facts, call->node, branch) ||
          !Holds(syntax.Text(syntax.Child(id, f.right)), ".float()"))
        continue;
      const NodeId condition = syntax.Child(branch, f.condition);
      const NodeId value = facts.bindings.ValueOf(condition);
      if (!off(syntax.Text(condition)) && (value == kNoNode || !off(syntax.Text(value)))) continue;
      MarkGuess(sink.Add(call->node,
                         "This kernel gets FP32 only where a flag says so that is off by default: "
                         "under autocast it is handed 16 bits, or two types. Ask "
                         "torch.is_autocast_enabled(), or give it custom_fwd(cast_inputs=...)."));
      break;
    }
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessFlag(facts, sink);
  const std::vector<AutogradFunction> functions = FindAutogradFunctions(facts);
  if (functions.empty()) return;
  // Wrappers that cast before they apply the function, as apex has them.
  if (Holds(facts.syntax.text(), "cast_if_autocast")) return;
  for (const AutogradFunction& function : functions) {
    const bool trains = facts.project.trains_under_autocast;
    const std::string name(
        facts.syntax.Text(facts.syntax.Child(function.klass, PythonFields().name)));
    GuessGradient(facts, function, sink);
    if (function.custom_fwd != function.custom_bwd) {
      if (!trains) continue;
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
    if (function.custom_fwd) continue;
    if (!trains ||
        NamesAny(facts, function.klass,
                 {"autocast", "amp", "dtype", "float", "half", "type_as", "fft", "linalg"})) {
      Guess(facts, function, name, sink);
      GuessKernel(facts, function, name, sink);
      continue;
    }
    if (FirstCastOperation(facts, function.forward) == kNoNode ||
        !TakesWeights(facts, function.forward) || !MultipliesGradient(facts, function.backward)) {
      Guess(facts, function, name, sink);
      GuessKernel(facts, function, name, sink);
      continue;
    }
    sink.Add(function.forward, name +
                                   " multiplies matrices in forward() and backward() without "
                                   "custom_fwd and custom_bwd, in a project that uses autocast.");
  }
}

}  // namespace mpnanny::static_check::custom_function_no_custom_fwd
