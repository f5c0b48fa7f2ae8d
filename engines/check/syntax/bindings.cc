#include "engines/check/syntax/bindings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace mpnanny::check {
namespace {

std::optional<double> ParseNumber(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;
  }
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data() + 2, digits.data() + digits.size(), value, 16);
    if (error != std::errc()) return std::nullopt;
    return static_cast<double>(value);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::string_view StripQuotes(std::string_view text) {
  while (!text.empty() && text.front() != '"' && text.front() != '\'') text.remove_prefix(1);
  if (text.size() < 2) return {};
  return text.substr(1, text.size() - 2);
}

}  // namespace

Bindings::Bindings(const Syntax& syntax, const Names& names) : syntax_(syntax), names_(names) {
  const Fields& f = PythonFields();
  std::vector<NodeId> classes;
  functions_.push_back({0, 0, kNoNode, "", {}});
  for (NodeId id = 0; id < syntax.size(); ++id) {
    switch (syntax[id].kind) {
      case Kind::kFunction: {
        Function function{id,
                          syntax.Child(id, f.body),
                          kNoNode,
                          std::string(syntax.Text(syntax.Child(id, f.name))),
                          {}};
        const NodeId klass = syntax.Enclosing(id, Kind::kClass);
        if (klass != kNoNode && syntax.FunctionOf(id) == syntax.FunctionOf(klass))
          function.klass = klass;
        for (const NodeId parameter : syntax.Children(syntax.Child(id, f.parameters))) {
          NodeId name = syntax.Child(parameter, f.name);
          if (name == kNoNode)
            name = syntax.Is(parameter, Kind::kTypedParameter) ? syntax[parameter].first_child
                                                               : parameter;
          const std::string_view text = syntax.Text(name);
          if (function.parameters.empty() && function.klass != kNoNode &&
              (text == "self" || text == "cls"))
            continue;
          function.parameters.emplace_back(text);
        }
        functions_by_name_[function.name].push_back(functions_.size());
        functions_.push_back(std::move(function));
        break;
      }
      case Kind::kClass:
        classes_.emplace(syntax.Text(syntax.Child(id, f.name)), id);
        classes.push_back(id);
        break;
      case Kind::kAssignment: {
        const NodeId right = syntax.Child(id, f.right);
        if (right != kNoNode) Bind(syntax.Child(id, f.left), right);
        break;
      }
      case Kind::kNamedExpression:
        Bind(syntax.Child(id, f.name), syntax.Child(id, f.value));
        break;
      case Kind::kAugmentedAssignment:
      case Kind::kFor:
        Bind(syntax.Child(id, f.left), kNoNode);
        break;
      default:
        break;
    }
  }
  for (const NodeId klass : classes) {
    if (DerivesFromModule(klass)) module_classes_.insert(klass);
  }
}

void Bindings::Bind(NodeId target, NodeId value) {
  if (target == kNoNode) return;
  const Kind kind = syntax_.kind(target);
  if (kind == Kind::kPatternList || kind == Kind::kTuple || kind == Kind::kList) {
    const std::vector<NodeId> targets = syntax_.Children(target);
    std::vector<NodeId> values;
    const Kind right = syntax_.kind(value);
    if (right == Kind::kExpressionList || right == Kind::kTuple) values = syntax_.Children(value);
    for (size_t i = 0; i < targets.size(); ++i) {
      Bind(targets[i], values.size() == targets.size() ? values[i] : kNoNode);
    }
    return;
  }
  // `a = b = value`: the right side is an assignment of its own.
  while (syntax_.Is(value, Kind::kAssignment)) value = syntax_.Child(value, PythonFields().right);
  if (std::string key = names_.Key(target); !key.empty()) {
    by_key_[std::move(key)].push_back({target, value, syntax_.FunctionOf(target)});
  }
}

const Function* Bindings::Callee(NodeId call) const {
  const NodeId called = syntax_.Unwrap(syntax_.Child(call, PythonFields().function));
  std::string_view name;
  NodeId klass = kNoNode;
  if (syntax_.Is(called, Kind::kIdentifier)) {
    name = syntax_.Text(called);
  } else if (syntax_.Is(called, Kind::kAttribute) &&
             syntax_.Text(names_.Receiver(call)) == "self") {
    name = names_.Method(call);
    klass = syntax_.Enclosing(call, Kind::kClass);
    if (klass == kNoNode) return nullptr;
  } else {
    return nullptr;
  }
  return FunctionNamed(klass, name);
}

const Function* Bindings::FunctionNamed(NodeId klass, std::string_view name) const {
  const auto it = functions_by_name_.find(name);
  if (it == functions_by_name_.end()) return nullptr;
  const Function* found = nullptr;
  for (const size_t index : it->second) {
    if (functions_[index].klass != klass) continue;
    if (found != nullptr) return nullptr;  // defined twice: which one runs is not known
    found = &functions_[index];
  }
  return found;
}

const Function* Bindings::FunctionAt(NodeId function) const {
  const auto it = std::lower_bound(functions_.begin(), functions_.end(), function,
                                   [](const Function& a, NodeId id) { return a.node < id; });
  return it != functions_.end() && it->node == function ? &*it : nullptr;
}

NodeId Bindings::ClassNamed(std::string_view name) const {
  const auto it = classes_.find(name);
  return it == classes_.end() ? kNoNode : it->second;
}

std::vector<NodeId> Bindings::Bases(NodeId klass) const {
  std::vector<NodeId> bases;
  for (NodeId child = syntax_[klass].first_child; child != kNoNode;
       child = syntax_[child].next_sibling) {
    if (syntax_[child].kind != Kind::kArgumentList) continue;
    for (const NodeId base : syntax_.Children(child)) {
      if (!syntax_.Is(base, Kind::kKeywordArgument)) bases.push_back(base);
    }
  }
  return bases;
}

