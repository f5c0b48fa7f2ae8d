#include "engines/check/scaler/gradients.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// How many names and conversions are looked through.
constexpr int kMaxGradientNames = 4;

// Methods whose result is the same gradient in another shape or type.
constexpr std::string_view kSame[] = {"detach",  "clone",   "float", "double",   "view",
                                      "flatten", "reshape", "ravel", "coalesce", "abs",
                                      "pow",     "square",  "to",    "cpu",      "contiguous"};
constexpr std::string_view kMeasures[] = {"norm", "max", "min",  "mean",   "sum",
                                          "std",  "var", "amax", "median", "aminmax"};
constexpr std::string_view kClamps[] = {"clamp", "clamp_",     "clip",
                                        "clip_", "clamp_min_", "clamp_max_"};
constexpr std::string_view kNames[] = {"p", "w", "v", "par", "weight", "weights"};

class Reader {
 public:
  explicit Reader(const Bindings& bindings)
      : bindings_(bindings), syntax_(bindings.syntax()), names_(bindings.names()) {}

  bool IsGradient(NodeId expression, int depth = kMaxGradientNames) const {
    const Fields& f = PythonFields();
    const NodeId id = syntax_.Unwrap(expression);
    if (id == kNoNode || depth == 0) return false;
    switch (syntax_.kind(id)) {
      case Kind::kAttribute: {
        const std::string_view attribute = syntax_.Text(syntax_.Child(id, f.attribute));
        const NodeId object = syntax_.Child(id, f.object);
        if (attribute == "data") return IsGradient(object, depth - 1);
        return attribute == "grad" && IsParameter(object);
      }
      case Kind::kCall:
        // torch.cat([p.grad.flatten() for p in …])
        if (const std::string_view joins = TorchFunction(names_.Callee(id));
            joins == "cat" || joins == "stack" || joins == "hstack")
          return MentionsGradient(names_.Argument(id, 0, "tensors"));
        return IsOneOf(kSame, names_.Method(id)) && IsGradient(names_.Receiver(id), depth - 1);
      case Kind::kSubscript:
        return IsGradient(syntax_.Child(id, f.value), depth - 1);
      case Kind::kIdentifier: {
        const std::vector<Assignment> bound = bindings_.AssignmentsOf(id);
        if (bound.size() == 1 && bound[0].value != kNoNode && bound[0].value > 0 &&
            syntax_.FunctionOf(bound[0].value) == syntax_.FunctionOf(id))
          return IsGradient(bound[0].value, depth - 1);
        return IsGradientList(SourceOf(id), depth - 1);
      }
      default:
        return false;
    }
  }

  // True if the gradient of a parameter is somewhere inside.
  bool MentionsGradient(NodeId expression) const {
    if (expression == kNoNode) return false;
    for (NodeId id = expression; id < syntax_[expression].after; ++id) {
      const Kind kind = syntax_[id].kind;
      if (kind == Kind::kAttribute && syntax_.Text(id).ends_with("grad") && IsGradient(id))
        return true;
      if (kind == Kind::kIdentifier && Holds(syntax_.Text(id), "grad") &&
          (IsGradientList(id) || IsGradient(id)))
        return true;
    }
    return false;
  }

 private:
  // [p.grad for p in model.parameters()], or a name that is bound to it once.
  bool IsGradientList(NodeId expression, int depth = kMaxGradientNames) const {
    const NodeId id = syntax_.Unwrap(expression);
    if (id == kNoNode || depth == 0) return false;
    if (syntax_.Is(id, Kind::kIdentifier)) {
      const std::vector<Assignment> bound = bindings_.AssignmentsOf(id);
      return bound.size() == 1 && IsGradientList(bound[0].value, depth - 1);
    }
    return syntax_.Text(id).starts_with('[') &&
           IsGradient(syntax_.Child(id, PythonFields().body), depth - 1);
  }

