#include "tools/static_check/protocol_code.h"

#include <algorithm>

#include "tools/static_check/protocol.h"
#include "tools/static_check/questions.h"

namespace mpnanny::static_check {
namespace {

// How many names a call is looked through, and base classes a method.
constexpr int kMaxDepth = 4;

}  // namespace

Code::Code(const Bindings& bindings, const Scalers& scalers)
    : bindings_(bindings), syntax_(bindings.syntax()), names_(bindings.names()), scalers_(scalers) {
  const Fields& f = PythonFields();
  for (const Function& function : bindings.functions()) {
    if (function.klass == kNoNode) {
      if (function.node != 0) plain_[function.name].push_back(&function);
      continue;
    }
    methods_.emplace(std::pair(function.klass, std::string_view(function.name)), &function);
    classes_.emplace(syntax_.Text(syntax_.Child(function.klass, f.name)), function.klass);
  }
  for (const auto& [key, assignments] : bindings.all()) {
    if (key.find_first_of(".[") != std::string::npos) continue;
    for (const Assignment& assignment : assignments) {
      if (assignment.function == 0) continue;
      const auto [it, first] = locals_[assignment.function].emplace(key, "");
      const NodeId value = syntax_.Unwrap(assignment.value);
      const bool name = syntax_.Is(value, Kind::kIdentifier) || syntax_.Is(value, Kind::kAttribute);
      it->second = first && name && names_.Resolve(value).empty() ? names_.Key(value) : "";
      if (it->second == key || it->second.starts_with(key + ".")) it->second.clear();
    }
  }
  std::vector<std::pair<NodeId, NodeId>> calls;   // caller, callee
  std::vector<std::pair<NodeId, NodeId>> called;  // call, callee
  const std::vector<Function>& functions = bindings.functions();
  std::vector<NodeId> inside = {0};  // the functions around the current node
  size_t next = 1;
  const auto go_to = [&](NodeId id) {
    while (inside.size() > 1 && id >= syntax_[inside.back()].after) inside.pop_back();
    for (; next < functions.size() && functions[next].node <= id; ++next) {
      while (inside.size() > 1 && functions[next].node >= syntax_[inside.back()].after)
        inside.pop_back();
      if (id < syntax_[functions[next].node].after) inside.push_back(functions[next].node);
    }
    return inside.back();
  };
  for (const struct Call& call : names_.calls()) {
    const NodeId function = go_to(call.node);
    const auto target = TargetOf(call.node);
    if (target && target->function != nullptr) {
      calls.emplace_back(function, target->function->node);
      called.emplace_back(call.node, target->function->node);
    }
    if (Matters(call.node)) {
      reaches_.insert(function);
      active_.push_back(call.node);
    } else if (!target && MayMatter(call)) {
      active_.push_back(call.node);
    } else if (target && target->function == nullptr) {
      active_.push_back(call.node);
    }
  }
  if (syntax_.text().find(".grad") != std::string::npos) {
    for (NodeId id = 0; id < syntax_.size(); ++id) {
      if (syntax_[id].kind != Kind::kAttribute || !syntax_.Text(id).ends_with(".grad")) continue;
      reaches_.insert(syntax_.FunctionOf(id));
      active_.push_back(id);
    }
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [caller, callee] : calls)
      grew = (reaches_.contains(callee) && reaches_.insert(caller).second) || grew;
  }
  for (const auto& [call, callee] : called) {
    if (reaches_.contains(callee)) active_.push_back(call);
  }
  std::sort(active_.begin(), active_.end());
}

bool Code::MayMatter(const struct Call& call) const {
  // Of what is not seen: methods of self, and what is given self or an optimizer.
  if (syntax_.Text(call.receiver) == "self" || syntax_.Is(call.receiver, Kind::kCall)) return true;
  const std::vector<NodeId> arguments = names_.Arguments(call.node);
  return SoundsLikeClearing(call.name) ||
         std::any_of(arguments.begin(), arguments.end(), [&](NodeId argument) {
           return syntax_.Text(argument) == "self" || scalers_.IsOptimizer(names_.Key(argument));
         });
}

bool Code::IsInert(NodeId branch) const {
  const NodeId end = syntax_[branch].after;
  const auto it = std::lower_bound(active_.begin(), active_.end(), branch);
  if (it != active_.end() && *it < end) return false;
  for (NodeId id = branch; id < end; ++id) {
    const Kind kind = syntax_[id].kind;
    if (kind == Kind::kReturn || kind == Kind::kRaise || kind == Kind::kBreak ||
        kind == Kind::kContinue || kind == Kind::kFunction || kind == Kind::kTry)
      return false;
  }
  return true;
}

