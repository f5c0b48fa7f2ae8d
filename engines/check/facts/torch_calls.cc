#include "engines/check/facts/torch_calls.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

bool IsIn(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// NEGATIVE of `from .constants import NEGATIVE`: what the file that the import names gives it. None
// where there are several such files that do not agree.
std::optional<double> ImportedConstant(const FileFacts& facts, NodeId id) {
  const std::string_view local = facts.syntax.Text(id);
  if (!facts.syntax.Is(id, Kind::kIdentifier) || facts.files == nullptr) return std::nullopt;
  const bool constant = std::none_of(local.begin(), local.end(), [](char c) {
    return std::islower(static_cast<unsigned char>(c)) != 0;
  });
  std::string qualified = constant ? facts.names.Resolve(id) : "";
  const size_t last = qualified.rfind('.');
  if (last == std::string::npos) return std::nullopt;
  const std::string name = qualified.substr(last + 1);
  std::string module = "/" + qualified.substr(qualified.find_first_not_of('.'));
  module.resize(module.size() - name.size());
  std::replace(module.begin(), module.end(), '.', '/');
  if (module.size() > 1) module.pop_back();
  std::optional<double> found;
  for (const FileFacts* file : *facts.files) {
    const std::string path = "/" + file->path;
    if (!path.ends_with(module + ".py") && !path.ends_with(module + "/__init__.py")) continue;
    const auto it = file->bindings.all().find(name);
    if (it == file->bindings.all().end() || it->second.size() != 1) continue;
    const auto value = file->bindings.Number(it->second[0].value);
    if (!value || (found && *found != *value)) return std::nullopt;
    found = value;
  }
  return found;
}

// Functions whose values stay within a few units of zero.
constexpr std::string_view kBetween[] = {"tanh", "sigmoid",           "softmax",  "cos",
                                         "sin",  "cosine_similarity", "hardtanh", "erf"};

// Whether a function of the project limits what it returns; none for other expressions.
std::optional<bool> LimitsItsResult(const FileFacts& facts, NodeId id) {
  if (!facts.syntax.Is(id, Kind::kCall)) return std::nullopt;
  const Definition callee = facts.Callee(id);
  if (callee.function == nullptr) return std::nullopt;
  const std::string_view text = (*facts.files)[callee.module]->syntax.Text(callee.function->node);
  return text.find("clamp") != std::string_view::npos ||
         text.find("clip") != std::string_view::npos;
}

}  // namespace

std::optional<TorchCall> ReadTorchCall(const FileFacts& facts, const Call& call) {
  if (!call.callee.empty()) {
    const std::string_view name = TorchFunction(call.callee);
    if (name.empty()) return std::nullopt;
    NodeId tensor = facts.names.Argument(call.node, 0, "input");
    if (tensor == kNoNode) tensor = facts.names.Argument(call.node, -1, "self");
    return TorchCall{call.node, tensor, name, false};
  }
  if (call.method.empty()) return std::nullopt;
  return TorchCall{call.node, call.receiver, call.method, true};
}

std::optional<TorchCall> TorchCallAt(const FileFacts& facts, NodeId node) {
  const NodeId id = facts.syntax.Unwrap(node);
  const Call* call = id == kNoNode ? nullptr : facts.names.CallAt(id);
  return call == nullptr ? std::nullopt : ReadTorchCall(facts, *call);
}

NodeId ArgumentOf(const FileFacts& facts, const TorchCall& call, int position,
                  std::string_view keyword) {
  const int shift = call.is_method || position < 0 ? 0 : 1;
  return facts.names.Argument(call.node, position + shift, keyword);
}

void ForEachTorchCall(const FileFacts& facts, std::initializer_list<std::string_view> names,
                      const std::function<void(const TorchCall&)>& visit) {
  for (const std::string_view name : names) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (const auto torch = ReadTorchCall(facts, *call)) visit(*torch);
    }
  }
}

NodeId Traced(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return id;
  const NodeId value = facts.bindings.ValueOf(id, 1);
  return value == kNoNode ? id : facts.syntax.Unwrap(value);
}

std::optional<TorchCall> TracedCall(const FileFacts& facts, NodeId expression,
                                    std::initializer_list<std::string_view> names) {
  auto call = TorchCallAt(facts, Traced(facts, expression));
  if (call && !IsIn(call->name, names)) call.reset();
  return call;
}

NodeId SquareOf(const FileFacts& facts, NodeId expression) {
  const Fields& f = PythonFields();
  const NodeId id = Traced(facts, expression);
  if (facts.syntax.Is(id, Kind::kBinary)) {
    const std::string_view op = OperatorOf(facts, id);
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    if (op == "*" && SameText(facts, left, right)) return left;
    if (op == "**" && facts.bindings.Number(right) == 2.0) return left;
    return kNoNode;
  }
  const auto call = TorchCallAt(facts, id);
  if (!call) return kNoNode;
  if (call->name == "square") return call->tensor;
  if (call->name == "pow" && facts.bindings.Number(ArgumentOf(facts, *call, 0, "exponent")) == 2.0)
    return call->tensor;
  return kNoNode;
}