  // What a loop or a comprehension around the identifier takes it from; kNoNode if it is bound
  // otherwise.
  NodeId SourceOf(NodeId identifier) const {
    const Fields& f = PythonFields();
    const std::string_view name = syntax_.Text(identifier);
    const auto binds = [&](NodeId loop) {
      const NodeId left = syntax_.Child(loop, f.left);
      if (left == kNoNode || syntax_.Child(loop, f.right) == kNoNode) return false;
      for (NodeId id = left; id < syntax_[left].after; ++id) {
        if (syntax_.Is(id, Kind::kIdentifier) && syntax_.Text(id) == name) return true;
      }
      return false;
    };
    for (NodeId up = syntax_[identifier].parent; up > 0; up = syntax_[up].parent) {
      const Kind kind = syntax_[up].kind;
      if (kind == Kind::kFunction) return kNoNode;
      if (kind == Kind::kFor && binds(up)) return syntax_.Child(up, f.right);
      if (kind != Kind::kOther || syntax_.Child(up, f.body) == kNoNode) continue;
      for (const NodeId part : syntax_.Children(up)) {
        if (syntax_[part].field != f.body && binds(part)) return syntax_.Child(part, f.right);
      }
    }
    return kNoNode;
  }

  bool IsParameter(NodeId object) const {
    const NodeId id = syntax_.Unwrap(object);
    const std::string_view text = syntax_.Text(id);
    switch (syntax_.kind(id)) {
      case Kind::kIdentifier: {
        if (IsOneOf(kNames, text) || Holds(text, "param")) return true;
        const NodeId source = SourceOf(id);
        return source != kNoNode && Holds(syntax_.Text(source), "param");
      }
      case Kind::kAttribute:
        return text.ends_with("weight") || text.ends_with("bias") || Holds(text, "param");
      case Kind::kSubscript:
        return Holds(text, "param");
      default:
        return false;
    }
  }

  const Bindings& bindings_;
  const Syntax& syntax_;
  const Names& names_;
};

// What it means that this is added to gradients: noise and weight decay do not carry the loss
// scale.
Event::Kind UseOfSum(std::string_view addend) {
  const bool noise = Holds(addend, "rand") || Holds(addend, "noise");
  return !noise && (Holds(addend, "grad") || Holds(addend, "scale")) ? Event::Kind::kEscape
                                                                     : Event::Kind::kRead;
}

// norm = torch.norm(p.grad), and all that is made of it is p.grad / norm: whatever the gradients
// are scaled by, the quotient is the same. A comparison with 0 and isnan(norm) ask nothing of the
// scale.
bool OnlyNormalises(const Bindings& bindings, NodeId norm) {
  const Syntax& syntax = bindings.syntax();
  const Fields& f = PythonFields();
  const NodeId assignment = syntax[norm].parent;
  const NodeId target = syntax.Child(assignment, f.left);
  if (!syntax.Is(assignment, Kind::kAssignment) || !syntax.Is(target, Kind::kIdentifier))
    return false;
  const NodeId function = syntax.FunctionOf(norm);
  bool divides = false;
  for (NodeId id = syntax[assignment].after; id < syntax[function].after; ++id) {
    if (!syntax.Is(id, Kind::kIdentifier) || syntax.Text(id) != syntax.Text(target)) continue;
    NodeId up = syntax[id].parent;
    while (syntax.Is(up, Kind::kParenthesized)) up = syntax[up].parent;
    if (syntax.Is(up, Kind::kBinary) && syntax.Text(syntax.Child(up, f.operator_)) == "/" &&
        syntax.Child(up, f.right) <= id && Holds(syntax.Text(syntax.Child(up, f.left)), ".grad")) {
      divides = true;
      continue;
    }
    if (syntax.Is(up, Kind::kComparison) && bindings.Number(syntax.Children(up)[1]) == 0.0)
      continue;
    if (syntax.Is(up, Kind::kArgumentList) && Holds(syntax.Text(syntax[up].parent), "isnan"))
      continue;
    return false;
  }
  return divides;
}

// True if the norm is one of gradients that their scale matters to.
bool MeasuresGradients(const Bindings& bindings, const Reader& reader, NodeId norm,
                       NodeId measured) {
  const Syntax& syntax = bindings.syntax();
  if (measured == kNoNode) return false;
  // Of norm(stack([norm(p.grad) …])) the inner one is named.
  for (NodeId id = measured; id < syntax[measured].after; ++id) {
    if (syntax.Is(id, Kind::kCall) &&
        Holds(syntax.Text(syntax.Child(id, PythonFields().function)), "norm"))
      return false;
  }
  return reader.MentionsGradient(measured) && !OnlyNormalises(bindings, norm);
}

