#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/facts/autocast_callers.h"
#include "engines/check/facts/half_models.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::dtype_mismatch {
namespace {

// One of two values is 16-bit and the other FP32, both by the text alone.
bool Differ(Value a, Value b) {
  if (a.assumed || b.assumed || a.passed != kNoNode || b.passed != kNoNode) return false;
  return (a.is_16bit() && b.type == Type::kFp32) || (b.is_16bit() && a.type == Type::kFp32);
}

bool Autocast(const FileFacts& facts, NodeId node) {
  Policy policy;
  const struct Autocast* region = facts.regions.At(node);
  // A region whose settings are not known may be on.
  return facts.dtypes->PolicyAt(node, &policy) ||
         (region != nullptr && region->enabled != Tri::kNo);
}

// `product`: autocast converts both sides, so that no caller may be under it.
void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId a, NodeId b,
            std::string_view what, bool product) {
  if (a == kNoNode || b == kNoNode || !Differ(facts.dtypes->Of(a), facts.dtypes->Of(b))) return;
  if (product ? MayRunUnderAutocast(facts, node) : !HoldsForCallers(facts, node, a, b)) return;
  const bool first = facts.dtypes->Of(a).is_16bit();
  sink.Add(node, std::string(what) + " gets the 16-bit " +
                     std::string(facts.syntax.Text(first ? a : b).substr(0, 40)) +
                     " and the FP32 " +
                     std::string(facts.syntax.Text(first ? b : a).substr(0, 40)) +
                     ", and does not convert: RuntimeError.");
}

// What a layer of torch.nn does with an input of another dtype than its weights.
enum class Strictness { kRefuses, kPassesOn, kUnknown };

Strictness OfLayer(std::string_view callee) {
  static constexpr std::string_view kRefusing[] = {
      "Linear",          "Conv1d",          "Conv2d", "Conv3d", "ConvTranspose1d",
      "ConvTranspose2d", "ConvTranspose3d", "LSTM",   "GRU",    "MultiheadAttention"};
  static constexpr std::string_view kPassing[] = {"ReLU",    "GELU",    "SiLU",    "Tanh",
                                                  "Sigmoid", "Dropout", "Flatten", "Identity"};
  constexpr std::string_view kModule = "torch.nn.";
  const std::string_view name =
      callee.starts_with(kModule) ? callee.substr(kModule.size()) : std::string_view();
  const auto is_in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return is_in(kRefusing)  ? Strictness::kRefuses
         : is_in(kPassing) ? Strictness::kPassesOn
                           : Strictness::kUnknown;
}

// The layer that self.x is made as, or kNoNode.
NodeId LayerOf(const FileFacts& facts, NodeId callable) {
  if (!facts.names.Key(callable).starts_with("self.")) return kNoNode;
  return facts.syntax.Unwrap(facts.bindings.ValueOf(callable, 1));
}

// The first layer that sees what is given to a model that the expression makes: kRefuses where it
// is one of torch's that does not convert, for nn.Sequential and for a class of this file whose
// forward() hands its input to such a layer first.
Strictness FirstLayer(const FileFacts& facts, NodeId made, int depth) {
  const Syntax& syntax = facts.syntax;
  const Call* call = facts.names.CallAt(made);
  if (call == nullptr || depth == 0) return Strictness::kUnknown;
  if (call->callee == "torch.nn.Sequential") {
    for (const NodeId layer : facts.names.Arguments(made)) {
      const Strictness one = FirstLayer(facts, syntax.Unwrap(layer), depth - 1);
      if (one != Strictness::kPassesOn) return one;
    }
    return Strictness::kPassesOn;
  }
  if (!call->callee.empty()) return OfLayer(call->callee);
  const NodeId klass = call->receiver == kNoNode ? facts.bindings.ClassNamed(call->name) : kNoNode;
  const Function* forward =
      klass == kNoNode ? nullptr : facts.bindings.FunctionNamed(klass, "forward");
  if (forward == nullptr || forward->parameters.empty() || !facts.bindings.IsModuleClass(klass))
    return Strictness::kUnknown;
  // The first place that names the input.
  for (NodeId id = forward->body; id < syntax[forward->body].after; ++id) {
    if (!syntax.Is(id, Kind::kIdentifier) || syntax.Text(id) != forward->parameters[0]) continue;
    const NodeId list = syntax[id].parent;
    const NodeId layer = syntax.Is(list, Kind::kArgumentList) ? syntax[list].parent : kNoNode;
    const bool always = layer != kNoNode &&
                        syntax[syntax.StatementOf(id)].parent == forward->body &&
                        facts.names.Arguments(layer)[0] == id && facts.regions.At(id) == nullptr;
    return always ? FirstLayer(facts, LayerOf(facts, syntax.Child(layer, PythonFields().function)),
                               depth - 1)
                  : Strictness::kUnknown;
  }
  return Strictness::kUnknown;
}

