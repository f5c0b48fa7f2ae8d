#include "engines/check/facts/half_models.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/check/facts/precision_setup.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// The type that from_pretrained(…, torch_dtype=…) gives the weights; those of a quantised model are
// no floating-point numbers.
HalfType LoadedType(const FileFacts& facts, NodeId call) {
  const Call* called = facts.names.CallAt(call);
  if (called == nullptr || !called->name.ends_with("from_pretrained")) return HalfType::kUnknown;
  for (const char* quantised : {"load_in_8bit", "load_in_4bit", "quantization_config"}) {
    if (facts.names.Argument(call, -1, quantised) != kNoNode) return HalfType::kUnknown;
  }
  NodeId dtype = facts.names.Argument(call, -1, "torch_dtype");
  if (dtype == kNoNode) dtype = facts.names.Argument(call, -1, "dtype");
  if (dtype == kNoNode) return HalfType::kUnknown;
  const std::string_view text = Literal(facts, dtype);
  if (text == "float16") return HalfType::kFp16;
  if (text == "bfloat16") return HalfType::kBf16;
  return facts.regions.ReadHalfType(dtype);
}

// What x.half(), x.to(torch.float16) or a loading call makes of the weights, also with more calls
// behind it (x.half().cuda()).
HalfType TypeMade(const FileFacts& facts, NodeId id, bool* loaded) {
  for (int depth = 0; depth < 6 && facts.syntax.Is(id, Kind::kCall); ++depth) {
    const std::string_view method = facts.names.Method(id);
    if (method == "half" && facts.names.Arguments(id).empty()) return HalfType::kFp16;
    if (method == "bfloat16" && facts.names.Arguments(id).empty()) return HalfType::kBf16;
    if (method == "float") return HalfType::kUnknown;
    if (method == "to") {
      for (const NodeId argument : facts.names.Arguments(id)) {
        const HalfType type = facts.regions.ReadHalfType(argument);
        if (type != HalfType::kUnknown) return type;
        if (facts.names.Resolve(argument) == "torch.float32") return HalfType::kUnknown;
      }
    }
    if (const HalfType type = LoadedType(facts, id); type != HalfType::kUnknown) {
      *loaded = true;
      return type;
    }
    id = facts.names.Receiver(id);
  }
  return HalfType::kUnknown;
}

// The variable that a call casts in place or whose assignment casts it: `m.half()`, `m =
// Net().half()`; "" for neither.
std::string CastVariable(const FileFacts& facts, NodeId call) {
  const NodeId parent = facts.syntax[call].parent;
  if (facts.syntax.Is(parent, Kind::kAssignment))
    return facts.names.Key(facts.syntax.Child(parent, PythonFields().left));
  if (!facts.syntax.Is(parent, Kind::kExpressionStatement)) return "";
  NodeId root = call;
  while (facts.syntax.Is(root, Kind::kCall)) root = facts.names.Receiver(root);
  return root == kNoNode ? "" : facts.names.Key(root);
}

// True for x.float() and x.to(torch.float32).
bool CastsBack(const FileFacts& facts, NodeId call) {
  const std::string_view method = facts.names.Method(call);
  if (method == "float") return true;
  if (method != "to") return false;
  const std::vector<NodeId> arguments = facts.names.Arguments(call);
  return std::any_of(arguments.begin(), arguments.end(), [&](NodeId argument) {
    return facts.names.Resolve(argument) == "torch.float32";
  });
}

// True where the call leaves the variable's weights as they are: m.to(device), m = m.train(), m =
// wrap(m), and everything that is not assigned.
bool KeepsModel(const FileFacts& facts, NodeId call, const std::string& model) {
  if (!facts.syntax.Is(facts.syntax[call].parent, Kind::kAssignment)) return true;
  NodeId root = call;
  while (facts.syntax.Is(root, Kind::kCall)) {
    for (const NodeId argument : facts.names.Arguments(root)) {
      if (facts.names.Key(argument) == model) return true;
    }
    root = facts.names.Receiver(root);
  }
  return root != kNoNode && facts.names.Key(root) == model;
}

// The child of `parent` that holds the node.
NodeId BranchOf(const Syntax& syntax, NodeId parent, NodeId node) {
  while (node != kNoNode && syntax[node].parent != parent) node = syntax[node].parent;
  return node;
}

