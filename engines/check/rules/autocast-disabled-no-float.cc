#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::autocast_disabled_no_float {
namespace {

// So many expressions are looked at on the ways back to a parameter: names that are assigned often
// lead to many.
constexpr int kMostSteps = 48;

bool IsMatmul(std::string_view name) {
  return name == "matmul" || name == "bmm" || name == "baddbmm" || name == "einsum" || name == "mm";
}

// Operators that keep the dtype and the place of a tensor's values.
bool OnlyMoves(std::string_view name) {
  for (const std::string_view one :
       {"view", "reshape", "transpose", "permute", "flatten", "unsqueeze", "squeeze", "contiguous",
        "expand", "repeat", "rearrange", "pad", "t", "clone", "detach", "narrow", "split"}) {
    if (name == one) return true;
  }
  return false;
}

// The identifier of the parameter that the value is made of; kNoNode where none is found, or where
// something on the way might change the dtype.
NodeId ParameterBehind(const FileFacts& facts, const Function& function, NodeId expression,
                       int* steps) {
  const Fields& f = PythonFields();
  const NodeId id = facts.syntax.Unwrap(expression);
  if (id == kNoNode || --*steps < 0) return kNoNode;
  const auto next = [&](NodeId part) { return ParameterBehind(facts, function, part, steps); };
  switch (facts.syntax.kind(id)) {
    case Kind::kIdentifier: {
      const auto& parameters = function.parameters;
      const std::string_view name = facts.syntax.Text(id);
      if (std::find(parameters.begin(), parameters.end(), name) != parameters.end()) return id;
      for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
        if (const NodeId found = next(assignment.value); found != kNoNode) return found;
      }
      return kNoNode;
    }
    case Kind::kSubscript:
      return next(facts.syntax.Child(id, f.value));
    case Kind::kBinary: {
      const NodeId left = next(facts.syntax.Child(id, f.left));
      return left != kNoNode ? left : next(facts.syntax.Child(id, f.right));
    }
    case Kind::kCall: {
      const Call* call = facts.names.CallAt(id);
      if (call == nullptr || !OnlyMoves(call->name)) return kNoNode;
      const auto torch = ReadTorchCall(facts, *call);
      return next(torch ? torch->tensor : facts.names.Argument(id, 0, "tensor"));
    }
    default:
      return kNoNode;
  }
}

NodeId ParameterBehind(const FileFacts& facts, const Function& function, NodeId expression) {
  int steps = kMostSteps;
  return ParameterBehind(facts, function, expression, &steps);
}

bool IsMatmul(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  const auto call = TorchCallAt(facts, id);
  return (call && IsMatmul(call->name)) || OperatorOf(facts, id) == "@";
}

struct Upcasts {
  bool any = false;
  bool only_of_products = true;  // all of them are of what a matmul returned: too late for its sums
};

// The casts in the function that may make its parameters FP32.
Upcasts UpcastsIn(const FileFacts& facts, const Function& function) {
  Upcasts upcasts;
  const std::string_view text = facts.syntax.Text(function.node);
  for (const std::string_view name : {"float", "double", "to", "type", "astype"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || facts.syntax.FunctionOf(call->node) != function.node)
        continue;
      // To the dtype of another tensor, of what is none of the parameters: no matter.
      const bool named = name == "float" || name == "double" || name == "astype" ||
                         Holds(facts.syntax.Text(call->node), "float32") ||
                         Holds(facts.syntax.Text(call->node), "float64");
      if (!named && ParameterBehind(facts, function, call->receiver) == kNoNode) continue;
      upcasts.any = true;
      const std::vector<Assignment> made = facts.bindings.AssignmentsOf(call->receiver);
      if (std::none_of(made.begin(), made.end(), [&](const Assignment& assignment) {
            return assignment.value != kNoNode && IsMatmul(facts, assignment.value);
          }))
        upcasts.only_of_products = false;
    }
  }
  // dtype=torch.float32 of something that is made, or torch.float32 in a variable.
  if (!upcasts.any && (Holds(text, "float32") || Holds(text, "float64"))) {
    upcasts = {true, false};
  }
  return upcasts;
}

// The function's own parameter, which nobody casts in it: what a region that is switched off gets
// from the region around it. `product`: it is multiplied here, and a cast of the product is none.
NodeId UncastParameter(const FileFacts& facts, NodeId input, bool product) {
  const NodeId id = facts.syntax.Unwrap(input);
  const Function* function =
      id == kNoNode ? nullptr : facts.bindings.FunctionAt(facts.syntax.FunctionOf(id));
  if (function == nullptr || function->node == 0) return kNoNode;
  const NodeId parameter = ParameterBehind(facts, *function, id);
  if (parameter == kNoNode) return kNoNode;
  for (const std::string_view word :
       {"target", "true", "label", "gt", "mask", "idx", "index", "ids", "weight", "wav", "audio"}) {
    if (Holds(facts.syntax.Text(parameter), word)) return kNoNode;
  }
  if (facts.dtypes->Of(parameter).type == Type::kFp32 || facts.dtypes->Of(id).type == Type::kFp32)
    return kNoNode;
  const Upcasts upcasts = UpcastsIn(facts, *function);
  const bool silent = product ? !upcasts.any || !upcasts.only_of_products : upcasts.any;
  return silent ? kNoNode : parameter;
}

