#include "tools/static_check/mixed_types/untied_types.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tools/static_check/facts/autograd_functions.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/type_ties.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// True if one is made of the other: torch.zeros_like(x), x.new_zeros(…), x.clone().
bool IsLike(const FileFacts& facts, NodeId target, NodeId source) {
  const std::string_view name = NameOf(facts, source);
  if (name.empty() || name == NameOf(facts, target)) return true;
  for (const NodeId value : ValuesOf(facts, RootOf(facts, target))) {
    if (Holds(facts.syntax.Text(value), name)) return true;
  }
  for (const NodeId value : ValuesOf(facts, RootOf(facts, source))) {
    if (Holds(facts.syntax.Text(value), NameOf(facts, target))) return true;
  }
  return false;
}

// out[mask] = f(x), where out is no relative of x.
void GuessAssignments(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    if (!facts.syntax.Is(target, Kind::kSubscript)) continue;
    const NodeId source = facts.syntax.Child(id, f.right);
    const std::string_view index = facts.syntax.Text(facts.syntax.Child(target, f.subscript));
    if (!(HoldsAny(index, {"mask", "idx", "index", "indices", "inds", "_ids", "keep", "valid"}) ||
          IsTensorIndex(facts, target)) ||
        index.starts_with("\"") || index.starts_with("'") || facts.bindings.Number(source) ||
        facts.syntax.Is(facts.syntax.Unwrap(source), Kind::kDictionary))
      continue;
    const NodeId made = facts.syntax.Unwrap(source);
    if (!facts.syntax.Is(made, Kind::kCall) && !facts.syntax.Is(made, Kind::kBinary)) continue;
    if (IsTied(facts, source) || IsLike(facts, facts.syntax.Child(target, f.value), source) ||
        Holds(facts.syntax.Text(source), NameOf(facts, facts.syntax.Child(target, f.value))))
      continue;
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, id);
    if (!MayRunHalf(facts, id) || !anywhere.MayBeHalf(source)) continue;
    found->push_back({id,
                      "Assignment through an index does not convert, and nothing ties the two "
                      "types: if autocast or a cast of the model makes one of them 16-bit, this "
                      "raises RuntimeError."});
  }
}

// x.scatter_add_(0, index, y.float()), ema.lerp_(y, 0.1): what is written is to have the type of
// what it is written to, and nothing ties the two.
void GuessWrites(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  ForEachTorchCall(
      facts,
      {"scatter_", "scatter_add_", "index_add_", "index_copy_", "scatter_add", "index_add",
       "index_copy", "scatter", "lerp_", "lerp", "index_put_", "index_put", "masked_scatter_",
       "masked_scatter", "scatter_reduce_", "scatter_reduce"},
      [&](const TorchCall& call) {
        const bool lerps = call.name.starts_with("lerp");
        const NodeId source = lerps ? ArgumentOf(facts, call, 0, "end")
                              : HoldsAny(call.name, {"put", "masked"})
                                  ? ArgumentOf(facts, call, 1, "values")
                                  : ArgumentOf(facts, call, 2, "src");
        if (source == kNoNode || call.tensor == kNoNode || facts.bindings.Number(source)) return;
        const Type from = facts.dtypes->Of(source).type;
        if (from == Type::kNumber || from == Type::kIndex || from == Type::kFp32) {
          if (from != Type::kFp32) return;
        }
        const bool source_fp32 = IsMadeFp32(facts, source);
        const bool target_fp32 = IsMadeFp32(facts, call.tensor);
        if (source_fp32 == target_fp32 && (source_fp32 || IsLike(facts, call.tensor, source)))
          return;
        if (!source_fp32 && IsTied(facts, source)) return;
        // lerp() takes no integers.
        if (!source_fp32 && !lerps && !HalfGuess::Anywhere(facts, call.node).MayBeHalf(source))
          return;
        if (Holds(facts.syntax.Text(source), ".dtype") || !MayRunHalf(facts, call.node)) return;
        found->push_back(
            {call.node,
             std::string(call.name) + " does not convert, and " +
                 (source_fp32   ? "what is written is FP32: if the target is 16-bit, as in "
                                  "a model that is cast,"
                  : target_fp32 ? "the target is FP32: if what is written is 16-bit, as "
                                  "under autocast,"
                                : "nothing ties the two types: if autocast or a cast "
                                  "of the model makes one of them 16-bit,") +
                 " this raises RuntimeError."});
      });
}