// The call of parameters() that the expression is, or picks from with filter(…) or a
// comprehension; kNoNode for others.
NodeId Parameters(const FileFacts& facts, NodeId id) {
  if (id == kNoNode) return kNoNode;
  const Syntax& syntax = facts.syntax;
  if (facts.names.Method(id) == "parameters") return id;
  const bool picks =
      syntax.Is(id, Kind::kCall)
          ? syntax.Text(syntax.Child(id, PythonFields().function)) == "filter"
          : syntax.Is(id, Kind::kOther) && syntax.Text(id).find(" for ") != std::string_view::npos;
  NodeId found = kNoNode;
  for (NodeId call = id; picks && call < syntax[id].after; ++call) {
    const std::string_view method = facts.names.Method(call);
    if (method != "parameters" && method != "named_parameters") continue;
    if (found != kNoNode) return kNoNode;  // of two models
    found = call;
  }
  return found;
}

// The weights of the returned value number `index` of a function: what all its returns agree on.
WeightCast Returned(const FileFacts& facts, const Function& function, size_t index,
                    const std::vector<WeightCast>& casts) {
  const Syntax& syntax = facts.syntax;
  WeightCast made;
  bool first = true;
  for (NodeId id = function.body; id < syntax[function.body].after; ++id) {
    if (syntax[id].kind != Kind::kReturn || syntax.FunctionOf(id) != function.node) continue;
    NodeId value = syntax.Unwrap(syntax.Children(id)[0]);
    if (syntax.Is(value, Kind::kExpressionList) || syntax.Is(value, Kind::kTuple))
      value = syntax.Unwrap(syntax.Children(value)[index]);
    if (value == kNoNode) return {};
    WeightCast one;
    if (syntax.Is(value, Kind::kCall)) {
      one.type = TypeMade(facts, value, &one.loaded);
      one.origin = value;
    } else if (const WeightCast* cast = CastAt(facts, casts, facts.names.Key(value), value)) {
      one = *cast;
    }
    if (!first && one.type != made.type) return {};
    made = one;
    first = false;
  }
  return made;
}

// True for what replaces an optimizer's groups by FP32 masters of its FP16 weights: FP16_Optimizer
// of apex, fairseq, Megatron and DeepSpeed, and what is called alike. fairseq's MemoryEfficient…
// keeps no masters.
bool KeepsMasters(std::string_view callee) {
  const std::string name = LowerCase(callee);
  const size_t at = name.find("fp16");
  const bool half = at != std::string::npos || name.find("float16") != std::string::npos ||
                    name.find("mixedprecision") != std::string::npos;
  return half && name.find("optimizer") != std::string::npos &&
         name.find("memoryefficient") == std::string::npos;
}

// True if the optimizer that the call makes is handed, by its name and below, to one that keeps
// masters; the conditions may differ.
bool IsGivenMasters(const FileFacts& facts, NodeId made) {
  const Syntax& syntax = facts.syntax;
  const auto masters = [&](NodeId call) {
    return KeepsMasters(syntax.Text(syntax.Child(call, PythonFields().function)));
  };
  NodeId up = made;
  for (; up != kNoNode && up != syntax.StatementOf(made); up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kAssignment)) break;
    if (up != made && syntax.Is(up, Kind::kCall) && masters(up)) return true;
  }
  if (!syntax.Is(up, Kind::kAssignment)) return false;
  const std::string key = facts.names.Key(syntax.Child(up, PythonFields().left));
  if (key.empty()) return false;
  const bool attribute = key.starts_with("self.");
  for (const Call& call : facts.names.calls()) {
    if (call.node < made && !attribute) continue;
    if (!attribute && syntax.FunctionOf(call.node) != syntax.FunctionOf(made)) continue;
    if (!masters(call.node)) continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      if (facts.names.Key(argument) == key) return true;
    }
  }
  return false;
}

