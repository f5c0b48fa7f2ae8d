#include "engines/check/facts/scalers.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/text.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

std::optional<ScalerCall::Op> OpOf(std::string_view method) {
  if (method == "scale") return ScalerCall::Op::kScale;
  if (method == "unscale_") return ScalerCall::Op::kUnscale;
  if (method == "step") return ScalerCall::Op::kStep;
  if (method == "update") return ScalerCall::Op::kUpdate;
  if (method == "state_dict") return ScalerCall::Op::kStateDict;
  if (method == "get_scale") return ScalerCall::Op::kGetScale;
  return std::nullopt;
}

// True if a class of this file is a GradScaler whose protocol it leaves as it is.
bool IsPlainSubclass(const Bindings& bindings, std::string_view name) {
  const NodeId klass = name.empty() ? kNoNode : bindings.ClassNamed(name);
  if (klass == kNoNode) return false;
  for (const std::string_view method : {"scale", "unscale_", "step", "update"}) {
    if (bindings.FunctionNamed(klass, method) != nullptr) return false;
  }
  const std::vector<NodeId> bases = bindings.Bases(klass);
  return std::any_of(bases.begin(), bases.end(),
                     [&](NodeId base) { return IsGradScaler(bindings.names().Resolve(base)); });
}

// True if the call makes a GradScaler, also through `Scaler = torch.amp.GradScaler` or a partial.
bool MakesScaler(const Bindings& bindings, NodeId id) {
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  if (IsGradScaler(names.Callee(id))) return true;
  const NodeId callable = syntax.Unwrap(syntax.Child(id, PythonFields().function));
  if (!syntax.Is(callable, Kind::kIdentifier) || !names.Callee(id).empty()) return false;
  if (syntax.Text(callable).find("cale") == std::string_view::npos) return false;
  if (IsPlainSubclass(bindings, syntax.Text(callable))) return true;
  const std::vector<Assignment> values = bindings.AssignmentsOf(callable);
  return std::any_of(values.begin(), values.end(), [&](const Assignment& assignment) {
    NodeId value = syntax.Unwrap(assignment.value);
    if (names.Callee(value) == "functools.partial") value = names.Argument(value, 0, "func");
    return value != kNoNode && IsGradScaler(names.Resolve(value));
  });
}

// True if what is called makes a wrapper of a GradScaler.
bool MakesWrapper(std::string_view name) {
  if (name.empty() || std::isupper(static_cast<unsigned char>(name[0])) == 0 ||
      name.find("Scaler") == std::string_view::npos)
    return false;
  return HoldsAny(name, {"Native", "Loss", "Grad", "Amp", "AMP", "Apex", "Dynamic"});
}

// The scaler or wrapper that the call makes, with the variable that gets it.
ScalerMade ReadMade(const Bindings& bindings, NodeId id) {
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  ScalerMade made{id, "", false, false};
  const NodeId enabled = names.Argument(id, -1, "enabled");
  made.enabled_false = syntax.Is(enabled, Kind::kFalse);
  made.enabled_given = enabled != kNoNode && !syntax.Is(enabled, Kind::kTrue);
  for (NodeId up = syntax[id].parent; up != kNoNode; up = syntax[up].parent) {
    const Kind kind = syntax[up].kind;
    if (kind == Kind::kAssignment) {
      made.key = names.Key(syntax.Child(up, PythonFields().left));
      break;
    }
    if (kind == Kind::kConditional) made.enabled_given = true;
    if (kind != Kind::kParenthesized && kind != Kind::kConditional) break;
  }
  return made;
}

// True if the text names GradScaler or ShardedGradScaler, and not KGradScaler: a class of the
// project has a protocol of its own.
bool NamesGradScaler(std::string_view text) {
  for (size_t at = text.find("GradScaler"); at != std::string_view::npos;
       at = text.find("GradScaler", at + 1)) {
    const std::string_view before = text.substr(0, at);
    if (before.empty() || before.ends_with("Sharded")) return true;
    const auto last = static_cast<unsigned char>(before.back());
    if (std::isalnum(last) == 0 && last != '_') return true;
  }
  return false;
}

// True if a class that is not torch's GradScaler makes what the variable holds. What a function
// returns (get_grad_scaler()) may well be one.
bool IsForeign(const Bindings& bindings, NodeId variable) {
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  for (const Assignment& assignment : bindings.AssignmentsOf(variable)) {
    const NodeId value = syntax.Unwrap(assignment.value);
    const Call* call = names.CallAt(value);
    if (call == nullptr || call->name.empty() || MakesScaler(bindings, value)) continue;
    if (std::isupper(static_cast<unsigned char>(call->name[0])) != 0 &&
        !NamesGradScaler(syntax.Text(value)))
      return true;
  }
  return false;
}

}  // namespace

