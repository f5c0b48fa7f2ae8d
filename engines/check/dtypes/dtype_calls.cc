// What a call gives: the part of DtypeFlow that knows torch's functions, methods and layers.
#include <utility>

#include "engines/check/dtypes/dtype_flow.h"
#include "engines/check/facts/switched_off.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

constexpr Value kUnknownResult{Type::kUnknown, false, kNoNode};
constexpr Value kFp32Value{Type::kFp32, false, kNoNode};
constexpr Value kIndexValue{Type::kIndex, false, kNoNode};

// Layers of torch.nn by the function they stand for. Those whose name is the function's in capitals
// (Sigmoid, Dropout) and those with a number of dimensions at the end (MaxPool2d) are found
// without.
constexpr std::pair<std::string_view, std::string_view> kLayers[] = {
    {"Linear", "linear"},
    {"NonDynamicallyQuantizableLinear", "linear"},
    {"LayerNorm", "layer_norm"},
    {"GroupNorm", "layer_norm"},
    {"RMSNorm", "layer_norm"},
    {"SyncBatchNorm", "batch_norm"},
    {"LogSoftmax", "log_softmax"},
    {"LogSigmoid", "logsigmoid"},
    {"LeakyReLU", "leaky_relu"},
    {"PReLU", "prelu"},
    {"Identity", "view"},
    {"Flatten", "view"},
    {"Unflatten", "view"},
    {"Unfold", "view"},
    {"Fold", "view"},
    {"PixelShuffle", "view"},
    {"PixelUnshuffle", "view"},
    {"Upsample", "interpolate"},
    {"LSTM", "linear"},
    {"GRU", "linear"},
    {"MultiheadAttention", "linear"},
    {"CrossEntropyLoss", "cross_entropy"},
    {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits"},
    {"BCELoss", "binary_cross_entropy"},
    {"MSELoss", "mse_loss"},
    {"L1Loss", "l1_loss"},
    {"SmoothL1Loss", "smooth_l1_loss"},
    {"HuberLoss", "huber_loss"},
    {"NLLLoss", "nll_loss"},
    {"KLDivLoss", "kl_div"},
    {"CosineSimilarity", "cosine_similarity"},
};
// The same for groups that differ in their dimensions.
constexpr std::pair<std::string_view, std::string_view> kLayerStems[] = {
    {"ConvTranspose", "conv1d"},
    {"Conv", "conv1d"},
    {"BatchNorm", "batch_norm"},
    {"InstanceNorm", "batch_norm"},
    {"MaxPool", "max_pool2d"},
    {"AvgPool", "avg_pool2d"},
    {"AdaptiveAvgPool", "view"},
    {"AdaptiveMaxPool", "view"},
    {"ReflectionPad", "view"},
    {"ReplicationPad", "view"},
    {"ZeroPad", "view"},
    {"ConstantPad", "view"},
    {"Dropout", "dropout"},
    {"UpsamplingBilinear", "interpolate"},
    {"UpsamplingNearest", "interpolate"},
};

constexpr std::string_view kCreates[] = {"zeros",    "ones",        "empty",         "rand",
                                         "randn",    "full",        "eye",           "linspace",
                                         "logspace", "hann_window", "hamming_window"};

// Of these all arguments decide the dtype; of others the first tensor does, whatever the rest is.
constexpr std::string_view kPromotes[] = {"add",
                                          "sub",
                                          "subtract",
                                          "mul",
                                          "multiply",
                                          "div",
                                          "divide",
                                          "true_divide",
                                          "where",
                                          "maximum",
                                          "minimum",
                                          "lerp",
                                          "addcmul",
                                          "addcdiv",
                                          "atan2",
                                          "cat",
                                          "concat",
                                          "concatenate",
                                          "stack",
                                          "hstack",
                                          "vstack",
                                          "fmod",
                                          "remainder",
                                          "cross",
                                          "dot",
                                          "outer",
                                          "ger",
                                          "matmul",
                                          "mm",
                                          "bmm",
                                          "einsum",
                                          "tensordot",
                                          "baddbmm",
                                          "addmm",
                                          "linear",
                                          "hypot",
                                          "fmax",
                                          "fmin",
                                          "logaddexp",
                                          "pow",
                                          "block_diag",
                                          "row_stack",
                                          "column_stack",
                                          "rsub",
                                          "kron",
                                          "cdist",
                                          "cosine_similarity"};

std::string_view FunctionOfLayer(const OpTable& ops, std::string_view layer, std::string& buffer) {
  for (const auto& [name, function] : kLayers) {
    if (name == layer) return function;
  }
  std::string_view stem = layer;
  if (stem.ends_with('d') && stem.size() > 2) stem.remove_suffix(2);
  for (const auto& [name, function] : kLayerStems) {
    if (name == stem || name == layer) return function;
  }
  buffer.clear();
  for (const char c : layer) buffer += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return ops.KeepsDtype(buffer) ? std::string_view(buffer) : std::string_view{};
}

// True for layers of torch.nn whose result takes the type of their weights.
bool HasWeights(std::string_view layer) {
  return layer == "Linear" || layer == "Embedding" || layer.starts_with("Conv") ||
         layer.ends_with("Norm") || layer.find("Norm1d") != std::string_view::npos ||
         layer.find("Norm2d") != std::string_view::npos ||
         layer.find("Norm3d") != std::string_view::npos;
}

}  // namespace

