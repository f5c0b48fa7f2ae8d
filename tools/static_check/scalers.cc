#include "tools/static_check/scalers.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace mpnanny::static_check {
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

}  // namespace

std::string_view LastComponent(std::string_view key) {
  if (const size_t bracket = key.find('['); bracket != std::string_view::npos)
    key = key.substr(0, bracket);
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

Scalers::Scalers(const Bindings& bindings) : bindings_(bindings) {
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  const Fields& f = PythonFields();
  if (syntax.text().find("cale") == std::string::npos) return;
  // Paddle's scaler has the same methods and another protocol.
  if (names.ImportsModule("paddle") && !names.ImportsModule("torch")) return;

  std::vector<NodeId> candidates;
  std::set<std::string, std::less<>> used;  // last components that are used as only a scaler is
  std::map<std::string, std::set<std::string_view>> seen;  // last component -> methods called
  for (NodeId id = 0; id < syntax.size(); ++id) {
    if (syntax[id].kind != Kind::kCall) continue;
    if (IsGradScaler(names.Callee(id))) {
      ScalerMade made{id, "", false, false};
      const NodeId enabled = names.Argument(id, -1, "enabled");
      made.enabled_false = syntax.Is(enabled, Kind::kFalse);
      made.enabled_given = enabled != kNoNode && !syntax.Is(enabled, Kind::kTrue);
      for (NodeId up = syntax[id].parent; up != kNoNode; up = syntax[up].parent) {
        const Kind kind = syntax[up].kind;
        if (kind == Kind::kAssignment) {
          made.key = names.Key(syntax.Child(up, f.left));
          break;
        }
        if (kind == Kind::kConditional) made.enabled_given = true;
        if (kind != Kind::kParenthesized && kind != Kind::kConditional) break;
      }
      if (!made.key.empty()) keys_.insert(made.key);
      made_.push_back(std::move(made));
    }
    const std::string_view method = names.Method(id);
    if (!OpOf(method)) continue;
    candidates.push_back(id);
    const std::string key = names.Key(names.Receiver(id));
    if (key.empty() || LowerCase(LastComponent(key)).find("scaler") == std::string::npos) continue;
    const NodeId attribute = syntax[id].parent;
    const bool scales = method == "scale" && syntax.Is(attribute, Kind::kAttribute) &&
                        syntax.Text(syntax.Child(attribute, f.attribute)) == "backward";
    if (method == "unscale_" || scales) used.emplace(LastComponent(key));
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
      bool foreign = false;  // made by something that is not torch's GradScaler
      for (const Assignment& assignment : bindings.AssignmentsOf(names.Receiver(id))) {
        const NodeId value = syntax.Unwrap(assignment.value);
        if (syntax.Is(value, Kind::kCall) && !IsGradScaler(names.Callee(value)) &&
            syntax.Text(value).find("GradScaler") == std::string_view::npos) {
          foreign = true;
        }
      }
      if (foreign) continue;
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

}  // namespace mpnanny::static_check
