// What an expression is: the part of DtypeFlow that knows names, operators and Python's numbers.
// Calls are in dtype_calls.cc.

#include "engines/check/dtypes/dtype_flow.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

constexpr Value kUnknownValue{Type::kUnknown, false, kNoNode};
constexpr Value kNumberValue{Type::kNumber, false, kNoNode};

// What people call numbers. A tensor of such a name costs a miss or a finding; without the list
// every `scores * scale` is unknown.
constexpr std::string_view kNumberNames[] = {
    "eps",         "epsilon",   "scale",     "temperature",     "temp",      "tau",      "alpha",
    "beta",        "margin",    "smooth",    "heads",           "dim",       "d_k",      "dk",
    "d_model",     "scaling",   "qk_scale",  "softmax_scale",   "sm_scale",  "head_dim", "dim_head",
    "momentum",    "decay",     "smoothing", "label_smoothing", "num_heads", "n_head",   "n_heads",
    "hidden_size", "embed_dim", "inf",       "norm_factor"};

// What a configuration is called; it holds no tensors.
constexpr std::string_view kConfigNames[] = {"config", "cfg",     "args",   "opt",    "opts",
                                             "hps",    "hparams", "conf",   "params", "h",
                                             "flags",  "FLAGS",   "options"};

}  // namespace

Value DtypeFlow::Record(NodeId id, Value value) {
  if (id == kNoNode) return value;
  if (value.is_16bit() && value.origin == kNoNode) value.origin = id;
  Value& slot = d_.values_[static_cast<size_t>(id)];
  slot = JoinValues(slot, value);
  return value;
}

Value DtypeFlow::Eval(NodeId id) {
  if (id == kNoNode) return kUnknownValue;
  return Record(id, EvalNode(id));
}

Value DtypeFlow::EvalNode(NodeId id) {
  const Fields& f = PythonFields();
  switch (syntax_[id].kind) {
    case Kind::kInteger:
    case Kind::kFloat:
      return kNumberValue;
    case Kind::kIdentifier: {
      const auto it = env_.find(syntax_.Text(id));
      if (it != env_.end()) return it->second;
      return NameIsNumber(id) ? kNumberValue : kUnknownValue;
    }
    case Kind::kAttribute:
      return Attribute(id);
    case Kind::kParenthesized:
    case Kind::kAwait:
      return Eval(syntax_.Unwrap(id));
    case Kind::kSubscript: {
      const Value value = Eval(syntax_.Child(id, f.value));
      for (const NodeId child : syntax_.Children(id)) {
        if (syntax_[child].field == f.subscript) Eval(child);
      }
      // x.max(dim)[1] are positions.
      const NodeId pair = syntax_.Unwrap(syntax_.Child(id, f.value));
      if (syntax_.Is(pair, Kind::kCall) && GivesPositions(names_.Method(pair)) &&
          syntax_.Text(syntax_.Child(id, f.subscript)) != "0")
        return {Type::kIndex, false, kNoNode};
      return value;
    }
    case Kind::kUnary:
      return Eval(syntax_.Child(id, f.argument));
    case Kind::kConditional: {
      const std::vector<NodeId> parts = syntax_.Children(id);
      if (parts.size() != 3) return kUnknownValue;
      Eval(parts[1]);
      return JoinValues(Eval(parts[0]), Eval(parts[2]));
    }
    case Kind::kComparison:
      for (const NodeId child : syntax_.Children(id)) Eval(child);
      return {Type::kIndex, false, kNoNode};
    case Kind::kBinary: {
      const Value left = Eval(syntax_.Child(id, f.left));
      const Value right = Eval(syntax_.Child(id, f.right));
      const std::string_view op = syntax_.Text(syntax_.Child(id, f.operator_));
      if (left.type == Type::kNumber && right.type == Type::kNumber) return kNumberValue;
      if (op == "@") return Op(id, "matmul", {left, right}, kNoNode);
      if (op == "**") return Op(id, "pow", {left, right}, kNoNode);
      // number / tensor is number * reciprocal(tensor).
      if (op == "/" && left.type == Type::kNumber) return Op(id, "reciprocal", {right}, kNoNode);
      return Promote({left, right});
    }
    case Kind::kNamedExpression: {
      const Value value = Eval(syntax_.Child(id, f.value));
      Assign(syntax_.Child(id, f.name), kNoNode, value);
      return value;
    }
    case Kind::kCall:
      return Call(id);
    case Kind::kLambda:
      return kUnknownValue;
    default:
      for (const NodeId child : syntax_.Children(id)) Eval(child);
      return kUnknownValue;
  }
}

