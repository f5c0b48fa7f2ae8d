#include "engines/check/facts/autocast_callers.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "engines/check/facts/autograd_functions.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// How many callers of callers are looked at, and how many names and operations an expression is
// looked through.
constexpr int kMaxCallers = 8;
constexpr int kMaxCallerNames = 6;

constexpr std::string_view kCasts[] = {"half", "bfloat16", "float", "double", "to", "type"};
constexpr std::string_view kMakes[] = {"zeros", "ones",   "empty",  "full",     "rand",
                                       "randn", "tensor", "arange", "linspace", "eye"};
constexpr std::string_view kShapes[] = {
    "view",      "reshape",    "transpose",  "permute",  "t",       "contiguous",
    "clone",     "detach",     "expand",     "repeat",   "flatten", "squeeze",
    "unsqueeze", "cuda",       "cpu",        "narrow",   "chunk",   "zeros_like",
    "ones_like", "empty_like", "randn_like", "rand_like"};

class Callers {
 public:
  bool MayEnter(const FileFacts& file, NodeId node, int depth) {
    if (const Autocast* region = file.regions.At(node); region != nullptr)
      return region->enabled != Tri::kNo;
    const NodeId function = file.syntax.FunctionOf(node);
    if (function == 0) return false;
    if (depth == 0) return true;
    if (!seen_.emplace(file.number, function).second) return false;
    if (const Tri own = OfFunctionClass(file, function); own != Tri::kUnknown)
      return own == Tri::kYes;
    const Function* known = file.bindings.FunctionAt(function);
    // Methods of layers are called by what holds them, which the text seldom tells whole.
    if (known == nullptr || (known->klass != kNoNode && file.bindings.IsModuleClass(known->klass)))
      return true;
    bool called = false;
    for (const FileFacts* other : *file.files) {
      for (const CallEdge& edge : file.modules->Edges(other->number)) {
        if (edge.callee.function != known) continue;
        called = true;
        if (MayEnter(*other, edge.call, depth - 1)) return true;
      }
    }
    return !called && known->name != "main";
  }

 private:
  // forward() and backward() of an autograd.Function: the engine calls backward() with autocast
  // off, unless custom_bwd brings back what forward() ran under.
  static Tri OfFunctionClass(const FileFacts& file, NodeId function) {
    for (const AutogradFunction& one : FindAutogradFunctions(file)) {
      if (one.backward != function) continue;
      if (!one.custom_bwd) return Tri::kNo;
      const NodeId decorated = file.syntax[one.forward].parent;
      return file.syntax.Is(decorated, Kind::kDecorated) &&
                     Holds(file.syntax.Text(decorated).substr(0, 200), "cast_inputs=")
                 ? Tri::kNo
                 : Tri::kYes;
    }
    return Tri::kUnknown;
  }

  std::set<std::pair<size_t, NodeId>> seen_;
};

// True if the expression has its type with and without autocast: casts, what is made with a type of
// its own, other shapes of these and arithmetic on them.
bool Keeps(const FileFacts& facts, NodeId expression, int depth) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  const NodeId id = syntax.Unwrap(expression);
  if (id == kNoNode || depth == 0) return false;
  switch (syntax.kind(id)) {
    case Kind::kInteger:
    case Kind::kFloat:
      return true;
    case Kind::kUnary:
      return Keeps(facts, syntax.Child(id, f.argument), depth - 1);
    case Kind::kSubscript:
      return Keeps(facts, syntax.Child(id, f.value), depth - 1);
    case Kind::kAttribute: {
      const std::string_view name = syntax.Text(syntax.Child(id, f.attribute));
      return (name == "T" || name == "mT" || name == "data") &&
             Keeps(facts, syntax.Child(id, f.object), depth - 1);
    }
    case Kind::kBinary:
      return OperatorOf(facts, id) != "@" && Keeps(facts, syntax.Child(id, f.left), depth - 1) &&
             Keeps(facts, syntax.Child(id, f.right), depth - 1);
    case Kind::kIdentifier: {
      const std::vector<Assignment> bound = facts.bindings.AssignmentsOf(id);
      return !bound.empty() && std::all_of(bound.begin(), bound.end(), [&](const Assignment& one) {
        return one.value != kNoNode && Keeps(facts, one.value, depth - 1);
      });
    }
    case Kind::kCall: {
      const auto call = TorchCallAt(facts, id);
      if (!call) return false;
      if (!call->is_method && IsOneOf(kMakes, call->name)) return true;
      if (call->is_method && IsOneOf(kCasts, call->name)) {
        if (call->name != "to" && call->name != "type") return true;
        // to(device) keeps what it is given; to(x.dtype) takes what x has.
        const std::string_view text = syntax.Text(syntax.Child(id, f.arguments));
        return HoldsAny(text, {"torch.float", "torch.half", "torch.bfloat16", "torch.double"}) ||
               (!Holds(text, "dtype") && Keeps(facts, call->tensor, depth - 1));
      }
      if (IsOneOf(kShapes, call->name) || call->name.starts_with("new_"))
        return Keeps(facts, call->tensor, depth - 1);
      return false;
    }
    default:
      return false;
  }
}

}  // namespace

bool MayRunUnderAutocast(const FileFacts& facts, NodeId node) {
  if (const Autocast* region = facts.regions.At(node); region != nullptr)
    return region->enabled != Tri::kNo;
  const ProjectFacts& project = facts.project;
  const bool used = project.fp16_on_cuda || project.other_autocast || project.lightning ||
                    project.accelerate || project.hf_trainer || project.apex;
  return used && Callers().MayEnter(facts, node, kMaxCallers);
}

bool HoldsForCallers(const FileFacts& facts, NodeId node, NodeId one, NodeId other) {
  if (facts.regions.At(node) != nullptr || !MayRunUnderAutocast(facts, node)) return true;
  return Keeps(facts, one, kMaxCallerNames) &&
         (other == kNoNode || Keeps(facts, other, kMaxCallerNames));
}

}  // namespace mpnanny::check
