// What an expression is: the part of DtypeFlow that knows operators, methods and layers.
#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/static_check/dtype_flow.h"

namespace mpnanny::static_check {
namespace {

// Methods and functions whose result has the dtype of their inputs, unless autocast lists them.
constexpr std::string_view kKeepsDtype[] = {
    "view",
    "reshape",
    "permute",
    "transpose",
    "t",
    "contiguous",
    "expand",
    "expand_as",
    "unsqueeze",
    "squeeze",
    "flatten",
    "masked_fill",
    "max",
    "min",
    "amax",
    "amin",
    "clamp",
    "clip",
    "clamp_min",
    "clamp_max",
    "clone",
    "detach",
    "cuda",
    "cpu",
    "chunk",
    "split",
    "unbind",
    "repeat",
    "repeat_interleave",
    "relu",
    "sigmoid",
    "tanh",
    "mean",
    "var",
    "std",
    "sqrt",
    "square",
    "abs",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "true_divide",
    "softmax",
    "log_softmax",
    "exp",
    "log",
    "log2",
    "log10",
    "log1p",
    "rsqrt",
    "reciprocal",
    "sum",
    "cumsum",
    "cumprod",
    "prod",
    "norm",
    "pow",
    "gelu",
    "silu",
    "leaky_relu",
    "dropout",
    "masked_select",
    "gather",
    "index_select",
    "roll",
    "flip",
    "narrow",
    "select",
    "view_as",
    "reshape_as",
    "requires_grad_",
    "logsigmoid",
    "tril",
    "triu",
    "swapaxes",
    "movedim",
    "pad",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "rand_like",
    "randn_like",
    "where",
    "maximum",
    "minimum",
    "cat",
    "stack",
    "concat",
    "layer_norm",
    "matmul",
    "mm",
    "bmm",
    "baddbmm",
    "addmm",
    "linear",
    "einsum",
    "nan_to_num",
    "logsumexp",
    "squeeze_",
    "avg_pool2d",
    "max_pool2d",
    "adaptive_avg_pool2d",
    "elu",
    "hardtanh",
    "mish",
    "scaled_dot_product_attention",
};

// Layers of torch.nn that a method calls as self.name(x), by the function they stand for; "" keeps
// the dtype.
constexpr std::pair<std::string_view, std::string_view> kLayers[] = {
    {"Linear", "linear"},
    {"Conv1d", "conv1d"},
    {"Conv2d", "conv2d"},
    {"Conv3d", "conv3d"},
    {"ConvTranspose2d", "conv_transpose2d"},
    {"LayerNorm", "layer_norm"},
    {"GroupNorm", "group_norm"},
    {"Softmax", "softmax"},
    {"LogSoftmax", "log_softmax"},
    {"Sigmoid", "sigmoid"},
    {"Tanh", "tanh"},
    {"ReLU", "relu"},
    {"GELU", "gelu"},
    {"SiLU", "silu"},
    {"Dropout", "dropout"},
    {"Identity", "contiguous"},
    {"LeakyReLU", "leaky_relu"},
    {"Softplus", "softplus"},
};

constexpr std::string_view kCreates[] = {"zeros", "ones", "empty", "rand",
                                         "randn", "full", "eye",   "linspace"};

template <typename List>
bool Contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

Value DtypeFlow::Record(NodeId id, Value value) {
  if (id == kNoNode) return value;
  if (value.is_16bit() && value.origin == kNoNode) value.origin = id;
  Value& slot = d_.values_[static_cast<size_t>(id)];
  slot = Join(slot, value);
  return value;
}

Value DtypeFlow::Eval(NodeId id) {
  if (id == kNoNode) return {Type::kUnknown, false, kNoNode};
  return Record(id, EvalNode(id));
}

Value DtypeFlow::EvalNode(NodeId id) {
  const Fields& f = PythonFields();
  const Value unknown{Type::kUnknown, false, kNoNode};
  switch (syntax_[id].kind) {
    case Kind::kInteger:
    case Kind::kFloat:
      return {Type::kNumber, false, kNoNode};
    case Kind::kIdentifier: {
      const auto it = env_.find(syntax_.Text(id));
      if (it != env_.end()) return it->second;
      return d_.bindings_.Number(id) ? Value{Type::kNumber, false, kNoNode} : unknown;
    }
    case Kind::kAttribute: {
      const Value object = Eval(syntax_.Child(id, f.object));
      const auto it = env_.find(names_.Key(id));
      if (it != env_.end()) return it->second;
      const std::string_view name = syntax_.Text(syntax_.Child(id, f.attribute));
      if (name == "T" || name == "mT" || name == "data" || name == "grad" || name == "H")
        return object;
      return d_.bindings_.Number(id) ? Value{Type::kNumber, false, kNoNode} : unknown;
    }
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
      if (const std::string_view method = names_.Method(pair);
          (method == "max" || method == "min") &&
          syntax_.Text(syntax_.Child(id, f.subscript)) != "0")
        return {Type::kIndex, false, kNoNode};
      return value;
    }
    case Kind::kUnary:
      return Eval(syntax_.Child(id, f.argument));
    case Kind::kConditional: {
      const std::vector<NodeId> parts = syntax_.Children(id);
      if (parts.size() != 3) return unknown;
      Eval(parts[1]);
      return Join(Eval(parts[0]), Eval(parts[2]));
    }
    case Kind::kComparison:
      for (const NodeId child : syntax_.Children(id)) Eval(child);
      return {Type::kIndex, false, kNoNode};
    case Kind::kBinary: {
      const Value left = Eval(syntax_.Child(id, f.left));
      const Value right = Eval(syntax_.Child(id, f.right));
      const std::string_view op = syntax_.Text(syntax_.Child(id, f.operator_));
      if (op == "@") return Op(id, "matmul", {left, right}, kNoNode);
      if (op == "**") return Op(id, "pow", {left, right}, kNoNode);
      // number / tensor is number * reciprocal(tensor).
      if (op == "/" && left.type == Type::kNumber && right.type != Type::kNumber)
        return Op(id, "reciprocal", {right}, kNoNode);
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
      return unknown;
    default:
      for (const NodeId child : syntax_.Children(id)) Eval(child);
      return unknown;
  }
}

Value DtypeFlow::TypeNamed(NodeId expression) {
  const NodeId value = d_.bindings_.ValueOf(expression);
  const NodeId id = value == kNoNode ? expression : value;
  const std::string name = names_.Resolve(id);
  if (name == "torch.float16" || name == "torch.half") return {Type::kFp16, false, kNoNode};
  if (name == "torch.bfloat16") return {Type::kBf16, false, kNoNode};
  if (name == "torch.float32" || name == "torch.float" || name == "torch.float64" ||
      name == "torch.double") {
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
  return {Type::kUnknown, false, kNoNode};
}

Value DtypeFlow::Call(NodeId id) {
  const Fields& f = PythonFields();
  const Value unknown{Type::kUnknown, false, kNoNode};
  std::vector<Value> values;
  const NodeId receiver = names_.Receiver(id);
  const std::string qualified = names_.Callee(id);
  const std::string_view method = names_.Method(id);
  Value self = unknown;
  const bool is_function = !qualified.empty();
  if (!is_function && receiver != kNoNode) {
    self = Eval(receiver);
    values.push_back(self);
  }
  for (const NodeId argument : syntax_.Children(syntax_.Child(id, f.arguments))) {
    if (!syntax_.Is(argument, Kind::kKeywordArgument)) {
      const Value value = Eval(argument);
      const bool list = syntax_.Is(argument, Kind::kList) || syntax_.Is(argument, Kind::kTuple);
      if (!list) {
        if (d_.bindings_.Number(argument) || value.type != Type::kUnknown || is_function)
          values.push_back(value);
        continue;
      }
      for (const NodeId part : syntax_.Children(argument)) values.push_back(d_.Of(part));
    } else {
      Eval(syntax_.Child(argument, f.value));
    }
  }
  if (is_function) {
    const std::string_view function = TorchFunction(qualified);
    if (function.empty()) return unknown;
    if (Contains(kCreates, function)) {
      const NodeId dtype = names_.Argument(id, -1, "dtype");
      return dtype == kNoNode ? Value{Type::kFp32, false, kNoNode} : TypeNamed(dtype);
    }
    return Op(id, function, values, names_.Argument(id, -1, "dtype"));
  }
  if (method.empty()) return unknown;
  const bool no_arguments = names_.Arguments(id).empty();
  if (method == "half" && no_arguments) return {Type::kFp16, false, id};
  if (method == "bfloat16" && no_arguments) return {Type::kBf16, false, id};
  if (method == "float" || method == "double") return {Type::kFp32, false, kNoNode};
  if (method == "long" || method == "int" || method == "bool")
    return {Type::kIndex, false, kNoNode};
  if (method == "type_as" || method == "to" || method == "type") return Cast(id, self);
  if (method.starts_with("new_")) {
    const NodeId dtype = names_.Argument(id, -1, "dtype");
    return dtype == kNoNode ? self : TypeNamed(dtype);
  }
  if (const std::string_view layer = LayerFunction(id); !layer.empty()) {
    if (layer == "embedding") return {Type::kFp32, false, kNoNode};
    return Op(id, layer, {values.begin() + 1, values.end()}, kNoNode);
  }
  if (method.size() > 1 && method.ends_with('_'))
    return self;  // in place: not cast by autocast, keeps its dtype
  // A tensor's method: its own dtype decides; indices and sizes among the arguments do not.
  std::vector<Value> tensors;
  for (const Value& value : values) {
    if (value.type != Type::kUnknown || tensors.empty()) tensors.push_back(value);
  }
  return Op(id, method, tensors, names_.Argument(id, -1, "dtype"));
}

Value DtypeFlow::Cast(NodeId id, Value self) {
  const Value unknown{Type::kUnknown, false, kNoNode};
  if (names_.Method(id) == "type_as") return d_.Of(names_.Argument(id, 0, "other"));
  NodeId dtype = names_.Argument(id, -1, "dtype");
  if (dtype != kNoNode) return Born(id, TypeNamed(dtype));
  for (const NodeId argument : names_.Arguments(id)) {
    const Value named = TypeNamed(argument);
    if (named.type != Type::kUnknown) return Born(id, named);
    const std::string_view text = syntax_.Text(argument);
    // `.to(dtype)` with a dtype that is not known; anything else is a device, which changes
    // nothing.
    if (text.find("type") != std::string_view::npos || text.find("float") != std::string_view::npos)
      return unknown;
    const bool device =
        syntax_.Is(argument, Kind::kString) || text.find("dev") != std::string_view::npos ||
        text.find("cuda") != std::string_view::npos ||
        text.find("rank") != std::string_view::npos || syntax_.Is(argument, Kind::kTrue);
    if (!device) return unknown;
  }
  return self;
}

Value DtypeFlow::Born(NodeId id, Value value) {
  if (value.is_16bit() && value.origin == kNoNode) value.origin = id;
  return value;
}

std::string_view DtypeFlow::LayerFunction(NodeId call) {
  const NodeId called = syntax_.Child(call, PythonFields().function);
  const NodeId made = d_.bindings_.ValueOf(called, 1);
  if (made == kNoNode || made == called) return {};
  const std::string layer = names_.Callee(made);
  if (!layer.starts_with("torch.nn.")) return {};
  const std::string_view name = std::string_view(layer).substr(9);
  if (name == "Embedding") return "embedding";
  for (const auto& [known, function] : kLayers) {
    if (known == name) return function;
  }
  return {};
}

Value DtypeFlow::Op(NodeId id, std::string_view name, const std::vector<Value>& values,
                    NodeId dtype) {
  if (dtype != kNoNode && !syntax_.Is(dtype, Kind::kNone)) return TypeNamed(dtype);
  Dtypes::Policy policy;
  if (d_.PolicyAt(id, &policy)) {
    switch (d_.ops_.PolicyOf(policy.device, name)) {
      case CastPolicy::kLower:
        // Integer and 64-bit inputs are left alone, but matrix products of those are rare.
        return {policy.half, policy.assumed, id};
      case CastPolicy::kFp32:
        return {Type::kFp32, policy.assumed, kNoNode};
      case CastPolicy::kBanned:
      case CastPolicy::kUnknown:
        return {Type::kUnknown, false, kNoNode};
      case CastPolicy::kPromote:
      case CastPolicy::kUnlisted:
        break;
    }
  }
  if (!Contains(kKeepsDtype, name)) return {Type::kUnknown, false, kNoNode};
  return Promote(values);
}

}  // namespace mpnanny::static_check