bool SameText(const FileFacts& facts, NodeId a, NodeId b) {
  const auto plain = [&](NodeId id) {
    std::string text(facts.syntax.Text(facts.syntax.Unwrap(id)));
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
    return text;
  };
  return a != kNoNode && b != kNoNode && plain(a) == plain(b);
}

std::string_view OperatorOf(const FileFacts& facts, NodeId binary) {
  if (!facts.syntax.Is(binary, Kind::kBinary)) return {};
  return facts.syntax.Text(facts.syntax.Child(binary, PythonFields().operator_));
}

std::optional<double> Constant(const FileFacts& facts, NodeId expression) {
  if (const auto number = facts.bindings.Number(expression)) return number;
  const Fields& f = PythonFields();
  NodeId id = Traced(facts, expression);
  double sign = 1;
  if (facts.syntax.Is(id, Kind::kUnary) &&
      facts.syntax.Text(facts.syntax.Child(id, f.operator_)) == "-") {
    sign = -1;
    id = facts.syntax.Unwrap(facts.syntax.Child(id, f.argument));
  }
  if (facts.syntax.Is(id, Kind::kCall)) {
    // torch.tensor(-1e9), also moved; float(torch.finfo(torch.float32).min); q.new_tensor(-1e9)
    const Call* call = facts.names.CallAt(id);
    if (call == nullptr) return std::nullopt;
    const bool made = call->callee == "torch.tensor" || call->callee == "torch.as_tensor" ||
                      call->callee == "torch.scalar_tensor" || call->callee == "numpy.float32" ||
                      call->method == "new_tensor" ||
                      (call->callee.empty() && call->method.empty() && call->name == "float");
    const bool moved = call->method == "to" || call->method == "type_as" ||
                       call->method == "cuda" || call->method == "item";
    const NodeId of = made ? facts.names.Argument(id, 0, "data") : moved ? call->receiver : kNoNode;
    if (of == kNoNode) return std::nullopt;
    const auto number =
        facts.syntax.Is(of, Kind::kIdentifier) ? facts.bindings.Number(of) : Constant(facts, of);
    return number ? std::optional(sign * *number) : std::nullopt;
  }
  if (const auto number = ImportedConstant(facts, id)) return sign * *number;
  if (!facts.syntax.Is(id, Kind::kAttribute)) return std::nullopt;
  if (facts.names.Resolve(id) == "sys.maxsize") return sign * 9.22e18;
  if (facts.names.Resolve(id) == "sys.float_info.max") return sign * 1.7976931348623157e308;
  const NodeId limits = facts.syntax.Unwrap(facts.syntax.Child(id, f.object));
  const std::string& callee = facts.names.Callee(limits);
  if (callee != "torch.finfo" && callee != "numpy.finfo") return std::nullopt;
  const NodeId of = facts.names.Argument(limits, 0, "type");
  const std::string type = facts.names.Resolve(of);
  const std::string_view text = facts.syntax.Text(of);
  // Without a type it is that of torch's default.
  const bool fp32 = of == kNoNode ? callee == "torch.finfo"
                                  : type.ends_with(".float32") || type == "torch.float" ||
                                        text == "\"float32\"" || text == "'float32'";
  if (!fp32) return std::nullopt;
  const std::string_view which = facts.syntax.Text(facts.syntax.Child(id, f.attribute));
  if (which == "min") return sign * -3.4028234663852886e38;
  if (which == "max") return sign * 3.4028234663852886e38;
  if (which == "eps") return sign * 1.1920928955078125e-07;
  if (which == "tiny" || which == "smallest_normal") return sign * 1.1754943508222875e-38;
  return std::nullopt;
}