std::string_view LastComponent(std::string_view key) {
  // state["scaler"] is one of several things that have little in common, scalers["g"] is not.
  if (key.ends_with("\"]") || key.ends_with("']")) {
    const size_t open = key.rfind('[');
    const std::string_view name = key.substr(open + 2, key.size() - open - 4);
    if (open + 4 < key.size() && (name.find("scaler") != std::string_view::npos ||
                                  name.find("optim") != std::string_view::npos))
      return name;
  }
  if (const size_t bracket = key.find('['); bracket != std::string_view::npos)
    key = key.substr(0, bracket);
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

Scalers::Scalers(const Bindings& bindings) : bindings_(bindings) {
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  const Fields& f = PythonFields();
  if (!Holds(syntax.text(), "cale")) return;
  // Paddle's scaler has the same methods and another protocol.
  if (names.ImportsModule("paddle") && !names.ImportsModule("torch")) return;

  std::vector<NodeId> candidates;
  std::set<std::string, std::less<>> used;  // last components that are used as only a scaler is
  std::map<std::string, std::set<std::string_view>> seen;  // last component -> methods called
  for (NodeId id = 0; id < syntax.size(); ++id) {
    if (syntax[id].kind != Kind::kCall) continue;
    if (MakesScaler(bindings, id)) {
      made_.push_back(ReadMade(bindings, id));
      if (!made_.back().key.empty()) keys_.insert(made_.back().key);
    } else if (const Call* call = names.CallAt(id); call != nullptr && MakesWrapper(call->name)) {
      wrappers_.push_back(ReadMade(bindings, id));
    }
    const std::string_view method = names.Method(id);
    if (!OpOf(method)) continue;
    candidates.push_back(id);
    const std::string key = names.Key(names.Receiver(id));
    if (key.empty() || LowerCase(LastComponent(key)).find("scaler") == std::string::npos) continue;
    const NodeId attribute = syntax[id].parent;
    const bool scales = method == "scale" && syntax.Is(attribute, Kind::kAttribute) &&
                        syntax.Text(syntax.Child(attribute, f.attribute)) == "backward";
    // step(optimizer) is no method of scikit-learn's scalers.
    const bool steps = method == "step" && IsOptimizer(names.Key(names.Argument(id, 0, "")));
    if (method == "unscale_" || scales || steps) used.emplace(LastComponent(key));
    // scikit-learn's scalers neither step nor update.
    if (method == "scale" || method == "step" || method == "update") {
      std::set<std::string_view>& methods = seen[std::string(LastComponent(key))];
      methods.insert(method);
      if (methods.size() == 3) used.emplace(LastComponent(key));
    }
  }
  for (const NodeId id : candidates) {
    const std::string key = names.Key(names.Receiver(id));
    if (key.empty()) continue;
    if (!keys_.contains(key)) {
      if (!used.contains(LastComponent(key))) continue;
      if (IsForeign(bindings, names.Receiver(id))) continue;
      keys_.insert(key);
    }
    const std::string_view method = names.Method(id);
    ScalerCall call{*OpOf(method), id, key, ""};
    if (call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale) {
      call.optimizer = names.Key(names.Argument(id, 0, "optimizer"));
      if (!call.optimizer.empty()) optimizers_.insert(call.optimizer);
    }
    calls_.push_back(std::move(call));
  }
  for (const auto& [key, assignments] : bindings.all()) {
    for (const Assignment& assignment : assignments) {
      if (names.Callee(assignment.value).starts_with("torch.optim.") &&
          names.Callee(assignment.value).find("lr_scheduler") == std::string::npos) {
        optimizers_.insert(key);
      }
    }
  }
}

bool Scalers::IsOptimizer(std::string_view key) const {
  if (optimizers_.contains(key)) return true;
  const std::string last = LowerCase(LastComponent(key));
  if (last.find("sched") != std::string::npos) return false;
  return last.find("optim") != std::string::npos || last == "opt" || last.starts_with("opt_") ||
         last.ends_with("_opt");
}

bool Scalers::IsMadeHere(std::string_view key) const {
  return std::any_of(made_.begin(), made_.end(),
                     [&](const ScalerMade& made) { return made.key == key; });
}

bool Scalers::Trains() const {
  const auto on = [](const ScalerMade& made) { return !made.enabled_false; };
  return std::any_of(made_.begin(), made_.end(), on) ||
         std::any_of(wrappers_.begin(), wrappers_.end(), on) ||
         (made_.empty() && (Has(ScalerCall::Op::kStep) || Has(ScalerCall::Op::kScale)));
}

bool Scalers::Has(ScalerCall::Op op) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const ScalerCall& call) { return call.op == op; });
}

const ScalerCall* Scalers::At(NodeId call) const {
  const auto it = std::lower_bound(calls_.begin(), calls_.end(), call,
                                   [](const ScalerCall& a, NodeId id) { return a.call < id; });
  return it != calls_.end() && it->call == call ? &*it : nullptr;
}

std::string Scalers::ScaledBy(NodeId expression) const {
  if (expression == kNoNode) return "";
  const Node& node = bindings_.syntax()[expression];
  for (const ScalerCall& call : calls_) {
    if (call.op == ScalerCall::Op::kScale && call.call >= expression && call.call < node.after)
      return call.scaler;
  }
  return "";
}

}  // namespace mpnanny::check
