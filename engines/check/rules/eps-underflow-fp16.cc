#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::eps_underflow_fp16 {
namespace {

// Functions that are not finite at zero.
bool FailsAtZero(std::string_view name) {
  return name == "log" || name == "log2" || name == "log10" || name == "sqrt" || name == "rsqrt" ||
         name == "reciprocal" || name == "logit";
}

bool KeepsZero(std::string_view name) {
  return name == "unsqueeze" || name == "squeeze" || name == "view" || name == "expand" ||
         name == "expand_as" || name == "reshape" || name == "sum" || name == "prod" ||
         name == "clamp" || name == "detach" || name == "to" || name == "float";
}

bool ZeroHurts(const FileFacts& facts, NodeId id, int depth);

// True if a zero of the variable that the value at `id` is assigned to hurts where it is used.
bool ZeroHurtsLater(const FileFacts& facts, NodeId assignment, int depth) {
  const NodeId target = facts.syntax.Child(assignment, PythonFields().left);
  if (!facts.syntax.Is(target, Kind::kIdentifier)) return false;
  const std::string_view name = facts.syntax.Text(target);
  const NodeId function = facts.syntax.FunctionOf(assignment);
  for (NodeId id = facts.syntax[assignment].after; id < facts.syntax[function].after; ++id) {
    if (facts.syntax[id].kind != Kind::kIdentifier || facts.syntax.Text(id) != name) continue;
    const NodeId up = facts.syntax[id].parent;
    if (facts.syntax.Is(up, Kind::kAssignment) && facts.syntax.Child(up, PythonFields().left) == id)
      return false;
    if (ZeroHurts(facts, id, depth - 1)) return true;
  }
  return false;
}

// True if a zero at `id` is divided by, or fed to a logarithm or a root.
bool ZeroHurts(const FileFacts& facts, NodeId id, int depth) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  if (depth == 0) return false;
  NodeId up = syntax[id].parent;
  for (; syntax.Is(up, Kind::kParenthesized); up = syntax[up].parent) id = up;
  if (syntax.Is(id, Kind::kAugmentedAssignment)) return ZeroHurtsLater(facts, id, depth);
  switch (syntax.kind(up)) {
    case Kind::kBinary: {
      const std::string_view op = syntax.Text(syntax.Child(up, f.operator_));
      if (op == "/") return syntax.Child(up, f.right) == id;
      if (op != "**" || syntax.Child(up, f.left) != id) return false;
      const auto power = facts.bindings.Number(syntax.Child(up, f.right));
      return power && (*power < 0 || *power == 0.5);
    }
    case Kind::kAugmentedAssignment:
      return syntax.Child(up, f.right) == id && syntax.Text(syntax.Child(up, f.operator_)) == "/=";
    case Kind::kAssignment:
      return syntax.Child(up, f.right) == id && ZeroHurtsLater(facts, up, depth);
    case Kind::kArgumentList: {
      const auto call = TorchCallAt(facts, syntax[up].parent);
      if (!call) return false;
      if (FailsAtZero(call->name)) return call->tensor == id;
      const bool divides = call->name == "div" || call->name == "divide" ||
                           call->name == "true_divide" || call->name == "div_";
      return divides && ArgumentOf(facts, *call, 0, "other") == id;
    }
    case Kind::kAttribute: {
      const NodeId call = syntax[up].parent;
      if (!syntax.Is(call, Kind::kCall)) return false;
      const std::string_view name = syntax.Text(syntax.Child(up, f.attribute));
      if (FailsAtZero(name)) return true;
      if (name == "pow") {
        const auto power = facts.bindings.Number(facts.names.Argument(call, 0, "exponent"));
        return power && (*power < 0 || *power == 0.5);
      }
      return KeepsZero(name) && name != "float" && ZeroHurts(facts, call, depth - 1);
    }
    default:
      return false;
  }
}

void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId constant, NodeId tensor) {
  const auto eps = Constant(facts, constant);
  if (!eps || *eps <= 0 || *eps > kFp16RoundsToZero) return;
  const Value type = facts.dtypes->Of(tensor);
  if (!type.is_fp16() || !ZeroHurts(facts, node, 3)) return;
  RawFinding& finding = sink.Add(
      node, ShowNumber(*eps) + " rounds to zero in the FP16 value that it should keep from zero.");
  // Whether what it guards can be zero is in its form, or not in the text.
  if (ZeroForm(facts, tensor).empty()) finding.form = "may-not-be-zero";
  NoteUnlessShown(type, finding);
}

// F.normalize(h) and the like: the epsilon is an argument with a default that FP16 does not hold.
void Inside(const FileFacts& facts, Sink& sink, const TorchCall& call, int position,
            double by_default) {
  if (call.is_method || !MayTrain(facts, call.node)) return;
  const NodeId given = ArgumentOf(facts, call, position, "eps");
  const auto eps = given == kNoNode ? by_default : Constant(facts, given);
  const Value type = facts.dtypes->Of(call.node);
  if (!type.is_fp16() || !eps || *eps > kFp16RoundsToZero) return;
  RawFinding& finding =
      sink.Add(call.node, std::string(call.name) + " runs in FP16 here, where its " +
                              (given == kNoNode ? "default " : "") + "eps=" + ShowNumber(*eps) +
                              " is zero: a vector of zeros becomes NaN.");
  NoteUnlessShown(type, finding);
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "+") continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    facts.bindings.Number(left) ? Report(facts, sink, id, left, right)
                                : Report(facts, sink, id, right, left);
  }
  for (const NodeId id : facts.augmented) {  // total += 1e-8
    if (facts.syntax.Text(facts.syntax.Child(id, f.operator_)) != "+=") continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    if (facts.syntax.Is(left, Kind::kIdentifier))
      Report(facts, sink, id, facts.syntax.Child(id, f.right), left);
  }
  ForEachTorchCall(facts, {"clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_min_"},
                   [&](const TorchCall& call) {
                     Report(facts, sink, call.node, ArgumentOf(facts, call, 0, "min"), call.tensor);
                   });
  ForEachTorchCall(facts, {"add", "add_", "maximum", "max"}, [&](const TorchCall& call) {
    Report(facts, sink, call.node, ArgumentOf(facts, call, 0, "other"), call.tensor);
  });
  ForEachTorchCall(facts, {"normalize"},
                   [&](const TorchCall& call) { Inside(facts, sink, call, 2, 1e-12); });
  ForEachTorchCall(facts, {"cosine_similarity"},
                   [&](const TorchCall& call) { Inside(facts, sink, call, 2, 1e-8); });
}

}  // namespace mpnanny::check::eps_underflow_fp16