bool IsBoundedAbove(const FileFacts& facts, NodeId expression, double bound, int depth) {
  const Fields& f = PythonFields();
  const NodeId id = Traced(facts, expression);
  if (id == kNoNode || depth == 0) return false;
  if (const auto number = facts.bindings.Number(id)) return *number <= bound;
  const auto not_negative = [&](NodeId node) {
    // The square, absolute value or a rectified value is never below zero.
    if (SquareOf(facts, node) != kNoNode) return true;
    return TracedCall(facts, node,
                      {"abs", "relu", "softplus", "norm", "cdist", "square", "sigmoid", "exp",
                       "pairwise_distance", "vector_norm", "sum", "mean", "var", "std"})
        .has_value();
  };
  // What a minus in front leaves bounded above.
  const auto bounded_below = [&](NodeId node) {
    if (not_negative(node)) return true;
    const NodeId made = Traced(facts, node);
    if (const auto limits = LimitsItsResult(facts, made)) return *limits;
    const auto call = TorchCallAt(facts, made);
    if (call && IsIn(call->name, {"clamp", "clip", "clamp_", "clamp_min"}))
      return ArgumentOf(facts, *call, 0, "min") != kNoNode;
    return call && IsOneOf(kBetween, call->name);
  };
  if (facts.syntax.Is(id, Kind::kUnary))
    return facts.syntax.Text(facts.syntax.Child(id, f.operator_)) == "-" &&
           (bounded_below(facts.syntax.Child(id, f.argument)) ||
            facts.syntax.Is(Traced(facts, facts.syntax.Child(id, f.argument)), Kind::kBinary));
  if (facts.syntax.Is(id, Kind::kBinary)) {
    const std::string_view op = OperatorOf(facts, id);
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    if (op == "-") {
      // Less its maximum, or its log-sum-exp.
      const NodeId from = Traced(facts, right);
      if (facts.syntax.Text(from).find("max") != std::string_view::npos ||
          facts.syntax.Text(from).find("logsumexp") != std::string_view::npos ||
          facts.syntax.Text(right).find("max") != std::string_view::npos)
        return true;
      return IsBoundedAbove(facts, left, bound, depth - 1) && not_negative(right);
    }
    if (op == "*" || op == "/") {
      const auto a = facts.bindings.Number(left);
      const auto b = facts.bindings.Number(right);
      if (a && *a < 0) return bounded_below(right);
      if (b && *b < 0) return bounded_below(left);
      if (a && *a > 0 && *a <= 1) return IsBoundedAbove(facts, right, bound, depth - 1);
      return IsBoundedAbove(facts, left, bound, depth - 1) &&
             facts.syntax.Is(Traced(facts, left), Kind::kUnary);
    }
    return false;
  }
  if (const auto limits = LimitsItsResult(facts, id)) return *limits;
  const auto call = TorchCallAt(facts, id);
  if (!call) return false;
  if (IsOneOf(kBetween, call->name) || IsIn(call->name, {"log_softmax", "logsigmoid", "minimum"}))
    return true;
  if (IsIn(call->name, {"clamp", "clip", "clamp_", "clamp_max"})) {
    const bool only = call->name == "clamp_max";
    const auto limit = facts.bindings.Number(ArgumentOf(facts, *call, only ? 0 : 1, "max"));
    // A limit that is not known is one that somebody chose.
    return ArgumentOf(facts, *call, only ? 0 : 1, "max") != kNoNode && (!limit || *limit <= bound);
  }
  if (IsIn(call->name, {"neg", "negative"})) return bounded_below(call->tensor);
  if (IsIn(call->name, {"view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "mul",
                        "div", "contiguous", "to", "half", "sum", "mean"}))
    return IsBoundedAbove(facts, call->tensor, bound, depth - 1);
  return false;
}

bool IsTensorIndex(const FileFacts& facts, NodeId subscript) {
  for (const NodeId part : facts.syntax.Children(subscript)) {
    if (facts.syntax[part].field != PythonFields().subscript) continue;
    if (facts.syntax.Is(part, Kind::kComparison)) return true;
    if (facts.dtypes->Of(part).type == Type::kIndex) return true;
    // A tensor that is an index holds whole numbers, whatever it was put together from.
    if (TracedCall(facts, part,
                   {"cat", "stack", "arange", "randperm", "randint", "nonzero", "argsort"}))
      return true;
  }
  return false;
}

std::string_view ZeroForm(const FileFacts& facts, NodeId expression, int depth) {
  if (depth == 0) return {};
  const NodeId id = Traced(facts, expression);
  if (SquareOf(facts, id) != kNoNode) return "a square";
  if (OperatorOf(facts, id) == "-") {
    // max - min, E[x^2] - E[x]^2.
    const Fields& f = PythonFields();
    const auto left = TracedCall(facts, facts.syntax.Child(id, f.left), {"max", "amax"});
    const auto right = TracedCall(facts, facts.syntax.Child(id, f.right), {"min", "amin"});
    if (left && right) return "a range";
    return {};
  }
  const auto call = TorchCallAt(facts, id);
  if (!call) return {};
  if (call->name == "var") return "a variance";
  if (call->name == "std") return "a standard deviation";
  if (call->name == "norm" || call->name == "vector_norm") return "a norm";
  if (call->name == "relu") return "a rectified value";
  if (call->name == "sigmoid" || call->name == "softmax") return "a probability";
  const bool sum =
      call->name == "sum" || call->name == "mean" || call->name == "max" || call->name == "amax";
  if (sum && SquareOf(facts, call->tensor) != kNoNode) return "a sum of squares";
  if (sum && TracedCall(facts, call->tensor, {"abs", "relu"})) return "magnitudes";
  if (call->name == "unsqueeze" || call->name == "view" || call->name == "expand_as" ||
      call->name == "sqrt")
    return ZeroForm(facts, call->tensor, depth - 1);
  return {};
}

bool MayTrain(const FileFacts& facts, NodeId node) {
  if (facts.regions.NoGradAt(node)) return false;
  if (HoldsAny(facts.path, {"evaluat", "metrics", "inference", "export", "deploy", "pipelines/",
                            "dump_", "demo", "trackers/"}))
    return false;
  const NodeId function = facts.syntax.FunctionOf(node);
  if (function == 0) return true;
  const std::string_view name =
      facts.syntax.Text(facts.syntax.Child(function, PythonFields().name));
  return !HoldsAny(
      name, {"eval", "valid", "test", "infer", "sample", "export", "predict", "generate", "decode",
             "metric", "onnx", "visual", "plot", "to_rgb", "log_images", "beam"});
}

}  // namespace mpnanny::check