GradientUse OfCall(const Bindings& bindings, NodeId call) {
  using enum Event::Kind;
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  const Reader reader(bindings);
  const std::string_view method = names.Method(call);
  const NodeId receiver = names.Receiver(call);
  const std::string& callee = names.Callee(call);
  const NodeId list = syntax.Child(call, PythonFields().arguments);
  const auto use = [](bool is_one, Event::Kind kind) {
    return is_one ? GradientUse(kind) : std::nullopt;
  };
  if (callee == "torch.norm" || callee == "torch.linalg.norm" ||
      callee == "torch.linalg.vector_norm" || callee == "torch._foreach_norm" ||
      callee.ends_with(".get_total_norm") || (callee.empty() && method == "norm"))
    return use(MeasuresGradients(bindings, reader, call, callee.empty() ? receiver : list), kRead);
  // writer.add_histogram(name, p.grad, step)
  if (method == "add_histogram" || callee == "wandb.Histogram") {
    const std::vector<NodeId> given = names.Arguments(call);
    return use(std::any_of(given.begin(), given.end(),
                           [&](NodeId argument) { return reader.IsGradient(argument); }),
               kRead);
  }
  if (callee.starts_with("torch.nan_to_num"))
    return use(reader.IsGradient(names.Argument(call, -1, "out")), kReplace);
  if (!callee.empty() || receiver == kNoNode) return std::nullopt;
  const bool measures = IsOneOf(kMeasures, method);
  if ((!measures && !method.ends_with('_')) || !reader.IsGradient(receiver)) return std::nullopt;
  if (measures || IsOneOf(kClamps, method)) return kRead;
  if (method == "zero_") return kClear;
  if (method == "nan_to_num_") return kReplace;
  if (method == "detach_" || method == "requires_grad_") return std::nullopt;
  if (method == "add_" || method == "sub_" || method == "normal_")
    return UseOfSum(syntax.Text(list));
  return kEscape;
}

GradientUse OfAssignment(const Bindings& bindings, NodeId id) {
  using enum Event::Kind;
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  const Fields& f = PythonFields();
  const Reader reader(bindings);
  const NodeId target = syntax.Child(id, f.left);
  const NodeId value = syntax.Unwrap(syntax.Child(id, f.right));
  // A name that is bound to a gradient is another name of it, not the gradient.
  const bool subscript = syntax.Is(target, Kind::kSubscript);
  const std::string_view where = syntax.Text(target);
  if (value == kNoNode || !(subscript || syntax.Is(target, Kind::kAttribute)) ||
      !Holds(where, "grad") || !reader.IsGradient(target))
    return std::nullopt;
  const auto adds = [&](NodeId expression) {
    const std::string_view op = syntax.Text(syntax.Child(expression, f.operator_));
    return op == "+" || op == "-" || op == "+=" || op == "-=";
  };
  if (syntax.Is(id, Kind::kAugmentedAssignment))
    return adds(id) ? UseOfSum(syntax.Text(value)) : kEscape;
  if (subscript) return HoldsAny(where, {"isnan", "isinf", "isfinite"}) ? kReplace : kEscape;
  if (syntax.Is(value, Kind::kNone)) return kClear;
  if (syntax.Is(value, Kind::kCall)) {
    const std::string& callee = names.Callee(value);
    const std::string_view name = callee.empty() ? names.Method(value) : TorchFunction(callee);
    const NodeId of = callee.empty() ? names.Receiver(value) : names.Argument(value, 0, "input");
    if (!reader.IsGradient(of)) return kEscape;
    return name == "nan_to_num" ? kReplace : IsOneOf(kClamps, name) ? kRead : kEscape;
  }
  if (syntax.Is(value, Kind::kBinary) && adds(value) &&
      reader.IsGradient(syntax.Child(value, f.left)))
    return UseOfSum(syntax.Text(syntax.Child(value, f.right)));
  return kEscape;
}

}  // namespace

GradientUse UseOfGradient(const Bindings& bindings, NodeId expression) {
  const Syntax& syntax = bindings.syntax();
  switch (syntax.kind(expression)) {
    case Kind::kCall:
      return OfCall(bindings, expression);
    case Kind::kAssignment:
    case Kind::kAugmentedAssignment:
      return OfAssignment(bindings, expression);
    default:
      return std::nullopt;
  }
}

}  // namespace mpnanny::check
