#include "tools/static_check/mixed_types/unlike_types.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "tools/static_check/facts/model_parts.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// True if the expression, or anything that is assigned to its name, is cast.
bool IsCast(const FileFacts& facts, NodeId expression) {
  const auto cast = [](std::string_view text) {
    return HoldsAny(text, {".to(", "type_as", ".type(", ".float()", ".half()", "dtype"});
  };
  if (cast(facts.syntax.Text(expression))) return true;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(expression)) {
    if (assignment.value != kNoNode && cast(facts.syntax.Text(assignment.value))) return true;
  }
  return false;
}

// A value of a call, or the last of those that its name is given.
NodeId MadeBy(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return id;
  NodeId value = kNoNode;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
    if (assignment.value != kNoNode && facts.syntax[assignment.value].after <= id)
      value = assignment.value;
  }
  return facts.syntax.Unwrap(value);
}

// What autocast makes 16-bit: a product, or a layer of the model that is not a norm.
bool IsLowered(const FileFacts& facts, NodeId expression) {
  NodeId id = MadeBy(facts, expression);
  for (int depth = 0; depth < 4 && id != kNoNode; ++depth) {
    if (OperatorOf(facts, id) == "@") return true;
    if (OperatorOf(facts, id) == "+") {  // a product and its bias
      id = MadeBy(facts, facts.syntax.Child(id, PythonFields().left));
      continue;
    }
    const auto call = TorchCallAt(facts, id);
    if (!call) return false;
    if (facts.ops.PolicyOf(Device::kCuda, call->name) == CastPolicy::kLower) return true;
    if (CallsLayer(facts, *call))
      return !Holds(call->name, "norm") && !Holds(call->name, "softmax") &&
             !Holds(call->name, "loss") && !Holds(call->name, "mask") &&
             !facts.ops.KeepsDtype(call->name);
    if (!facts.ops.KeepsDtype(call->name)) return false;
    id = MadeBy(facts, call->tensor);
  }
  return false;
}

// A tensor that was made for the purpose: zeros, x.new_empty(…), a table that is repeated.
bool IsMade(const FileFacts& facts, NodeId expression) {
  const NodeId id = MadeBy(facts, expression);
  const Call* call = id == kNoNode ? nullptr : facts.names.CallAt(id);
  if (call == nullptr) return false;
  for (const std::string_view word :
       {"zeros", "ones", "empty", "full", "eye", "identity", "repeat", "expand", "token"}) {
    if (Holds(call->name, word)) return true;
  }
  return false;
}

// As IsTensorIndex(), and by the names that indices have.
bool LooksLikeTensorIndex(const FileFacts& facts, NodeId target) {
  for (const NodeId part : facts.syntax.Children(target)) {
    if (facts.syntax[part].field != PythonFields().subscript) continue;
    if (facts.syntax.Is(part, Kind::kComparison)) return true;
    if (facts.syntax.Is(MadeBy(facts, part), Kind::kComparison)) return true;
    const std::string_view text = facts.syntax.Text(part);
    if (facts.syntax.Is(part, Kind::kIdentifier) &&
        (Holds(text, "mask") || Holds(text, "indices") || text.ends_with("_ids") ||
         text == "index" || text == "idx" || text == "inds" || text.ends_with("_idx")))
      return true;
  }
  return false;
}

bool MayBeAutocast(const FileFacts& facts, NodeId node) {
  const Autocast* region = facts.regions.At(node);
  if (region != nullptr) return region->enabled != Tri::kNo;
  const NodeId klass = facts.syntax.Enclosing(node, Kind::kClass);
  // A layer of a library runs in what its users choose.
  return facts.syntax.FunctionOf(node) != 0 &&
         facts.bindings.FunctionAt(facts.syntax.FunctionOf(node))->name != "__init__" &&
         (klass == kNoNode ? facts.project.sixteen_bit : IsPartOfModel(facts, klass));
}

constexpr std::string_view kWrites[] = {"index_put",   "index_put_",   "scatter",    "scatter_",
                                        "scatter_add", "scatter_add_", "index_copy", "index_copy_",
                                        "index_add",   "index_add_"};

// The source of scatter_(dim, index, src), index_put(indices, values).
NodeId SourceOf(const FileFacts& facts, const TorchCall& call) {
  return call.name.starts_with("index_put") ? ArgumentOf(facts, call, 1, "values")
                                            : ArgumentOf(facts, call, 2, "src");
}