bool Bindings::DerivesFromModule(NodeId klass) const {
  for (int depth = 0; klass != kNoNode && depth < 8; ++depth) {
    NodeId next = kNoNode;
    for (const NodeId base : Bases(klass)) {
      const std::string qualified = names_.Resolve(base);
      const std::string_view text = syntax_.Text(base);
      if (qualified.starts_with("torch.nn.") || text.ends_with("Module") ||
          text.ends_with("PreTrainedModel"))
        return true;
      if (const NodeId known = ClassNamed(text); known != kNoNode && known != klass) next = known;
    }
    klass = next;
  }
  return false;
}

std::vector<Assignment> Bindings::AssignmentsOf(NodeId expression) const {
  const std::string key = names_.Key(expression);
  const auto it = by_key_.find(key);
  if (key.empty() || it == by_key_.end()) return {};
  if (key.find('.') != std::string::npos) {
    const NodeId klass =
        key.starts_with("self.") ? syntax_.Enclosing(expression, Kind::kClass) : kNoNode;
    std::vector<Assignment> found;
    for (const Assignment& assignment : it->second) {
      if (klass == kNoNode || syntax_.Enclosing(assignment.target, Kind::kClass) == klass)
        found.push_back(assignment);
    }
    return found;
  }
  for (NodeId function = syntax_.FunctionOf(expression);; function = syntax_.FunctionOf(function)) {
    std::vector<Assignment> found;
    for (const Assignment& assignment : it->second) {
      if (assignment.function == function) found.push_back(assignment);
    }
    if (!found.empty() || function == 0) return found;
    // A parameter hides what is outside.
    if (const Function* inner = FunctionAt(function);
        inner != nullptr && std::find(inner->parameters.begin(), inner->parameters.end(), key) !=
                                inner->parameters.end()) {
      return {};
    }
  }
}

NodeId Bindings::ParameterDefault(NodeId function, std::string_view name) const {
  const Fields& f = PythonFields();
  if (function == 0) return kNoNode;
  for (const NodeId parameter : syntax_.Children(syntax_.Child(function, f.parameters))) {
    const Kind kind = syntax_.kind(parameter);
    if (kind != Kind::kDefaultParameter && kind != Kind::kTypedDefaultParameter) continue;
    if (syntax_.Text(syntax_.Child(parameter, f.name)) == name)
      return syntax_.Child(parameter, f.value);
  }
  return kNoNode;
}

NodeId Bindings::ValueOf(NodeId expression, int depth) const {
  const NodeId id = syntax_.Unwrap(expression);
  const Kind kind = syntax_.kind(id);
  if (kind != Kind::kIdentifier && kind != Kind::kAttribute) return id;
  if (depth == 0 || !names_.Resolve(id).empty()) return id;
  const std::vector<Assignment> assignments = AssignmentsOf(id);
  if (assignments.empty() && kind == Kind::kIdentifier) {
    return ParameterDefault(syntax_.FunctionOf(id), syntax_.Text(id));
  }
  if (assignments.size() != 1 || assignments[0].value == kNoNode) return kNoNode;
  return ValueOf(assignments[0].value, depth - 1);
}

std::optional<double> Bindings::Number(NodeId expression, int depth) const {
  const Fields& f = PythonFields();
  const NodeId id = syntax_.Unwrap(expression);
  if (id == kNoNode || depth == 0) return std::nullopt;
  switch (syntax_.kind(id)) {
    case Kind::kInteger:
    case Kind::kFloat:
      return ParseNumber(syntax_.Text(id));
    case Kind::kUnary: {
      const auto value = Number(syntax_.Child(id, f.argument), depth - 1);
      const std::string_view op = syntax_.Text(syntax_.Child(id, f.operator_));
      if (!value || op == "~") return std::nullopt;
      return op == "-" ? -*value : *value;
    }
    case Kind::kBinary: {
      const auto left = Number(syntax_.Child(id, f.left), depth - 1);
      const auto right = left ? Number(syntax_.Child(id, f.right), depth - 1) : std::nullopt;
      if (!right) return std::nullopt;
      const std::string_view op = syntax_.Text(syntax_.Child(id, f.operator_));
      if (op == "+") return *left + *right;
      if (op == "-") return *left - *right;
      if (op == "*") return *left * *right;
      if (op == "/" && *right != 0) return *left / *right;
      if (op == "**") return std::pow(*left, *right);
      return std::nullopt;
    }
    case Kind::kCall: {
      if (syntax_.Text(syntax_.Child(id, f.function)) != "float") return std::nullopt;
      const NodeId argument = names_.Argument(id, 0, "");
      if (!syntax_.Is(argument, Kind::kString)) return Number(argument, depth - 1);
      std::string_view text = StripQuotes(syntax_.Text(argument));
      const bool negative = text.starts_with('-');
      if (negative || text.starts_with('+')) text.remove_prefix(1);
      if (text == "inf" || text == "infinity" || text == "Inf") {
        const double infinity = std::numeric_limits<double>::infinity();
        return negative ? -infinity : infinity;
      }
      const auto value = ParseNumber(text);
      return value && negative ? -*value : value;
    }
    case Kind::kIdentifier:
    case Kind::kAttribute: {
      const std::string qualified = names_.Resolve(id);
      if (qualified == "math.inf" || qualified == "numpy.inf" || qualified == "torch.inf") {
        return std::numeric_limits<double>::infinity();
      }
      const NodeId value = ValueOf(id, 1);
      return value == kNoNode || value == id ? std::nullopt : Number(value, depth - 1);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace mpnanny::check
