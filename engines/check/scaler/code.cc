#include "engines/check/scaler/code.h"

#include <algorithm>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/order.h"
#include "engines/check/syntax/parallel.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// How many names a callable is looked through.
constexpr int kMaxAliases = 4;

}  // namespace

Code::Code(const Codebase& all, size_t number, const Bindings& bindings, const Scalers& scalers)
    : all_(all),
      number_(number),
      bindings_(bindings),
      syntax_(bindings.syntax()),
      names_(bindings.names()),
      scalers_(scalers) {}

void Code::FindOwn() {
  const auto add = [&](NodeId call) {
    reaches_.insert(syntax_.FunctionOf(call));
    active_.push_back(call);
  };
  for (const ScalerCall& call : scalers_.calls()) {
    scales_.insert(syntax_.FunctionOf(call.call));
    add(call.call);
  }
  for (const std::string_view name : {"backward", "zero_grad"}) {
    for (const Call* call : names_.CallsNamed(name)) add(call->node);
  }
  for (const std::string_view name : ClipNames()) {
    for (const Call* call : names_.CallsNamed(name)) add(call->node);
  }
  for (const Call* call : names_.CallsNamed("step")) {
    if (scalers_.IsOptimizer(names_.Key(call->receiver))) add(call->node);
  }
  if (!scalers_.calls().empty() || !scalers_.made().empty()) {
    for (const Call& call : names_.calls()) {
      const std::vector<NodeId> arguments = names_.Arguments(call.node);
      if (std::any_of(arguments.begin(), arguments.end(),
                      [&](NodeId argument) { return scalers_.IsScaler(names_.Key(argument)); }))
        add(call.node);
    }
  }
  const std::string& text = syntax_.text();
  for (size_t at = text.find(".grad"); at != std::string::npos; at = text.find(".grad", at + 5)) {
    NodeId id = syntax_.At(static_cast<uint32_t>(at + 1));
    if (id != kNoNode && syntax_.Is(id, Kind::kIdentifier) && syntax_.Text(id) == "grad")
      id = syntax_[id].parent;
    if (!syntax_.Is(id, Kind::kAttribute)) continue;
    reaches_.insert(syntax_.FunctionOf(id));
    active_.push_back(id);
  }
}

void Code::Complete() {
  if (reaches_.empty()) return;
  for (const Call& call : names_.calls()) {
    const auto target = TargetOf(call.node);
    const bool runs =
        target && (target->function == nullptr || target->code->Reaches(target->function->node));
    if (target ? runs : MayMatter(call)) active_.push_back(call.node);
  }
  std::sort(active_.begin(), active_.end());
  for (const auto& [key, assignments] : bindings_.all()) {
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
}

Codebase::Codebase(const Modules& modules, const std::vector<File>& files, unsigned threads)
    : modules_(modules) {
  for (size_t i = 0; i < files.size(); ++i)
    codes_.push_back(std::make_unique<Code>(*this, i, *files[i].bindings, *files[i].scalers));
  InParallel(codes_.size(), threads, [&](size_t i) { codes_[i]->FindOwn(); });
  Spread(&Code::reaches_);
  Spread(&Code::scales_);
  InParallel(codes_.size(), threads, [&](size_t i) { codes_[i]->Complete(); });
}

void Codebase::Spread(std::set<NodeId> Code::*set) {
  struct Edge {
    size_t from = 0;
    NodeId caller = kNoNode;
    Definition callee;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < codes_.size(); ++i) {
    for (const auto& [call, callee] : modules_.Edges(i))
      edges.push_back({i, codes_[i]->syntax_.FunctionOf(call), callee});
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (const Edge& edge : edges) {
      const Code& there = *codes_[edge.callee.module];
      if ((there.*set).contains(edge.callee.function->node))
        grew = ((*codes_[edge.from]).*set).insert(edge.caller).second || grew;
    }
  }
}

bool Code::MayMatter(const Call& call) const {
  // Of what is not seen: methods of self, and what is given self or an optimizer.
  if (syntax_.Text(call.receiver) == "self" || syntax_.Is(call.receiver, Kind::kCall)) return true;
  const std::vector<NodeId> arguments = names_.Arguments(call.node);
  return SoundsLikeClearing(call.name, call.receiver != kNoNode) ||
         std::any_of(arguments.begin(), arguments.end(), [&](NodeId argument) {
           return syntax_.Text(argument) == "self" || scalers_.IsOptimizer(names_.Key(argument));
         });
}

std::optional<Target> Code::TargetOf(NodeId call) const {
  const Call* known = names_.CallAt(call);
  if (known == nullptr) return std::nullopt;
  const NodeId callable = syntax_.Unwrap(syntax_.Child(call, PythonFields().function));
  const Definition found = all_.modules().Callee(number_, call);
  if (found.function == nullptr) {
    if (known->callee.starts_with("torch.")) return std::nullopt;
    return TargetOfValue(callable, kMaxAliases);
  }
  Target target{&all_[found.module], found.function, kNoNode, "", kNoNode};
  if (found.function->klass == kNoNode) return target;
  if (found.function->name == "__init__") return std::nullopt;  // what is made has done nothing yet
  // x.step(…) runs a method of x, x(…) its __call__ or forward.
  const bool method = known->receiver != kNoNode && known->method == found.function->name;
  target.self = names_.Key(method ? known->receiver : callable);
  if (target.self.empty()) target.self = "()" + std::to_string(call);
  return target;
}

std::optional<Target> Code::MethodOfBase(NodeId klass, std::string_view name) const {
  if (klass == kNoNode) return std::nullopt;
  for (const NodeId base : bindings_.Bases(klass)) {
    const Definition found = all_.modules().Method(all_.modules().ClassOf(number_, base), name);
    if (found.function != nullptr)
      return Target{&all_[found.module], found.function, kNoNode, "self", kNoNode};
  }
  return std::nullopt;
}

std::optional<Target> Code::TargetOfValue(NodeId callable, int depth) const {
  const Fields& f = PythonFields();
  if (callable == kNoNode || depth == 0) return std::nullopt;
  if (syntax_.Is(callable, Kind::kLambda)) return Target{this, nullptr, callable, "", kNoNode};
  // functools.partial(f, …) in place of f.
  if (syntax_.Is(callable, Kind::kCall) && names_.Callee(callable) == "functools.partial") {
    auto inner = TargetOfValue(syntax_.Unwrap(names_.Argument(callable, 0, "func")), depth - 1);
    if (!inner || inner->partial != kNoNode) return std::nullopt;
    inner->partial = callable;
    return inner;
  }
  if (syntax_.Is(callable, Kind::kIdentifier)) {
    if (const Function* own = bindings_.FunctionNamed(kNoNode, syntax_.Text(callable)))
      return Target{this, own, kNoNode, "", kNoNode};
  } else if (syntax_.Is(callable, Kind::kAttribute)) {
    const NodeId object = syntax_.Unwrap(syntax_.Child(callable, f.object));
    const std::string_view name = syntax_.Text(syntax_.Child(callable, f.attribute));
    const NodeId klass = syntax_.Enclosing(callable, Kind::kClass);
    if (IsSuper(object)) return name == "__init__" ? std::nullopt : MethodOfBase(klass, name);
    if (syntax_.Text(object) != "self" || klass == kNoNode) return std::nullopt;
    const Definition method = all_.modules().Method({number_, klass}, name);
    if (method.function != nullptr)
      return Target{&all_[method.module], method.function, kNoNode, "self", kNoNode};
  } else {
    return std::nullopt;
  }
  const std::vector<Assignment> bound = bindings_.AssignmentsOf(callable);
  if (bound.size() != 1) return std::nullopt;
  return TargetOfValue(syntax_.Unwrap(bound[0].value), depth - 1);
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
  const auto loops = [&](ScalerCall::Op op) {
    const auto calls = CallsIn(function);
    return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall* call) {
      return call->op == op && IsInLoop(call->call);
    });
  };
  return loops(ScalerCall::Op::kScale) && loops(ScalerCall::Op::kStep);
}