void ThroughFunctions(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const CallEdge& edge : facts.modules->Edges(facts.number)) {
    const Function* function = edge.callee.function;
    if (function == nullptr || function->klass != kNoNode || function->parameters.size() < 3 ||
        !MayBeAutocast(facts, edge.call))
      continue;
    const FileFacts& other = *(*facts.files)[edge.callee.module];
    const std::string_view body = other.syntax.Text(function->node);
    if (!Holds(body, "scatter") && !Holds(body, "index_")) continue;
    if (Holds(body, ".to(") || Holds(body, "type_as")) continue;
    const auto position = [&](NodeId id) {
      const auto it = std::find(function->parameters.begin(), function->parameters.end(),
                                other.syntax.Text(other.syntax.Unwrap(id)));
      return it == function->parameters.end() ? -1
                                              : static_cast<int>(it - function->parameters.begin());
    };
    for (const std::string_view name : kWrites) {
      for (const Call* call : other.names.CallsNamed(name)) {
        if (other.syntax.FunctionOf(call->node) != function->node) continue;
        const auto write = ReadTorchCall(other, *call);
        if (!write) continue;
        const int to = position(write->tensor);
        const int from = position(SourceOf(other, *write));
        if (to < 0 || from < 0) continue;
        const NodeId target = facts.names.Argument(edge.call, to, function->parameters[to]);
        const NodeId source = facts.names.Argument(edge.call, from, function->parameters[from]);
        if (target != kNoNode && source != kNoNode && IsMade(facts, target) &&
            IsLowered(facts, source) && !IsCast(facts, source) && !IsCast(facts, target))
          found->push_back({edge.call, function->name + "() writes by " + std::string(name) +
                                           ", which does not convert: under autocast " +
                                           std::string(facts.syntax.Text(source).substr(0, 40)) +
                                           " is 16-bit and the target is not."});
      }
    }
  }
}

// torch.cuda.FloatTensor(…) in a custom function, that a kernel fills from what it is given.
void FixedOutputs(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  for (const Call* call : facts.names.CallsNamed("FloatTensor")) {
    const NodeId klass = facts.syntax.Enclosing(call->node, Kind::kClass);
    const NodeId function = facts.syntax.FunctionOf(call->node);
    if (klass == kNoNode || function == 0) continue;
    bool custom = false;
    for (const NodeId base : facts.bindings.Bases(klass))
      custom = custom || facts.syntax.Text(base).ends_with("Function");
    const std::string_view text = facts.syntax.Text(klass);
    if (custom && !Holds(text, "cast_inputs") && !Holds(text, ".float()"))
      found->push_back({call->node,
                        "This is FP32 whatever the function is given: a kernel that gets FP16 "
                        "features beside it fails, or reads them as FP32. x.new_zeros(…) takes "
                        "their type."});
  }
}

}  // namespace

std::vector<UnlikeWrite> FindUnlikeWrites(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  const Fields& f = PythonFields();
  FixedOutputs(facts, &found);
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    const NodeId source = facts.syntax.Child(id, f.right);
    if (!facts.syntax.Is(target, Kind::kSubscript) || !LooksLikeTensorIndex(facts, target) ||
        !MayBeAutocast(facts, id))
      continue;
    const NodeId written = facts.syntax.Child(target, f.value);
    if (IsMade(facts, written) && IsLowered(facts, source) && !IsCast(facts, source) &&
        (!Holds(facts.syntax.Text(MadeBy(facts, written)), "dtype") ||
         Holds(facts.syntax.Text(MadeBy(facts, written)), "dtype=torch.float32")))
      found.push_back({id,
                       "Assignment through an index does not convert: under autocast what is "
                       "assigned is 16-bit, and " +
                           std::string(facts.syntax.Text(written).substr(0, 40)) + " is not."});
  }
  for (const std::string_view name : kWrites) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const auto write = ReadTorchCall(facts, *call);
      if (!write || !MayBeAutocast(facts, call->node)) continue;
      const NodeId source = SourceOf(facts, *write);
      const NodeId made = MadeBy(facts, source);
      // A method of the class may compute anything: what it is written to is made beside it.
      const bool own = facts.names.CallAt(made) != nullptr &&
                       facts.syntax.Text(made).starts_with("self.") && IsMade(facts, write->tensor);
      if (source == kNoNode || !(own || (IsMade(facts, write->tensor) && IsLowered(facts, source))))
        continue;
      if (IsCast(facts, source) || IsCast(facts, write->tensor)) continue;
      found.push_back({call->node, std::string(name) +
                                       " does not convert: under autocast what is written may be "
                                       "16-bit, and what it is written to is not."});
    }
  }
  for (const std::string_view name : {"addmm", "mm", "bmm", "matmul", "baddbmm"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.") ||
          facts.names.Argument(call->node, -1, "out") == kNoNode)
        continue;
      const bool adds = name.find("add") != std::string_view::npos;
      const NodeId a = facts.names.Argument(call->node, adds ? 1 : 0, adds ? "mat1" : "input");
      const NodeId b = facts.names.Argument(call->node, adds ? 2 : 1, "mat2");
      if (a == kNoNode || b == kNoNode || IsLowered(facts, a) == IsLowered(facts, b) ||
          Holds(facts.syntax.Text(a), ".to(") || Holds(facts.syntax.Text(b), ".to("))
        continue;
      found.push_back({call->node, std::string(name) +
                                       " with out= is not converted by autocast: one factor is a "
                                       "product, 16-bit there, and the other is not."});
    }
  }
  ThroughFunctions(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