bool Code::HasTrainingLoop(NodeId function) const {
  bool scales = false;
  bool steps = false;
  for (const ScalerCall& call : scalers_.calls()) {
    if (syntax_.FunctionOf(call.call) != function ||
        (syntax_.Enclosing(call.call, Kind::kFor) <= function &&
         syntax_.Enclosing(call.call, Kind::kWhile) <= function))
      continue;
    scales = scales || call.op == ScalerCall::Op::kScale;
    steps = steps || call.op == ScalerCall::Op::kStep;
  }
  return scales && steps;
}

bool SoundsLikeClearing(std::string_view name) {
  for (const std::string_view word :
       {"zero", "reset", "clear", "grad", "prepare", "init", "optim", "step", "hook", "before",
        "after", "begin", "end", "start", "on_"}) {
    if (name.find(word) != std::string_view::npos) return true;
  }
  return false;
}

bool Code::Matters(NodeId call) const {
  const std::string_view method = names_.Method(call);
  if (scalers_.At(call) != nullptr || method == "backward" || method == "zero_grad" ||
      IsClip(names_, call) ||
      (method == "step" && scalers_.IsOptimizer(names_.Key(names_.Receiver(call)))))
    return true;
  const std::vector<NodeId> arguments = names_.Arguments(call);
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](NodeId argument) { return scalers_.IsScaler(names_.Key(argument)); });
}

const Function* Code::MethodOf(NodeId klass, std::string_view name, int depth) const {
  if (klass == kNoNode || depth == 0) return nullptr;
  const auto it = methods_.find({klass, name});
  return it != methods_.end() ? it->second : BaseMethodOf(klass, name, depth - 1);
}

const Function* Code::BaseMethodOf(NodeId klass, std::string_view name, int depth) const {
  if (klass == kNoNode) return nullptr;
  for (const NodeId list : syntax_.Children(klass)) {
    if (syntax_[list].kind != Kind::kArgumentList) continue;
    for (const NodeId base : syntax_.Children(list)) {
      const auto it = classes_.find(syntax_.Text(base));
      if (it == classes_.end() || it->second == klass) continue;
      if (const Function* found = MethodOf(it->second, name, depth)) return found;
    }
  }
  return nullptr;
}

NodeId Code::ClassOf(NodeId object) const {
  const std::vector<Assignment> bound = bindings_.AssignmentsOf(object);
  if (bound.size() != 1) return kNoNode;
  const NodeId value = syntax_.Unwrap(bound[0].value);
  if (!syntax_.Is(value, Kind::kCall)) return kNoNode;
  const auto it = classes_.find(syntax_.Text(syntax_.Child(value, PythonFields().function)));
  return it == classes_.end() ? kNoNode : it->second;
}

std::optional<Target> Code::TargetOf(NodeId call) const {
  return TargetOf(syntax_.Unwrap(syntax_.Child(call, PythonFields().function)), call, kMaxDepth);
}