// True if a part of the model, or a parameter of some model, is made FP32 again:
// model.head.float(), p.data = p.data.float().
bool CastsPartBack(const FileFacts& facts, const std::string& model) {
  for (const std::string_view name : {"float", "to"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!CastsBack(facts, call->node)) continue;
      const std::string key = facts.names.Key(call->receiver);
      // Only modules are cast in place, without an assignment; which one it is, is not asked.
      const bool module =
          facts.syntax.Is(facts.syntax[call->node].parent, Kind::kExpressionStatement);
      if (module || key.starts_with(model + ".") || key.ends_with(".data")) return true;
    }
  }
  return false;
}

// True if something that is not seen is called for what it does to the model:
// convert_weights(model). A function of this file casts where CastsPartBack() sees it.
bool IsChangedElsewhere(const FileFacts& facts, const HalfOptimizer& optimizer) {
  for (const Call& call : facts.names.calls()) {
    const Definition callee = facts.Callee(call.node);
    const bool here = callee.function != nullptr && callee.module == facts.number;
    if (call.node < optimizer.cast || call.callee.starts_with("torch.") || here ||
        !facts.syntax.Is(facts.syntax[call.node].parent, Kind::kExpressionStatement))
      continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      if (facts.names.Key(argument) == optimizer.model) return true;
    }
  }
  return false;
}

// What the calls of the file's own functions give to the variables that they are assigned to.
void AddReturned(const FileFacts& facts, std::vector<WeightCast>* casts) {
  const Syntax& syntax = facts.syntax;
  std::vector<WeightCast> more;
  for (const Call& call : facts.names.calls()) {
    const NodeId assignment = syntax[call.node].parent;
    if (!syntax.Is(assignment, Kind::kAssignment)) continue;
    const Function* function = facts.bindings.Callee(call.node);
    if (function == nullptr) continue;
    const NodeId left = syntax.Child(assignment, PythonFields().left);
    std::vector<NodeId> targets{left};
    if (syntax.Is(left, Kind::kPatternList) || syntax.Is(left, Kind::kTuple)) {
      targets.clear();
      for (const NodeId target : syntax.Children(left)) targets.push_back(target);
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      WeightCast made = Returned(facts, *function, i, *casts);
      made.node = call.node;
      made.model = facts.names.Key(targets[i]);
      if (made.type != HalfType::kUnknown && !made.model.empty()) more.push_back(std::move(made));
    }
  }
  for (const WeightCast& cast : more) {
    std::erase_if(*casts, [&](const WeightCast& other) { return other.node == cast.node; });
  }
  casts->insert(casts->end(), more.begin(), more.end());
  std::sort(casts->begin(), casts->end(),
            [](const WeightCast& a, const WeightCast& b) { return a.node < b.node; });
}

}  // namespace

bool RunsBefore(const FileFacts& facts, NodeId first, NodeId then) {
  const Syntax& syntax = facts.syntax;
  for (NodeId up = syntax[first].parent; up != kNoNode; up = syntax[up].parent) {
    switch (syntax[up].kind) {
      case Kind::kFunction:
      case Kind::kLambda:
      case Kind::kModule:
        return true;
      case Kind::kIf:
      case Kind::kElif:
      case Kind::kElse:
      case Kind::kFor:
      case Kind::kWhile:
      case Kind::kTry:
      case Kind::kExcept:
      case Kind::kCaseClause:
      case Kind::kConditional:
      case Kind::kBoolean:
        if (then < up || then >= syntax[up].after) return false;
        // Both in one `if`, one of them in its other branch.
        if (syntax.Is(up, Kind::kIf) && BranchOf(syntax, up, first) != BranchOf(syntax, up, then))
          return false;
        break;
      default:
        break;
    }
  }
  return true;
}

const WeightCast* CastAt(const FileFacts& facts, const std::vector<WeightCast>& casts,
                         const std::string& model, NodeId use) {
  const Syntax& syntax = facts.syntax;
  if (model.empty()) return nullptr;
  const NodeId function = syntax.FunctionOf(use);
  const WeightCast* last = nullptr;
  const WeightCast* built = nullptr;  // in __init__ of the same class
  for (const WeightCast& cast : casts) {
    if (cast.model != model || cast.node > use) continue;
    const NodeId other = syntax.FunctionOf(cast.node);
    if (other == function) {
      last = &cast;
    } else if (model.starts_with("self.") &&
               syntax.Enclosing(cast.node, Kind::kClass) == syntax.Enclosing(use, Kind::kClass) &&
               syntax.Text(syntax.Child(other, PythonFields().name)) == "__init__") {
      built = &cast;
    }
  }
  return last != nullptr ? last : built;
}