Value DtypeFlow::Call(NodeId id) {
  const Fields& f = PythonFields();
  std::vector<Value> values;
  const NodeId receiver = names_.Receiver(id);
  const std::string qualified = names_.Callee(id);
  const std::string_view method = names_.Method(id);
  Value self = kUnknownResult;
  const bool is_function = !qualified.empty();
  if (!is_function && receiver != kNoNode) {
    self = Eval(receiver);
    values.push_back(self);
  }
  for (const NodeId argument : syntax_.Children(syntax_.Child(id, f.arguments))) {
    if (syntax_.Is(argument, Kind::kKeywordArgument)) {
      Eval(syntax_.Child(argument, f.value));
      continue;
    }
    const Value value = Eval(argument);
    if (!syntax_.Is(argument, Kind::kList) && !syntax_.Is(argument, Kind::kTuple)) {
      values.push_back(value);
      continue;
    }
    for (const NodeId part : syntax_.Children(argument)) values.push_back(d_.Of(part));
  }
  if (d_.results_ != nullptr) {
    if (const auto it = d_.results_->find(id); it != d_.results_->end()) {
      // What is assumed of the callee does not hold where its caller has switched autocast off.
      const Autocast* around = d_.regions_.At(id);
      const bool off = around != nullptr
                           ? around->enabled == Tri::kNo
                           : IsCalledWithAutocastOff(d_.bindings_, d_.regions_, function_.node);
      return it->second.assumed && off ? kUnknownResult : it->second;
    }
  }
  if (is_function) {
    std::string_view function = TorchFunction(qualified);
    if (qualified.starts_with("einops.")) {
      function = std::string_view(qualified).substr(7);
      if (function == "repeat") function = "rearrange";
    }
    if (function.empty())
      return IsNumber(id) ? Value{Type::kNumber, false, kNoNode} : kUnknownResult;
    const NodeId dtype = names_.Argument(id, -1, "dtype");
    if (IsOneOf(kCreates, function)) return dtype == kNoNode ? kFp32Value : TypeNamed(dtype);
    if (function == "tensor" || function == "as_tensor") {
      if (dtype != kNoNode) return TypeNamed(dtype);
      // Without dimensions it takes the other's dtype, as a number does.
      return !values.empty() && values[0].type == Type::kNumber ? values[0] : kUnknownResult;
    }
    if (values.empty()) values.push_back(d_.Of(names_.Argument(id, -1, "input")));
    if (function == "where" || function == "einsum" ||
        (function == "rearrange" && values.size() > 1))
      values.erase(function == "rearrange" ? values.begin() + 1 : values.begin());
    return Op(id, function, values, dtype);
  }
  if (IsNumber(id)) return {Type::kNumber, false, kNoNode};
  if (method.empty()) {
    if (syntax_.Text(syntax_.Child(id, f.function)) == "map") return Mapped(id);
    if (Value layer = Layer(id, values); layer.type != Type::kUnseen) return layer;
    return kUnknownResult;
  }
  const bool no_arguments = names_.Arguments(id).empty();
  if (method == "half" && no_arguments) return {Type::kFp16, false, id};
  if (method == "bfloat16" && no_arguments) return {Type::kBf16, false, id};
  if (method == "float" || method == "double") return kFp32Value;
  if (method == "long" || method == "int" || method == "bool") return kIndexValue;
  if (method == "type_as" || method == "to" || method == "type") return Cast(id, self);
  if (method.starts_with("new_")) {
    const NodeId dtype = names_.Argument(id, -1, "dtype");
    return dtype == kNoNode ? self : TypeNamed(dtype);
  }
  if (Value layer = Layer(id, {values.begin() + 1, values.end()}); layer.type != Type::kUnseen)
    return layer;
  if (method.size() > 1 && method.ends_with('_'))
    return self;  // in place: not cast by autocast, keeps its dtype
  if (method == "masked_fill" || method == "index_fill" || method == "fill") values.resize(1);
  if (method == "where" && values.size() > 2) values.erase(values.begin() + 1);
  return Op(id, method, values, names_.Argument(id, -1, "dtype"));
}