// model(x): the weights were cast to 16 bits, and x is FP32.
void CheckModels(const FileFacts& facts, Sink& sink) {
  // What torch.randn() makes is FP32 only as long as nobody changes the default.
  if (!facts.names.CallsNamed("set_default_dtype").empty()) return;
  const std::vector<WeightCast> casts = FindWeightCasts(facts);
  if (casts.empty()) return;
  for (const Call& call : facts.names.calls()) {
    const std::string key = facts.names.Key(facts.syntax.Child(call.node, PythonFields().function));
    const std::vector<NodeId> inputs = facts.names.Arguments(call.node);
    if (key.empty() || inputs.empty()) continue;
    const Value input = facts.dtypes->Of(inputs[0]);
    if (input.type != Type::kFp32 || !input.is_shown()) continue;
    const WeightCast* cast = CastAt(facts, casts, key, call.node);
    if (cast == nullptr || cast->type == HalfType::kUnknown || cast->loaded ||
        !RunsBefore(facts, cast->origin, call.node) || Autocast(facts, call.node) ||
        MayRunUnderAutocast(facts, call.node))
      continue;
    // What is cast: the chain ends in the call that makes it, or in the variable that holds it.
    const auto root = [&](NodeId id) {
      while (!facts.names.Method(id).empty() && facts.names.Callee(id).empty())
        id = facts.syntax.Unwrap(facts.names.Receiver(id));
      return id;
    };
    const NodeId variable = root(cast->origin);
    NodeId made = variable;
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(variable)) {
      if (assignment.target < cast->origin && assignment.value != kNoNode)
        made = root(facts.syntax.Unwrap(assignment.value));
    }
    if (FirstLayer(facts, made, 4) != Strictness::kRefuses) continue;
    sink.Add(call.node, "The weights of " + key + " are " +
                            (cast->type == HalfType::kFp16 ? "FP16" : "BF16") + " and the input " +
                            std::string(facts.syntax.Text(inputs[0]).substr(0, 40)) +
                            " is FP32, and its first layer does not convert: RuntimeError.");
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  CheckModels(facts, sink);
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "@" || Autocast(facts, id)) continue;
    Report(facts, sink, id, facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right), "@",
           true);
  }
  ForEachTorchCall(facts, {"matmul", "mm", "bmm", "mv", "linear", "dot"},
                   [&](const TorchCall& call) {
                     if (Autocast(facts, call.node)) return;
                     Report(facts, sink, call.node, call.tensor,
                            ArgumentOf(facts, call, 0, "other"), call.name, true);
                   });
  // These are not converted under autocast either.
  ForEachTorchCall(facts, {"scatter_", "scatter_add_", "index_add_", "index_copy_"},
                   [&](const TorchCall& call) {
                     if (call.is_method)
                       Report(facts, sink, call.node, call.tensor,
                              ArgumentOf(facts, call, 2, "src"), call.name, false);
                   });
  ForEachTorchCall(facts, {"masked_scatter", "masked_scatter_"}, [&](const TorchCall& call) {
    if (call.is_method)
      Report(facts, sink, call.node, call.tensor, ArgumentOf(facts, call, 1, "source"), call.name,
             false);
  });
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    if (!facts.syntax.Is(target, Kind::kSubscript) || !IsTensorIndex(facts, target)) continue;
    Report(facts, sink, id, facts.syntax.Child(target, f.value), facts.syntax.Child(id, f.right),
           "Assignment through an index", false);
  }
}

}  // namespace mpnanny::check::dtype_mismatch