// FP16 and BF16 are refused by these.
bool HasNo16BitKernel(std::string_view name) {
  for (const std::string_view one : {"polar", "cholesky", "svd", "svdvals", "eigh", "qr", "lstsq",
                                     "slogdet", "pinv", "pinverse", "inverse", "matrix_exp"}) {
    if (name == one) return true;
  }
  return false;
}

// True if the name is one of several that were taken from ctx.saved_tensors, of which another is
// cast to FP32 and this one is not.
bool IsLeftOutOfSaved(const FileFacts& facts, NodeId input) {
  const Fields& f = PythonFields();
  const NodeId id = facts.syntax.Unwrap(input);
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return false;
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(id));
  const auto is_cast = [&](std::string_view name) {
    for (const std::string_view cast : {".float()", ".to(", ".double()", ".type("}) {
      const std::string whole = std::string(name) + std::string(cast);
      for (size_t at = text.find(whole); at != std::string_view::npos;
           at = text.find(whole, at + 1)) {
        if (at == 0 || (!std::isalnum(static_cast<unsigned char>(text[at - 1])) &&
                        text[at - 1] != '_' && text[at - 1] != '.'))
          return true;
      }
    }
    return false;
  };
  const std::vector<Assignment> assignments = facts.bindings.AssignmentsOf(id);
  if (assignments.size() != 1 || is_cast(facts.syntax.Text(id))) return false;
  const NodeId statement = facts.syntax.Enclosing(assignments[0].target, Kind::kAssignment);
  if (statement == kNoNode ||
      !facts.syntax.Text(facts.syntax.Child(statement, f.right)).ends_with(".saved_tensors"))
    return false;
  for (const NodeId name : facts.syntax.Children(facts.syntax.Child(statement, f.left))) {
    if (facts.syntax.Is(name, Kind::kIdentifier) && is_cast(facts.syntax.Text(name))) return true;
  }
  return false;
}

// The name at the root of a chain of methods, and the chain itself without .float().
struct Chain {
  NodeId root = kNoNode;
  std::string methods;
  bool floats = false;
};

Chain ChainOf(const FileFacts& facts, NodeId expression) {
  NodeId id = facts.syntax.Unwrap(expression);
  Chain chain;
  while (facts.syntax.Is(id, Kind::kCall)) {
    const Call* call = facts.names.CallAt(id);
    if (call == nullptr || call->receiver == kNoNode) return {};
    if (call->name == "float")
      chain.floats = true;
    else
      chain.methods += "." + std::string(call->name);
    id = facts.syntax.Unwrap(call->receiver);
  }
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return {};
  chain.root = id;
  return chain;
}

// `a.float().sigmoid() * b.sigmoid()`: two that are treated alike, but for the cast.
NodeId PartnerWithoutCast(const FileFacts& facts, NodeId binary) {
  const Fields& f = PythonFields();
  const Chain left = ChainOf(facts, facts.syntax.Child(binary, f.left));
  const Chain right = ChainOf(facts, facts.syntax.Child(binary, f.right));
  if (left.root == kNoNode || right.root == kNoNode || left.floats == right.floats ||
      left.methods != right.methods || left.methods.empty())
    return kNoNode;
  const NodeId uncast = left.floats ? right.root : left.root;
  if (facts.dtypes->Of(uncast).type == Type::kFp32) return kNoNode;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(uncast)) {
    const std::string_view text =
        assignment.value == kNoNode ? "" : facts.syntax.Text(assignment.value);
    if (Holds(text, "float")) return kNoNode;
  }
  return uncast;
}

bool IsOff(const FileFacts& facts, const Autocast* autocast) {
  if (autocast == nullptr || autocast->enabled != Tri::kNo || autocast->device == Device::kCpu)
    return false;
  // custom_fwd(cast_inputs=…) casts what it gets.
  return !Holds(facts.syntax.Text(autocast->node), "custom_fwd");
}

// What is only likely to be 16-bit: one finding a region.
class Guesses {
 public:
  Guesses(const FileFacts& facts, Sink& sink) : facts_(facts), sink_(sink) {}

  void Add(NodeId node, const Autocast* autocast, NodeId input, std::string_view operation,
           std::string_view why) {
    if (!seen_.insert(autocast).second) return;
    const ProjectFacts& project = facts_.project;
    const Function* function = facts_.bindings.FunctionAt(facts_.syntax.FunctionOf(node));
    if (!(project.fp16_on_cuda || project.bf16_autocast || project.grad_scaler) ||
        function == nullptr || function->name != "forward")
      return;
    RawFinding& finding = sink_.Add(
        node, "Autocast is off here, and " + std::string(operation) + " gets " +
                  std::string(facts_.syntax.Text(input).substr(0, 60)) + std::string(why));
    finding.guess = true;
    finding.confidence = "medium";
  }

