#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::eps_underflow_fp16 {

// Functions that are not finite at zero.
static bool FailsAtZero(std::string_view name) {
  return name == "log" || name == "log2" || name == "log10" || name == "sqrt" || name == "rsqrt" ||
         name == "reciprocal";
}

// True if a zero at `id` is divided by, or fed to a logarithm or a root.
static bool ZeroHurts(const FileFacts& facts, NodeId id) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  NodeId up = syntax[id].parent;
  for (; syntax.Is(up, Kind::kParenthesized); up = syntax[up].parent) id = up;
  if (syntax.Is(up, Kind::kBinary)) {
    return syntax.Text(syntax.Child(up, f.operator_)) == "/" && syntax.Child(up, f.right) == id;
  }
  if (syntax.Is(up, Kind::kArgumentList)) {
    const std::string callee = facts.names.Callee(syntax[up].parent);
    return FailsAtZero(TorchFunction(callee));
  }
  return syntax.Is(up, Kind::kAttribute) &&
         FailsAtZero(syntax.Text(syntax.Child(up, f.attribute))) &&
         syntax.Is(syntax[up].parent, Kind::kCall);
}

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const auto report = [&](NodeId node, NodeId constant, NodeId tensor) {
    const auto eps = facts.bindings.Number(constant);
    if (!eps || *eps <= 0 || *eps > kFp16RoundsToZero) return;
    const Value type = facts.dtypes->Of(tensor);
    if (!type.is_fp16() || !ZeroHurts(facts, node)) return;
    RawFinding& finding =
        sink.Add(node, ShowNumber(*eps) +
                           " rounds to zero in the FP16 value that it should keep from zero.");
    NoteAssumed(type, finding);
  };
  for (NodeId id = 0; id < facts.syntax.size(); ++id) {
    if (facts.syntax[id].kind == Kind::kBinary &&
        facts.syntax.Text(facts.syntax.Child(id, f.operator_)) == "+") {
      const NodeId left = facts.syntax.Child(id, f.left);
      const NodeId right = facts.syntax.Child(id, f.right);
      facts.bindings.Number(right) ? report(id, right, left) : report(id, left, right);
    } else if (facts.syntax[id].kind == Kind::kCall) {
      const std::string callee = facts.names.Callee(id);
      const bool method = callee.empty();
      const std::string_view name = method ? facts.names.Method(id) : TorchFunction(callee);
      if (name != "clamp" && name != "clamp_min" && name != "clip") continue;
      const NodeId tensor =
          method ? facts.names.Receiver(id) : facts.names.Argument(id, 0, "input");
      report(id, facts.names.Argument(id, method ? 0 : 1, "min"), tensor);
    }
  }
}

}  // namespace mpnanny::static_check::eps_underflow_fp16
