#include "engines/check/candidates/value_types.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace mpnanny::check {
namespace {

constexpr int kMostSteps = 300;  // names that are bound often multiply
constexpr int kMostDepth = 12;

template <size_t n>
bool IsIn(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Without a dtype they give torch's default, FP32.
constexpr std::array<std::string_view, 17> kFloatFactories = {
    "zeros",  "ones",        "empty",    "rand",          "randn",          "full",
    "eye",    "linspace",    "logspace", "normal",        "hann_window",    "hamming_window",
    "Tensor", "FloatTensor", "zeros_",   "kaiser_window", "blackman_window"};
constexpr std::array<std::string_view, 4> kIndexFactories = {"randint", "randperm", "LongTensor",
                                                             "tril_indices"};
constexpr std::array<std::string_view, 8> kLikeFactories = {
    "zeros_like", "ones_like", "empty_like", "rand_like",
    "randn_like", "full_like", "new_zeros",  "new_ones"};
constexpr std::array<std::string_view, 9> kNumbers = {
    "item", "size", "numel", "dim", "tolist", "ndimension", "nelement", "stride", "element_size"};
constexpr std::array<std::string_view, 7> kIndexCasts = {"long",  "int",  "bool", "byte",
                                                         "short", "char", "int8"};
// Their second operand counts as much as the first.
constexpr std::array<std::string_view, 13> kOfTwo = {
    "add", "sub",         "mul",   "div",     "maximum", "minimum", "lerp",
    "pow", "true_divide", "atan2", "addcmul", "addcdiv", "where"};
constexpr std::array<std::string_view, 6> kOfLists = {"cat",    "stack",  "concat",
                                                      "vstack", "hstack", "concatenate"};
// Every result has the type of the tensor.
constexpr std::array<std::string_view, 9> kTakenApart = {
    "chunk", "split", "unbind", "topk", "max", "min", "sort", "tensor_split", "meshgrid"};

ShownType Join(ShownType a, ShownType b) {
  if (a.type == b.type) return a;
  // Either of two: where one may be 16-bit, so may the value.
  if (a.type == Shown::kNumber) return b;
  if (b.type == Shown::kNumber) return a;
  if (a.type == Shown::kUnknown || b.type == Shown::kUnknown)
    return a.type == Shown::kUnknown ? a : b;
  if (a.type == Shown::kHalf || b.type == Shown::kHalf) return a.type == Shown::kHalf ? a : b;
  return a.type < b.type ? a : b;
}

}  // namespace

ShownType ValueTypes::Of(NodeId expression) {
  steps_ = kMostSteps;
  return At(expression, kMostDepth);
}

ShownType ValueTypes::At(NodeId expression, int depth) {
  const NodeId id = syntax_.Unwrap(expression);
  if (id == kNoNode) return {Shown::kNumber, kNoNode};
  if (depth <= 0 || --steps_ < 0) return {Shown::kUnknown, id};
  if (const auto it = known_.find(id); it != known_.end()) return it->second;
  known_[id] = {Shown::kUnknown, id};  // a name that is made from itself
  const ShownType type = Evaluate(id, depth);
  if (steps_ >= 0) known_[id] = type;
  return type;
}

ShownType ValueTypes::Evaluate(NodeId id, int depth) {
  const Fields& f = PythonFields();
  if (facts_.bindings.Number(id)) return {Shown::kNumber, id};
  const Value value = facts_.dtypes->Of(id);
  if (!value.assumed) {
    if (value.type == Type::kNumber) return {Shown::kNumber, id};
    if (value.type == Type::kIndex) return {Shown::kIndex, id};
    if (value.type == Type::kFp32) return {Shown::kFp32, id};
  }
  if (value.is_16bit() && !value.assumed)
    return {Shown::kHalf, value.origin != kNoNode ? value.origin : id};
  switch (syntax_.kind(id)) {
    case Kind::kIdentifier:
    case Kind::kAttribute:
      return OfName(id, depth);
    case Kind::kUnary:
      return At(syntax_.Child(id, f.argument), depth - 1);
    case Kind::kSubscript:
      return At(syntax_.Child(id, f.value), depth - 1);
    case Kind::kComparison:
    case Kind::kNot:
    case Kind::kBoolean:
      return {Shown::kIndex, id};
    case Kind::kConditional: {
      const std::vector<NodeId> parts = syntax_.Children(id);
      if (parts.size() != 3) return {Shown::kUnknown, id};
      return Join(At(parts[0], depth - 1), At(parts[2], depth - 1));
    }
    case Kind::kBinary: {
      if (syntax_.Text(syntax_.Child(id, f.operator_)) == "**" && IsFp32ByAutocast(id, "pow") &&
          At(syntax_.Child(id, f.left), depth - 1).type != Shown::kNumber)
        return {Shown::kFp32, id};
      const std::array<NodeId, 2> sides = {syntax_.Child(id, f.left), syntax_.Child(id, f.right)};
      return Promoted(sides, id, depth);
    }
    case Kind::kCall:
      return OfCall(id, depth);
    case Kind::kList:
    case Kind::kTuple: {
      const std::vector<NodeId> parts = syntax_.Children(id);
      return Promoted(parts, id, depth);
    }
    case Kind::kString:
    case Kind::kNone:
    case Kind::kTrue:
    case Kind::kFalse:
    case Kind::kInteger:
    case Kind::kFloat:
      return {Shown::kNumber, id};
    default:
      return {Shown::kUnknown, id};
  }
}

ShownType ValueTypes::Promoted(std::span<const NodeId> operands, NodeId node, int depth) {
  // FP32 wins over what is not known, which wins over 16 bits, which win over integers.
  constexpr auto rank = [](Shown type) {
    switch (type) {
      case Shown::kNumber:
        return 0;
      case Shown::kIndex:
        return 1;
      case Shown::kHalf:
        return 2;
      case Shown::kWeight:
        return 3;
      case Shown::kUnknown:
        return 4;
      case Shown::kFp32:
        return 5;
    }
    return 0;
  };
  ShownType most{Shown::kNumber, node};
  for (const NodeId operand : operands) {
    const ShownType one = At(operand, depth - 1);
    if (rank(one.type) > rank(most.type)) most = one;
  }
  return most;
}

ShownType ValueTypes::OfName(NodeId id, int depth) {
  const Fields& f = PythonFields();
  if (syntax_.Is(id, Kind::kAttribute)) {
    const std::string_view name = syntax_.Text(syntax_.Child(id, f.attribute));
    if (name == "shape" || name == "dtype" || name == "device" || name == "ndim")
      return {Shown::kNumber, id};
    if (name == "T" || name == "mT" || name == "data" || name == "real" || name == "grad")
      return At(syntax_.Child(id, f.object), depth - 1);
  }
  const std::vector<Assignment> assignments = facts_.bindings.AssignmentsOf(id);
  if (assignments.empty()) return {Shown::kUnknown, id};
  const NodeId here = syntax_.FunctionOf(id);
  // In one function the last assignment before counts, unless a branch or a loop may pass it by.
  const Assignment* last = nullptr;
  for (const Assignment& one : assignments) {
    if (one.function != here || one.value == kNoNode || syntax_[one.value].after > id) continue;
    const NodeId block = syntax_[syntax_.StatementOf(one.target)].parent;
    const bool certain = block == kNoNode || (syntax_[block].after > id && block < id);
    if (certain) last = &one;
  }
  ShownType joined{Shown::kNumber, id};
  bool any = false;
  for (const Assignment& one : assignments) {
    // What was overwritten since does not arrive.
    if (last != nullptr && (one.function != here || one.target < last->target)) continue;
    // Nor does what comes later, or is being made of this very name.
    const bool later = one.target > id || (one.value != kNoNode && syntax_[one.value].after > id);
    if (one.function == here && later && last != nullptr) continue;
    joined = any ? Join(joined, OfAssignment(one, depth)) : OfAssignment(one, depth);
    any = true;
  }
  return any ? joined : ShownType{Shown::kUnknown, id};
}

ShownType ValueTypes::OfAssignment(const Assignment& assignment, int depth) {
  if (assignment.value == kNoNode) return OfUnpacked(assignment.target, depth);
  return At(assignment.value, depth - 1);
}

ShownType ValueTypes::OfUnpacked(NodeId target, int depth) {
  const Fields& f = PythonFields();
  NodeId up = syntax_[target].parent;
  while (syntax_.Is(up, Kind::kPatternList) || syntax_.Is(up, Kind::kTuple))
    up = syntax_[up].parent;
  if (syntax_.Is(up, Kind::kAugmentedAssignment)) {
    const std::array<NodeId, 1> right = {syntax_.Child(up, f.right)};
    return Promoted(right, up, depth);
  }
  if (!syntax_.Is(up, Kind::kAssignment)) return {Shown::kUnknown, target};
  const NodeId from = syntax_.Unwrap(syntax_.Child(up, f.right));
  if (syntax_.Is(from, Kind::kExpressionList) || syntax_.Is(from, Kind::kTuple)) {
    // x, y = a, b: what stands in the same place.
    const std::vector<NodeId> given = syntax_.Children(from);
    const std::vector<NodeId> taken = syntax_.Children(syntax_[target].parent);
    const auto at = std::find(taken.begin(), taken.end(), target);
    if (given.size() == taken.size() && at != taken.end())
      return At(given[static_cast<size_t>(at - taken.begin())], depth - 1);
  }
  if (const auto call = TorchCallAt(facts_, from)) {
    if (IsIn(call->name, kTakenApart)) return At(call->tensor, depth - 1);
    if (IsIn(call->name, kNumbers)) return {Shown::kNumber, from};
  }
  if (syntax_.Is(from, Kind::kAttribute) &&
      syntax_.Text(syntax_.Child(from, f.attribute)) == "shape")
    return {Shown::kNumber, from};
  return {Shown::kUnknown, target};
}

ShownType ValueTypes::NamedType(NodeId expression, int depth) {
  const Fields& f = PythonFields();
  const NodeId id = syntax_.Unwrap(expression);
  if (id == kNoNode) return {Shown::kUnknown, id};
  const std::string name = facts_.names.Resolve(id);
  if (name == "torch.float32" || name == "torch.float" || name == "torch.float64" ||
      name == "torch.double")
    return {Shown::kFp32, id};
  if (name == "torch.float16" || name == "torch.half" || name == "torch.bfloat16")
    return {Shown::kHalf, id};
  if (name == "torch.long" || name == "torch.int64" || name == "torch.int32" ||
      name == "torch.int" || name == "torch.bool" || name == "torch.uint8" || name == "torch.int8")
    return {Shown::kIndex, id};
  if (syntax_.Is(id, Kind::kAttribute) && syntax_.Text(syntax_.Child(id, f.attribute)) == "dtype")
    return At(syntax_.Child(id, f.object), depth - 1);
  if (syntax_.Is(id, Kind::kIdentifier)) {
    const NodeId value = facts_.bindings.ValueOf(id, 1);
    if (value != kNoNode && value != id) return NamedType(value, depth - 1);
  }
  return {Shown::kUnknown, id};
}

ShownType ValueTypes::OfCall(NodeId id, int depth) {
  const Call* const call = facts_.names.CallAt(id);
  if (call == nullptr) return {Shown::kUnknown, id};
  if (call->callee.starts_with("torch.nn.Parameter") ||
      call->callee.starts_with("torch.nn.parameter.Parameter"))
    return {Shown::kWeight, id};
  if (call->callee.starts_with("math.") || call->callee.starts_with("numpy.") ||
      (call->callee.empty() && call->method.empty() &&
       (call->name == "float" || call->name == "int" || call->name == "len" ||
        call->name == "range" || call->name == "round")))
    return {Shown::kNumber, id};
  // What a function of the project returns is known to Dtypes or to nobody here.
  if (facts_.Callee(id).function != nullptr) return {Shown::kUnknown, id};
  const auto torch = ReadTorchCall(facts_, *call);
  return torch ? OfTorchCall(*torch, depth) : ShownType{Shown::kUnknown, id};
}

bool ValueTypes::IsFp32ByAutocast(NodeId node, std::string_view function) const {
  const Autocast* const region = facts_.regions.At(node);
  return !may_be_cast_ && (region == nullptr || region->enabled != Tri::kNo) &&
         facts_.ops.PolicyOf(Device::kCuda, function) == CastPolicy::kFp32;
}

bool ValueTypes::IsTensor(NodeId name) {
  if (!syntax_.Is(name, Kind::kIdentifier)) return false;
  for (const Assignment& one : facts_.bindings.AssignmentsOf(name)) {
    NodeId from = syntax_.Unwrap(one.value);
    if (from == kNoNode) {
      NodeId up = syntax_[one.target].parent;
      while (syntax_.Is(up, Kind::kPatternList) || syntax_.Is(up, Kind::kTuple))
        up = syntax_[up].parent;
      if (syntax_.Is(up, Kind::kAssignment))
        from = syntax_.Unwrap(syntax_.Child(up, PythonFields().right));
    }
    const auto call = TorchCallAt(facts_, from);
    if (call && call->name != "device" && !IsIn(call->name, kNumbers)) return true;
  }
  return false;
}

ShownType ValueTypes::OfTorchCall(const TorchCall& call, int depth) {
  const NodeId id = call.node;
  const std::string_view name = call.name;
  if (name == "float" || name == "double") return {Shown::kFp32, id};
  if (name == "half" || name == "bfloat16") return {Shown::kHalf, id};
  if (IsIn(name, kIndexCasts) || facts_.ops.GivesIndex(name) || IsIn(name, kIndexFactories))
    return {Shown::kIndex, id};
  if (IsIn(name, kNumbers)) return {Shown::kNumber, id};
  if (call.is_method && (name == "to" || name == "type")) {
    for (const NodeId argument : facts_.names.Arguments(id)) {
      const ShownType type = NamedType(argument, depth);
      if (type.type != Shown::kUnknown) return {type.type, id};
      const NodeId unwrapped = syntax_.Unwrap(argument);
      const bool own = syntax_.Is(unwrapped, Kind::kAttribute) &&
                       syntax_.Text(syntax_.Child(unwrapped, PythonFields().attribute)) == "dtype";
      if (own || IsTensor(unwrapped)) return {Shown::kUnknown, id};
    }
    return At(call.tensor, depth - 1);
  }
  if (call.is_method && name == "type_as")
    return At(facts_.names.Argument(id, 0, "other"), depth - 1);
  if (const NodeId dtype = facts_.names.Argument(id, -1, "dtype"); dtype != kNoNode) {
    const ShownType type = NamedType(dtype, depth);
    return {type.type == Shown::kWeight ? Shown::kUnknown : type.type, id};
  }
  if (IsIn(name, kLikeFactories)) return At(call.tensor, depth - 1);
  if (!call.is_method) {
    if (name == "tensor" || name == "as_tensor" || name == "scalar_tensor") {
      const NodeId data = facts_.names.Argument(id, 0, "data");
      const ShownType of = At(data, depth - 1);
      const bool list = syntax_.Is(syntax_.Unwrap(data), Kind::kList);
      if (of.type == Shown::kNumber && !list) return {Shown::kNumber, id};
      return {list ? Shown::kFp32 : of.type, id};
    }
    if (name == "arange") {
      for (const NodeId argument : facts_.names.Arguments(id)) {
        if (syntax_.Is(syntax_.Unwrap(argument), Kind::kFloat)) return {Shown::kFp32, id};
      }
      return {Shown::kIndex, id};
    }
    if (IsIn(name, kFloatFactories)) return {Shown::kFp32, id};
  }
  if (IsIn(name, kOfLists)) return At(facts_.names.Argument(id, 0, "tensors"), depth - 1);
  const CastPolicy policy = facts_.ops.PolicyOf(Device::kCuda, name);
  if (policy == CastPolicy::kLower) {
    const ShownType of = At(call.tensor, depth - 1);
    return of.type == Shown::kHalf ? of : ShownType{Shown::kUnknown, id};
  }
  if (IsIn(name, kOfTwo)) {
    std::vector<NodeId> operands = {call.tensor};
    for (const int position : {0, 1}) {
      if (const NodeId other = ArgumentOf(facts_, call, position, "other"); other != kNoNode)
        operands.push_back(other);
    }
    if (name == "where" && !call.is_method) operands.erase(operands.begin());
    return Promoted(operands, id, depth);
  }
  if (facts_.ops.KeepsDtype(name) || policy == CastPolicy::kFp32) {
    const ShownType of = At(call.tensor, depth - 1);
    // sqrt(d_k) of a number is one.
    if (of.type == Shown::kNumber || of.type == Shown::kIndex) return of;
    return IsFp32ByAutocast(id, name) ? ShownType{Shown::kFp32, id} : of;
  }
  return {Shown::kUnknown, id};
}

bool IsGivenFp32(const FileFacts& facts, NodeId call) {
  const std::string type = facts.names.Resolve(facts.names.Argument(call, -1, "dtype"));
  return type == "torch.float32" || type == "torch.float" || type == "torch.float64" ||
         type == "torch.double";
}

bool IsByCast(const FileFacts& facts, NodeId call) {
  const Call* const made = facts.names.CallAt(call);
  if (made == nullptr) return false;
  return made->method == "half" || made->method == "bfloat16" || made->method == "to" ||
         made->method == "type" || made->method == "type_as" ||
         facts.names.Argument(call, -1, "dtype") != kNoNode;
}

}  // namespace mpnanny::check