 private:
  const FileFacts& facts_;
  Sink& sink_;
  std::set<const Autocast*> seen_;
};

// with autocast(): out = model(x); with autocast(enabled=False): loss = criterion(out, y)
void HandedOver(const FileFacts& facts, Guesses& guesses) {
  for (const Call& call : facts.names.calls()) {
    const Autocast* off = facts.regions.At(call.node);
    if (!IsOff(facts, off) || !call.callee.empty() || facts.regions.NoGradAt(call.node)) continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      const NodeId id = facts.syntax.Unwrap(argument);
      if (!facts.syntax.Is(id, Kind::kIdentifier)) continue;
      const NodeId function = facts.syntax.FunctionOf(id);
      bool lowered = false;
      bool cast = false;
      for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
        if (assignment.value == kNoNode || assignment.function != function ||
            assignment.target > id)
          continue;
        const Autocast* on = facts.regions.At(assignment.value);
        const Call* made = facts.names.CallAt(facts.syntax.Unwrap(assignment.value));
        lowered = lowered || (on != nullptr && on != off && on->enabled != Tri::kNo &&
                              made != nullptr && made->callee.empty());
        cast = cast || HoldsAny(facts.syntax.Text(assignment.value), {"float", "dtype"});
      }
      if (lowered && !cast)
        guesses.Add(call.node, off, id, call.name,
                    " as the region before it made it, most likely in 16 bits: nothing here calls "
                    ".float().");
    }
  }
}

constexpr std::string_view kLeftOut =
    " as it was saved: others that were saved with it are cast to FP32.";
constexpr std::string_view kAsMade =
    " as the region around it made it, most likely in 16 bits: nothing here calls .float().";

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const bool any =
      std::any_of(facts.regions.all().begin(), facts.regions.all().end(),
                  [](const Autocast& autocast) { return autocast.enabled == Tri::kNo; });
  if (!any) return;
  Guesses guesses(facts, sink);
  for (const Call& plain : facts.names.calls()) {
    const Autocast* autocast = facts.regions.At(plain.node);
    if (!IsOff(facts, autocast)) continue;
    const auto call = ReadTorchCall(facts, plain);
    if (!call || facts.names.Argument(call->node, -1, "dtype") != kNoNode) continue;
    const bool fp32 = facts.ops.PolicyOf(Device::kCuda, call->name) == CastPolicy::kFp32;
    const bool product = IsMatmul(call->name);
    if (!fp32 && !product && !HasNo16BitKernel(call->name)) continue;
    std::vector<NodeId> inputs = facts.names.Arguments(call->node);
    if (call->is_method) inputs.insert(inputs.begin(), call->tensor);
    const auto half =
        !fp32 ? inputs.end() : std::find_if(inputs.begin(), inputs.end(), [&](NodeId input) {
          return facts.dtypes->Of(input).is_16bit();
        });
    if (half != inputs.end()) {
      RawFinding& finding = sink.Add(
          call->node, "Autocast is off here, and " + std::string(call->name) +
                          " gets the 16-bit value " +
                          std::string(facts.syntax.Text(*half).substr(0, 60)) +
                          ": it runs in 16 bits, where autocast would have run it in FP32.");
      NoteAssumed(facts.dtypes->Of(*half), finding);
      continue;
    }
    if (facts.regions.NoGradAt(call->node)) continue;
    if (fp32 && inputs.size() > 1) inputs.resize(1);
    for (const NodeId input : inputs) {
      if (const NodeId parameter = UncastParameter(facts, input, product); parameter != kNoNode) {
        guesses.Add(call->node, autocast, parameter, call->name,
                    product ? " in 16 bits, as the region around it made it: the product is cast "
                              "after its sums may have overflowed."
                            : kAsMade);
        break;
      }
      if (IsLeftOutOfSaved(facts, input)) {
        guesses.Add(call->node, autocast, input, call->name, kLeftOut);
        break;
      }
    }
  }
  for (const NodeId id : facts.binaries) {
    const Autocast* autocast = facts.regions.At(id);
    if (!IsOff(facts, autocast)) continue;
    const std::string_view op = OperatorOf(facts, id);
    if (op == "**") {
      const NodeId base = facts.syntax.Child(id, PythonFields().left);
      if (IsLeftOutOfSaved(facts, base)) guesses.Add(id, autocast, base, "pow", kLeftOut);
    } else if (op == "*" || op == "+" || op == "-") {
      if (const NodeId name = PartnerWithoutCast(facts, id); name != kNoNode)
        guesses.Add(id, autocast, name, "this",
                    " as it is, while the other operand, treated alike, is cast with .float().");
    }
  }
  HandedOver(facts, guesses);
}

}  // namespace mpnanny::check::autocast_disabled_no_float