Value DtypeFlow::Attribute(NodeId id) {
  const NodeId of = syntax_.Child(id, PythonFields().object);
  const Value object = Eval(of);
  const std::string key = names_.Key(id);
  if (const auto it = env_.find(key); it != env_.end()) return it->second;
  if (function_.klass != kNoNode && key.starts_with("self.")) {
    if (const Value kept = d_.AttributeOf(function_.klass, key); kept.is_16bit()) return kept;
  }
  const std::string_view name = syntax_.Text(syntax_.Child(id, PythonFields().attribute));
  if (name == "T" || name == "mT" || name == "data" || name == "grad" || name == "H" ||
      name == "values")
    return object;
  if (NameIsNumber(id)) return kNumberValue;
  // A parameter that the module makes: FP32 where autocast does the casting.
  Policy policy;
  if (const NodeId made = d_.bindings_.ValueOf(id, 1);
      made != id && syntax_.Is(made, Kind::kCall) && names_.Callee(made) == "torch.nn.Parameter" &&
      d_.PolicyAt(id, &policy))
    return {Type::kFp32, policy.assumed, kNoNode, policy.passed};
  return kUnknownValue;
}

bool DtypeFlow::IsNumber(NodeId expression) {
  int steps = 200;
  return IsNumber(expression, 5, steps);
}

bool DtypeFlow::NameIsNumber(NodeId name) {
  const auto [it, is_new] = number_names_.try_emplace(syntax_.Text(name), false);
  if (is_new) it->second = IsNumber(name);
  return it->second;
}

bool DtypeFlow::IsNumber(NodeId expression, int depth, int& steps) {
  const Fields& f = PythonFields();
  const NodeId id = syntax_.Unwrap(expression);
  if (id == kNoNode || depth == 0 || --steps < 0) return false;
  switch (syntax_.kind(id)) {
    case Kind::kInteger:
    case Kind::kFloat:
      return true;
    case Kind::kUnary:
      return IsNumber(syntax_.Child(id, f.argument), depth - 1, steps);
    case Kind::kBinary: {
      const NodeId left = syntax_.Child(id, f.left);
      const NodeId right = syntax_.Child(id, f.right);
      const bool is_left = IsNumber(left, depth - 1, steps);
      const bool is_right = IsNumber(right, depth - 1, steps);
      if (is_left && is_right) return true;
      // `dim_head ** -0.5`, `dim // groups`: of a constructor's arguments these are no tensors.
      const NodeId other = is_left ? right : left;
      const std::string_view op = syntax_.Text(syntax_.Child(id, f.operator_));
      return (is_left || is_right) && syntax_.Is(other, Kind::kIdentifier) &&
             (op == "**" || op == "//") && d_.bindings_.AssignmentsOf(other).empty() &&
             syntax_.Text(syntax_.Child(syntax_.FunctionOf(id), f.name)) == "__init__";
    }
    case Kind::kBoolean:
    case Kind::kConditional: {
      const std::vector<NodeId> parts = syntax_.Children(id);
      const bool choice = syntax_.kind(id) == Kind::kConditional;
      return parts.size() >= 2 && IsNumber(parts.back(), depth - 1, steps) &&
             (!choice || IsNumber(parts[0], depth - 1, steps));
    }
    case Kind::kCall: {
      const std::string callee = names_.Callee(id);
      if (callee.starts_with("math.")) return true;
      if (callee.starts_with("numpy.")) {
        const std::vector<NodeId> arguments = names_.Arguments(id);
        return arguments.size() == 1 && IsNumber(arguments[0], depth - 1, steps);
      }
      if (!callee.empty()) return false;
      const std::string_view method = names_.Method(id);
      if (method.empty()) {
        const std::string_view name = syntax_.Text(syntax_.Child(id, f.function));
        return name == "float" || name == "int" || name == "len" || name == "round";
      }
      return method == "item" || method == "size" || method == "numel" || method == "dim" ||
             method == "tolist";
    }
    case Kind::kSubscript:
      return IsNumber(syntax_.Child(id, f.value), depth - 1, steps);
    case Kind::kAttribute: {
      const std::string_view name = syntax_.Text(syntax_.Child(id, f.attribute));
      if (name == "shape" || name == "ndim") return true;
      const std::string qualified = names_.Resolve(id);
      if (!qualified.empty()) return qualified.starts_with("math.");
      const NodeId object = syntax_.Unwrap(syntax_.Child(id, f.object));
      const std::string_view last = syntax_.Text(
          syntax_.Is(object, Kind::kAttribute) ? syntax_.Child(object, f.attribute) : object);
      if (IsOneOf(kConfigNames, last)) return true;
      // torch.finfo(x.dtype).min
      if (syntax_.Is(object, Kind::kCall) && names_.Callee(object) == "torch.finfo") return true;
      [[fallthrough]];
    }
    case Kind::kIdentifier: {
      if (d_.bindings_.Number(id)) return true;
      const std::vector<Assignment> assignments = d_.bindings_.AssignmentsOf(id);
      for (const Assignment& assignment : assignments) {
        if (assignment.value == kNoNode || assignment.value == id ||
            !IsNumber(assignment.value, depth - 1, steps))
          return false;
      }
      if (!assignments.empty()) return true;
      return syntax_.Is(id, Kind::kIdentifier) && IsOneOf(kNumberNames, syntax_.Text(id));
    }
    default:
      return false;
  }
}