std::optional<Target> Code::TargetOf(NodeId callable, NodeId call, int depth) const {
  const Fields& f = PythonFields();
  if (callable == kNoNode || depth == 0) return std::nullopt;
  Target target{this, nullptr, kNoNode, "", kNoNode};
  if (syntax_.Is(callable, Kind::kLambda)) {
    target.lambda = callable;
    return target;
  }
  // functools.partial(f, …) in place of f.
  if (syntax_.Is(callable, Kind::kCall) && names_.Callee(callable) == "functools.partial") {
    const NodeId first = names_.Argument(callable, 0, "func");
    auto inner = TargetOf(syntax_.Unwrap(first), call, depth - 1);
    if (!inner || inner->partial != kNoNode) return std::nullopt;
    inner->partial = callable;
    return inner;
  }
  if (syntax_.Is(callable, Kind::kIdentifier)) {
    const std::string_view name = syntax_.Text(callable);
    const Function* found = nullptr;
    int same = 0;
    if (const auto it = plain_.find(name); it != plain_.end()) {
      found = it->second.front();
      same = static_cast<int>(it->second.size());
    }
    if (same > 0) {
      target.function = same == 1 ? found : nullptr;
      return same == 1 ? std::optional(target) : std::nullopt;
    }
    // wrapper(…) of an object with __call__, or another name of a function.
    if (const NodeId klass = ClassOf(callable); klass != kNoNode) {
      target.function = MethodOf(klass, "__call__", kMaxDepth);
      target.self = name;
      return target.function == nullptr ? std::nullopt : std::optional(target);
    }
    const std::vector<Assignment> bound = bindings_.AssignmentsOf(callable);
    if (bound.size() != 1) return std::nullopt;
    return TargetOf(syntax_.Unwrap(bound[0].value), call, depth - 1);
  }
  if (!syntax_.Is(callable, Kind::kAttribute)) return std::nullopt;
  const NodeId object = syntax_.Unwrap(syntax_.Child(callable, f.object));
  const std::string_view name = syntax_.Text(syntax_.Child(callable, f.attribute));
  if (syntax_.Text(object) == "self") {
    target.self = "self";
    target.function = MethodOf(syntax_.Enclosing(callable, Kind::kClass), name, kMaxDepth);
    if (target.function != nullptr) return target;
    if (const NodeId klass = ClassOf(callable); klass != kNoNode) {
      target.function = MethodOf(klass, "__call__", kMaxDepth);
      target.self = names_.Key(callable);
      return target.function == nullptr ? std::nullopt : std::optional(target);
    }
    const std::vector<Assignment> bound = bindings_.AssignmentsOf(callable);
    if (bound.size() != 1) return std::nullopt;
    return TargetOf(syntax_.Unwrap(bound[0].value), call, depth - 1);
  }
  if (syntax_.Is(object, Kind::kCall) &&
      syntax_.Text(syntax_.Child(object, f.function)) == "super") {
    target.function = BaseMethodOf(syntax_.Enclosing(callable, Kind::kClass), name, kMaxDepth);
    target.self = "self";
    return target.function == nullptr ? std::nullopt : std::optional(target);
  }
  const NodeId klass = ClassOf(object);
  if (klass == kNoNode) return std::nullopt;
  target.function = MethodOf(klass, name, kMaxDepth);
  target.self = names_.Key(object);
  return target.function == nullptr ? std::nullopt : std::optional(target);
}

const std::string* Code::Local(NodeId function, std::string_view name) const {
  const auto it = locals_.find(function);
  if (it == locals_.end()) return nullptr;
  const auto local = it->second.find(name);
  return local == it->second.end() ? nullptr : &local->second;
}

bool Code::IsFixedParameter(const Function& function, std::string_view name) const {
  return Local(function.node, name) == nullptr &&
         std::find(function.parameters.begin(), function.parameters.end(), name) !=
             function.parameters.end();
}

bool Code::IsBesideScale(NodeId node) const {
  for (NodeId up = syntax_[node].parent; up > 0; up = syntax_[up].parent) {
    const Kind kind = syntax_[up].kind;
    if (kind == Kind::kFunction) return false;
    if ((kind == Kind::kIf || kind == Kind::kConditional) && Holds(up, ScalerCall::Op::kScale))
      return true;
  }
  return false;
}

bool Code::IsOtherStep(NodeId node) const {
  for (NodeId up = syntax_[node].parent; up > 0; up = syntax_[up].parent) {
    const Kind kind = syntax_[up].kind;
    if (kind == Kind::kFunction) return false;
    if (kind != Kind::kIf || !Holds(up, ScalerCall::Op::kStep)) continue;
    bool positive = true;
    const NodeId asked = Core(bindings_, syntax_.Child(up, PythonFields().condition), &positive);
    return asked == kNoNode || Ask(bindings_, asked).key != kMixedPrecision;
  }
  return false;
}

bool Code::IsScaledSomewhere(NodeId function, std::string_view name) const {
  const auto it = bindings_.all().find(name);
  return it != bindings_.all().end() &&
         std::any_of(it->second.begin(), it->second.end(), [&](const Assignment& assignment) {
           return assignment.function == function && !scalers_.ScaledBy(assignment.value).empty();
         });
}

bool Code::Holds(NodeId node, ScalerCall::Op op) const {
  if (node == kNoNode) return false;
  return std::any_of(scalers_.calls().begin(), scalers_.calls().end(), [&](const ScalerCall& call) {
    return call.op == op && call.call >= node && call.call < syntax_[node].after;
  });
}

bool Code::ComputesWithScale(NodeId function) const {
  for (const ScalerCall& call : scalers_.calls()) {
    if (call.op != ScalerCall::Op::kGetScale || syntax_.FunctionOf(call.call) != function) continue;
    const Kind parent = syntax_.kind(syntax_[call.call].parent);
    if (parent == Kind::kBinary || parent == Kind::kAugmentedAssignment ||
        parent == Kind::kArgumentList || parent == Kind::kParenthesized)
      return true;
  }
  return false;
}

}  // namespace mpnanny::static_check