Value DtypeFlow::Mapped(NodeId call) {
  const NodeId lambda = names_.Argument(call, 0, "");
  const NodeId over = names_.Argument(call, 1, "");
  if (!syntax_.Is(lambda, Kind::kLambda) || over == kNoNode) return kUnknownResult;
  const NodeId parameters = syntax_.Child(lambda, PythonFields().parameters);
  const NodeId body = syntax_.Child(lambda, PythonFields().body);
  const std::string parameter(syntax_.Text(parameters));
  if (body == kNoNode || parameter.find(',') != std::string::npos) return kUnknownResult;
  Value value = d_.Of(over);
  if (syntax_.Is(over, Kind::kTuple) || syntax_.Is(over, Kind::kList)) {
    value = {};
    for (const NodeId part : syntax_.Children(over)) value = JoinValues(value, d_.Of(part));
  }
  if (value.type == Type::kUnknown || value.type == Type::kUnseen) return kUnknownResult;
  const Env before = env_;
  env_[parameter] = value;
  const Value mapped = Eval(body);
  env_ = before;
  return mapped;
}

Value DtypeFlow::Layer(NodeId call, const std::vector<Value>& inputs) {
  const NodeId called = syntax_.Unwrap(syntax_.Child(call, PythonFields().function));
  // self.layers[i](x): any of the list.
  const bool element = syntax_.Is(called, Kind::kSubscript);
  const NodeId name = element ? syntax_.Child(called, PythonFields().value) : called;
  if (!syntax_.Is(name, Kind::kIdentifier) && !syntax_.Is(name, Kind::kAttribute)) return {};
  Value result;
  for (const Assignment& assignment : d_.bindings_.AssignmentsOf(name)) {
    NodeId made = assignment.value;
    if (element) {
      if (!names_.Callee(made).ends_with("ModuleList")) return {};
      // [nn.Linear(d, d) for _ in range(n)]: the first call of the list.
      made = syntax_.Unwrap(names_.Argument(made, 0, "modules"));
      if (made == kNoNode || syntax_.Children(made).empty()) return {};
      made = syntax_.Children(made)[0];
    }
    const Value value = Apply(call, made, inputs, 6);
    if (value.type == Type::kUnseen) return {};
    result = JoinValues(result, value);
  }
  return result;
}

Value DtypeFlow::Apply(NodeId call, NodeId layer, const std::vector<Value>& inputs, int depth) {
  if (layer == kNoNode || depth == 0) return {};
  if (syntax_.Is(layer, Kind::kConditional)) {
    const std::vector<NodeId> parts = syntax_.Children(layer);
    if (parts.size() != 3) return {};
    const Value first = Apply(call, parts[0], inputs, depth - 1);
    const Value second = Apply(call, parts[2], inputs, depth - 1);
    return first.type == Type::kUnseen || second.type == Type::kUnseen ? Value{}
                                                                       : JoinValues(first, second);
  }
  const std::string made = names_.Callee(layer);
  if (!made.starts_with("torch.nn.")) return {};
  const std::string_view name = std::string_view(made).substr(9);
  if (name == "Sequential") {
    std::vector<Value> values = inputs;
    for (const NodeId part : names_.Arguments(layer)) {
      const Value next = Apply(call, part, values, depth - 1);
      // What is not known may have made anything, but the next matrix product decides again.
      values = {next.type == Type::kUnseen ? kUnknownResult : next};
    }
    return values.empty() ? kUnknownResult : values[0];
  }
  if (const Entry* entry = d_.EntryOf(function_.node);
      entry != nullptr && entry->module != Type::kUnknown && HasWeights(name)) {
    // The module was cast: what its weights make is of their type, unless autocast decides.
    if (Policy policy; !d_.PolicyAt(call, &policy))
      return {entry->module, false, call, function_.node};
  }
  if (name == "Embedding") return kFp32Value;
  if (name == "utils.weight_norm" || name == "utils.spectral_norm" ||
      name.ends_with("parametrizations.weight_norm") ||
      name.ends_with("parametrizations.spectral_norm"))
    return Apply(call, names_.Argument(layer, 0, "module"), inputs, depth - 1);
  std::string buffer;
  const std::string_view function = FunctionOfLayer(d_.ops_, name, buffer);
  return function.empty() ? Value{} : Op(call, function, inputs, kNoNode);
}

Value DtypeFlow::Op(NodeId id, std::string_view name, const std::vector<Value>& values,
                    NodeId dtype) {
  if (dtype != kNoNode && !syntax_.Is(dtype, Kind::kNone)) return TypeNamed(dtype);
  if (d_.ops_.GivesIndex(name)) return kIndexValue;
  Policy policy;
  if (d_.PolicyAt(id, &policy)) {
    switch (d_.ops_.PolicyOf(policy.device, name)) {
      case CastPolicy::kLower:
        // Integer and 64-bit inputs are left alone, but matrix products of those are rare.
        return {policy.half, policy.assumed, id, policy.passed};
      case CastPolicy::kFp32:
        return {Type::kFp32, policy.assumed, kNoNode, policy.passed};
      case CastPolicy::kBanned:
      case CastPolicy::kUnknown:
        return kUnknownResult;
      case CastPolicy::kPromote:
      case CastPolicy::kUnlisted:
        break;
    }
  }
  if (!d_.ops_.KeepsDtype(name) || values.empty()) return kUnknownResult;
  return IsOneOf(kPromotes, name) ? Promote(values) : Promote({values[0]});
}

}  // namespace mpnanny::check