Value DtypeFlow::TypeNamed(NodeId expression) {
  // What a parameter is by default says nothing of what callers pass.
  if (syntax_.Is(expression, Kind::kIdentifier) && d_.bindings_.AssignmentsOf(expression).empty() &&
      d_.bindings_.ParameterDefault(syntax_.FunctionOf(expression), syntax_.Text(expression)) !=
          kNoNode)
    return kUnknownValue;
  const NodeId value = d_.bindings_.ValueOf(expression);
  const NodeId id = value == kNoNode ? expression : value;
  const std::string name = names_.Resolve(id);
  if (name == "torch.float16" || name == "torch.half" || name == "torch.HalfTensor" ||
      name == "torch.cuda.HalfTensor")
    return {Type::kFp16, false, kNoNode};
  if (name == "torch.bfloat16") return {Type::kBf16, false, kNoNode};
  if (name == "torch.float32" || name == "torch.float" || name == "torch.float64" ||
      name == "torch.double" || name == "torch.FloatTensor" || name == "torch.cuda.FloatTensor") {
    return {Type::kFp32, false, kNoNode};
  }
  if (name == "torch.long" || name == "torch.int" || name == "torch.bool" ||
      name.starts_with("torch.int") || name.starts_with("torch.uint")) {
    return {Type::kIndex, false, kNoNode};
  }
  if (syntax_.Is(id, Kind::kAttribute) &&
      syntax_.Text(syntax_.Child(id, PythonFields().attribute)) == "dtype") {
    return d_.Of(syntax_.Child(id, PythonFields().object));  // evaluated with the arguments
  }
  return kUnknownValue;
}

Value DtypeFlow::Cast(NodeId id, Value self) {
  if (names_.Method(id) == "type_as") return Born(id, d_.Of(names_.Argument(id, 0, "other")));
  const NodeId dtype = names_.Argument(id, -1, "dtype");
  if (dtype != kNoNode) return Born(id, TypeNamed(dtype));
  for (const NodeId argument : names_.Arguments(id)) {
    const Value named = TypeNamed(argument);
    if (named.type != Type::kUnknown && named.type != Type::kUnseen) return Born(id, named);
    // .to(other): another tensor's dtype.
    if (const Value other = d_.Of(argument); other.is_16bit() || other.type == Type::kFp32)
      return Born(id, other);
    const std::string_view text = syntax_.Text(argument);
    // `.to(dtype)` with a dtype that is not known; anything else is a device, which changes
    // nothing.
    if (text.find("type") != std::string_view::npos || text.find("float") != std::string_view::npos)
      return kUnknownValue;
    const bool device = syntax_.Is(argument, Kind::kString) ||
                        text.find("dev") != std::string_view::npos ||
                        text.find("cuda") != std::string_view::npos ||
                        text.find("rank") != std::string_view::npos ||
                        syntax_.Is(argument, Kind::kTrue) || syntax_.Is(argument, Kind::kFalse);
    if (!device) return kUnknownValue;
  }
  return self;
}

Value DtypeFlow::Born(NodeId id, Value value) {
  if (value.is_16bit() && value.origin == kNoNode) value.origin = id;
  return value;
}

}  // namespace mpnanny::check