bool NamesWeight(std::string_view name) {
  return name == "w" || name.starts_with("w_") || name.ends_with("_w") || Holds(name, "weight") ||
         Holds(name, "kernel");
}

// Behind dropout and the like: the softmax that made the expression.
bool ComesFromSoftmax(const FileFacts& facts, NodeId expression, int depth = 5) {
  if (depth == 0) return false;
  const std::vector<NodeId> values = ValuesOf(facts, expression);
  const auto call = TorchCallAt(facts, values.size() > 1 ? values.back() : values.front());
  if (!call || Holds(facts.syntax.Text(call->node), "dtype=q")) return false;
  if (call->name == "softmax") return true;
  return (Holds(call->name, "drop") || facts.ops.KeepsDtype(call->name)) &&
         ComesFromSoftmax(facts,
                          call->is_method && Holds(call->name, "drop")
                              ? facts.names.Argument(call->node, 0, "input")
                              : call->tensor,
                          depth - 1);
}

// True if what the name stands for was computed with that other name.
bool IsMadeWith(const FileFacts& facts, NodeId expression, std::string_view name, int depth = 3) {
  const std::vector<NodeId> values = ValuesOf(facts, expression);
  for (size_t i = 1; i < values.size() && depth > 0; ++i) {
    if (Holds(facts.syntax.Text(values[i]), name)) return true;
    const NodeId left = facts.syntax.Child(facts.syntax.Unwrap(values[i]), PythonFields().left);
    const NodeId next = left == kNoNode ? RootOf(facts, values[i]) : left;
    if (IsMadeWith(facts, next, name, depth - 1)) return true;
  }
  return false;
}

// True if the function switches autocast off somewhere: it minds the types of its products.
bool SwitchesOff(const FileFacts& facts, NodeId function) {
  for (const struct Autocast& region : facts.regions.all()) {
    if (region.enabled == Tri::kNo && facts.syntax.FunctionOf(region.node) == function) return true;
  }
  return false;
}

// Two factors whose types nothing ties.
void GuessProduct(const FileFacts& facts, std::vector<UnlikeWrite>* found, NodeId node, NodeId a,
                  NodeId b, const std::set<NodeId>& functions) {
  if (a == kNoNode || b == kNoNode) return;
  const struct Autocast* here = facts.regions.At(node);
  if (here != nullptr && here->enabled != Tri::kNo) return;  // autocast converts both
  const auto tell = [&](std::string why) {
    if (MayRunHalf(facts, node)) found->push_back({node, std::move(why)});
  };
  const NodeId function = facts.syntax.FunctionOf(node);
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    const std::string_view name = facts.syntax.Text(RootOf(facts, one));
    // In backward() autocast is off, and forward() of a custom function casts nothing by itself.
    if (functions.contains(function) && name.size() < 40 && NamesWeight(name) &&
        !NamesWeight(facts.syntax.Text(RootOf(facts, other)).substr(0, 40)) &&
        !IsTied(facts, one) && !IsTied(facts, other) && !IsTied(facts, RootOf(facts, one)) &&
        !IsTied(facts, RootOf(facts, other)) && !IsMadeWith(facts, RootOf(facts, other), name))
      return tell(
          "In a custom function a 16-bit gradient or activation meets FP32 weights under "
          "autocast, and this product converts neither: RuntimeError.");
    if (IsMadeFp32(facts, one) && !SwitchesOff(facts, function) && !IsMadeFp32(facts, other) &&
        !IsTied(facts, other) && !HalfGuess::Anywhere(facts, node).IsKnown(other) &&
        facts.dtypes->Of(other).type != Type::kFp32) {
      const bool buffer = facts.syntax.Text(facts.syntax.Unwrap(other)).starts_with("self.");
      if (buffer || HalfGuess::Anywhere(facts, node).MayBeHalf(other))
        return tell(
            "One factor is made FP32 and the other is not: in a model that is cast as a "
            "whole it is 16-bit, and this product does not convert: RuntimeError.");
    }
  }
  if (ComesFromSoftmax(facts, a) && !IsTied(facts, a) && !IsTied(facts, b) &&
      HoldsAny(facts.syntax.Text(function), {"bias", "mask"}))
    tell(
        "The weights that softmax returns are FP32 where an FP32 mask or bias was added to the "
        "scores, or softmax ran under autocast; if the values are 16-bit, this product fails: "
        "RuntimeError.");
}