std::vector<WeightCast> FindWeightCasts(const FileFacts& facts) {
  std::vector<WeightCast> casts;
  const std::string& text = facts.syntax.text();
  if (!HoldsAny(text, {"half", "float16"})) return casts;
  bool any = false;
  for (const Call& call : facts.names.calls()) {
    const NodeId id = call.node;
    bool loaded = false;
    const HalfType type = TypeMade(facts, id, &loaded);
    any = any || type != HalfType::kUnknown;
    std::string model = CastVariable(facts, id);
    if (type == HalfType::kUnknown && !CastsBack(facts, id) && KeepsModel(facts, id, model))
      continue;
    if (!model.empty()) casts.push_back({id, id, std::move(model), type, loaded});
  }
  if (!any) return {};
  AddReturned(facts, &casts);
  return casts;
}

std::vector<HalfOptimizer> FindHalfOptimizers(const FileFacts& facts) {
  std::vector<HalfOptimizer> found;
  const std::string& text = facts.syntax.text();
  if (text.find(".backward(") == std::string::npos || text.find("optim") == std::string::npos)
    return found;
  const std::vector<WeightCast> casts = FindWeightCasts(facts);
  if (casts.empty()) return found;
  for (const Call& call : facts.names.calls()) {
    const NodeId id = call.node;
    if (!call.callee.starts_with("torch.optim.") ||
        call.callee.find("lr_scheduler") != std::string_view::npos)
      continue;
    const NodeId given = Traced(facts, facts.names.Argument(id, 0, "params"));
    const NodeId parameters = Parameters(facts, given);
    if (parameters == kNoNode) continue;
    const bool some = parameters != given;
    const std::string model = facts.names.Key(facts.names.Receiver(parameters));
    // Those that are picked may be the ones (adapters, a head) that were cast back.
    if (some && CastsPartBack(facts, model)) continue;
    const WeightCast* cast = CastAt(facts, casts, model, id);
    if (cast != nullptr && cast->type != HalfType::kUnknown && !IsGivenMasters(facts, id))
      found.push_back({id, cast->origin, model, some, cast->type, cast->loaded});
  }
  return found;
}

std::string OptimizerVariable(const FileFacts& facts, NodeId made) {
  const NodeId parent = facts.syntax[made].parent;
  if (!facts.syntax.Is(parent, Kind::kAssignment)) return "";
  return facts.names.Key(facts.syntax.Child(parent, PythonFields().left));
}

bool IsPlainlyTrained(const FileFacts& facts, const HalfOptimizer& optimizer) {
  const std::string key = OptimizerVariable(facts, optimizer.call);
  if (key.empty() || !RunsBefore(facts, optimizer.cast, optimizer.call)) return false;
  if (CastsPartBack(facts, optimizer.model)) return false;
  bool steps = false;
  for (const WeightCast& cast : FindWeightCasts(facts)) {
    // FP32 for the step, 16 bits for the rest.
    if (cast.model == optimizer.model && cast.type != optimizer.type && cast.node > optimizer.cast)
      return false;
  }
  for (const Call& call : facts.names.calls()) {
    steps = steps || (call.method == "step" && facts.names.Key(call.receiver) == key);
    if (facts.scalers.At(call.node) != nullptr) {
      steps = steps || facts.scalers.At(call.node)->optimizer == key;
      continue;
    }
    if (call.callee.starts_with("torch.optim.lr_scheduler.") ||
        facts.Callee(call.node).function != nullptr)
      continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      if (facts.names.Key(argument) == key) return false;
    }
  }
  return steps && !IsChangedElsewhere(facts, optimizer);
}

bool TrainsAdapters(const FileFacts& facts) {
  const std::string& text = facts.syntax.text();
  return HoldsAny(text, {"peft", "Peft", "PEFT", "lora", "Lora", "LoRA", "load_in_4bit",
                         "load_in_8bit", "BitsAndBytes", "adapter", "Adapter"});
}

}  // namespace mpnanny::check