bool SoundsLikeClearing(std::string_view name, bool is_method) {
  // prepare_sample(x) has nothing to clear; trainer.prepare_step() may.
  return HoldsAny(name, {"zero", "reset", "clear", "grad", "optim"}) ||
         (is_method && HoldsAny(name, {"prepare", "init", "step", "hook", "before", "after",
                                       "begin", "end", "start", "on_"}));
}

const std::string* Code::Local(NodeId function, std::string_view name) const {
  const auto it = locals_.find(function);
  if (it == locals_.end()) return nullptr;
  const auto local = it->second.find(name);
  return local == it->second.end() ? nullptr : &local->second;
}

bool Code::IsFixedParameter(const Function& function, std::string_view name) const {
  return Local(function.node, name) == nullptr && IsOneOf(function.parameters, name);
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

std::vector<NodeId> Code::ClearsIn(NodeId node) const {
  std::vector<NodeId> found;
  for (const Call* call : names_.CallsNamed("zero_grad")) {
    if (node != kNoNode && call->node >= node && call->node < syntax_[node].after)
      found.push_back(call->node);
  }
  return found;
}

bool Code::Holds(NodeId node, ScalerCall::Op op) const {
  if (node == kNoNode) return false;
  return std::any_of(scalers_.calls().begin(), scalers_.calls().end(), [&](const ScalerCall& call) {
    return call.op == op && call.call >= node && call.call < syntax_[node].after;
  });
}

bool Code::ComputesWithScale(NodeId function) const {
  const auto calls = CallsIn(function);
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall* call) {
    const Kind parent = syntax_.kind(syntax_[call->call].parent);
    return call->op == ScalerCall::Op::kGetScale &&
           (parent == Kind::kBinary || parent == Kind::kAugmentedAssignment ||
            parent == Kind::kArgumentList || parent == Kind::kParenthesized);
  });
}

std::vector<const ScalerCall*> Code::CallsIn(NodeId function) const {
  std::vector<const ScalerCall*> found;
  for (const ScalerCall& call : scalers_.calls()) {
    if (syntax_.FunctionOf(call.call) == function) found.push_back(&call);
  }
  return found;
}

bool Code::IsInLoop(NodeId node) const {
  const NodeId function = syntax_.FunctionOf(node);
  return syntax_.Enclosing(node, Kind::kFor) > function ||
         syntax_.Enclosing(node, Kind::kWhile) > function;
}

}  // namespace mpnanny::check