// q = self.q_norm(q), and then attention(q, k, v): a norm returns FP32 under autocast, v is 16-bit.
void GuessNormalised(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  if (!HoldsAny(facts.syntax.text(), {"attn", "attention"})) return;
  for (const Call& call : facts.names.calls()) {
    if (!HoldsAny(call.name, {"scaled_dot_product", "flash_attn", "efficient_attention",
                              "dispatch_attention", "varlen_att", "flex_attention"}))
      continue;
    std::vector<NodeId> arguments = facts.names.Arguments(call.node);
    if (arguments.size() < 3) continue;
    arguments.resize(3);
    NodeId normalised = kNoNode;
    bool other = false;
    for (const NodeId argument : arguments) {
      const std::vector<NodeId> values = ValuesOf(facts, argument);
      bool norm = false;
      for (const NodeId value : values) {
        const Call* made = facts.names.CallAt(facts.syntax.Unwrap(value));
        if (made != nullptr && Holds(made->name, "norm") && made->callee.empty()) {
          norm = true;
          normalised = value;
        }
      }
      if (norm && IsTied(facts, argument)) return;
      other = other || !norm;
    }
    if (normalised == kNoNode || !other || !MayRunHalf(facts, call.node)) continue;
    found->push_back({normalised,
                      "A norm returns FP32 under autocast (as torch's own do), and what is not "
                      "normalised is 16-bit: attention kernels take one type for all three."});
  }
}

void GuessUntiedProducts(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Fields& f = PythonFields();
  std::set<NodeId> functions;
  for (const AutogradFunction& one : FindAutogradFunctions(facts)) {
    if (one.custom_fwd) continue;
    functions.insert(one.forward);
    functions.insert(one.backward);
  }
  for (const Function& function : facts.bindings.functions()) {
    // What a custom function calls takes its tensors.
    if (!functions.empty() && function.klass == kNoNode &&
        HoldsAny(function.name, {"_forward", "_backward", "fwd", "bwd"}))
      functions.insert(function.node);
  }
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) == "@")
      GuessProduct(facts, found, id, facts.syntax.Child(id, f.left),
                   facts.syntax.Child(id, f.right), functions);
  }
  ForEachTorchCall(facts, {"matmul", "mm", "bmm", "einsum", "linear", "outer", "addmm"},
                   [&](const TorchCall& call) {
                     const bool einsum = call.name == "einsum";
                     const bool adds = call.name == "addmm";
                     GuessProduct(facts, found, call.node,
                                  einsum ? facts.names.Argument(call.node, 1, "")
                                  : adds ? ArgumentOf(facts, call, 0, "mat1")
                                         : call.tensor,
                                  einsum ? facts.names.Argument(call.node, 2, "")
                                  : adds ? ArgumentOf(facts, call, 1, "mat2")
                                         : ArgumentOf(facts, call, 0, "other"),
                                  functions);
                   });
}

// self.proj(x.float()): the weights of a layer are 16-bit where the model is cast as a whole.
void GuessLayerInputs(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call& call : facts.names.calls()) {
    // Where autocast is off the weights are FP32, unless somebody casts the model.
    const struct Autocast* here = facts.regions.At(call.node);
    const bool off = here != nullptr && here->enabled == Tri::kNo && facts.project.casts_models;
    if (!call.callee.empty() || call.receiver == kNoNode ||
        facts.syntax.Text(call.receiver) != "self" || (here != nullptr && !off) ||
        !HoldsAny(call.name, {"proj", "linear", "fc", "mlp", "embed", "conv", "gate", "head",
                              "dense", "out", "layer", "encoder", "decoder"}) ||
        HoldsAny(call.name, {"loss", "norm", "get", "init", "forward_", "compute"}))
      continue;
    const NodeId given = facts.names.Argument(call.node, 0, "input");
    if (given == kNoNode || !IsMadeFp32(facts, given) || IsTied(facts, given) ||
        facts.bindings.Callee(call.node) != nullptr ||
        (!off &&
         (SwitchesOff(facts, facts.syntax.FunctionOf(call.node)) || !MayRunHalf(facts, call.node))))
      continue;
    found->push_back({call.node,
                      "This layer is given FP32: in a model that is cast as a whole its weights "
                      "are 16-bit, and outside of autocast it converts neither: RuntimeError."});
  }
}

}  // namespace

std::vector<UnlikeWrite> FindUntiedTypes(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  if (!facts.project.HasHalfChoice()) return found;
  GuessWrites(facts, &found);
  GuessAssignments(facts, &found);
  GuessNormalised(facts, &found);
  GuessUntiedProducts(facts, &found);
  GuessLayerInputs(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
