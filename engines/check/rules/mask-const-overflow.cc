#include "engines/check/facts/autocast_callers.h"
#include "engines/check/facts/fill_values.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::mask_const_overflow {
namespace {

void Raises(const FileFacts& facts, Sink& sink, const TorchCall& call, NodeId tensor,
            NodeId constant) {
  const auto value = Constant(facts, constant);
  if (!IsTooLarge(value)) return;
  const Value type = facts.dtypes->Of(tensor);
  if (!type.is_fp16() || !HoldsForCallers(facts, call.node, tensor, kNoNode)) return;
  RawFinding& finding = sink.Add(
      call.node, ShowNumber(*value) + " does not fit into the FP16 tensor it is written to: " +
                     std::string(call.name) + " raises RuntimeError.");
  const std::string key = facts.names.Key(tensor);
  if (*value < 0 && !key.empty() && facts.names.Resolve(tensor).empty() &&
      facts.names.ImportsModule("torch")) {
    const Node& node = facts.syntax[constant];
    finding.edits.push_back({{node.begin, node.end}, "torch.finfo(" + key + ".dtype).min"});
  }
  NoteAssumed(type, finding);
}

void BecomesInfinite(const FileFacts& facts, Sink& sink, NodeId node, NodeId tensor,
                     NodeId constant) {
  const auto value = Written(facts, constant);
  const Value type = facts.dtypes->Of(tensor);
  if (!IsTooLarge(value) || !type.is_fp16()) return;
  RawFinding& finding = sink.Add(
      node, ShowNumber(*value) + " becomes " + (*value < 0 ? "-inf" : "inf") +
                " in the FP16 tensor it is written to: a row in which all is masked is NaN after "
                "the softmax.");
  finding.confidence = "medium";
  finding.form = "infinite";
  NoteUnlessShown(type, finding);
}

// True if the function asks for the limits of the type, or casts to FP32 before the fill.
static bool MindsTheType(const Module& module, NodeId function, NodeId fill) {
  const auto calls = [&](std::string_view name, NodeId before) {
    const auto all = module.names->CallsNamed(name);
    return std::any_of(all.begin(), all.end(), [&](const Call* call) {
      return module.syntax->FunctionOf(call->node) == function && call->node < before;
    });
  };
  return calls("finfo", (*module.syntax)[function].after) || calls("float", fill);
}

// The parameter of the function that gets argument number `position`; empty if there is none.
std::string_view FillParameter(const FileFacts& caller, const CallEdge& edge, NodeId argument) {
  const Function& function = *edge.callee.function;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const std::string& name = function.parameters[i];
    if (caller.names.Argument(edge.call, static_cast<int>(i), name) == argument) return name;
  }
  return "";
}

// replace_masked(values, mask, -1e7): the fill stands in a function of the project.
void ThroughFunction(const FileFacts& facts, Sink& sink, const CallEdge& edge) {
  if (edge.callee.function->klass != kNoNode) return;
  const Module& module = (*facts.modules)[edge.callee.module];
  for (const NodeId argument : facts.names.Arguments(edge.call)) {
    const auto value = Constant(facts, argument);
    if (!IsTooLarge(value)) continue;
    const std::string_view parameter = FillParameter(facts, edge, argument);
    if (parameter.empty()) continue;
    for (const std::string_view name : {"masked_fill", "masked_fill_"}) {
      for (const Call* fill : module.names->CallsNamed(name)) {
        const NodeId function = module.syntax->FunctionOf(fill->node);
        if (function != edge.callee.function->node ||
            module.syntax->Text(module.names->Argument(fill->node, 1, "value")) != parameter)
          continue;
        if (MindsTheType(module, function, fill->node)) continue;
        // Whose tensor it is: the function's argument of that name.
        const NodeId tensor = facts.names.Argument(edge.call, 0, "tensor");
        const Value type = facts.dtypes->Of(tensor);
        if (!type.is_fp16()) return;
        RawFinding& finding = sink.Add(
            edge.call, ShowNumber(*value) + " is handed to " + edge.callee.function->name +
                           "(), where masked_fill raises RuntimeError for the FP16 tensor that "
                           "it is given.");
        NoteAssumed(type, finding);
        return;
      }
    }
  }
}

// The constant in `(1 - mask) * -1e9`, or kNoNode.
NodeId MaskFactor(const FileFacts& facts, NodeId product) {
  const NodeId id = Traced(facts, product);
  if (OperatorOf(facts, id) != "*") return kNoNode;
  for (const uint16_t field : {PythonFields().left, PythonFields().right}) {
    const NodeId part = facts.syntax.Child(id, field);
    if (IsTooLarge(Constant(facts, part))) return part;
  }
  return kNoNode;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const auto argument = [&](const TorchCall& call, int position, std::string_view keyword) {
    return ArgumentOf(facts, call, position, keyword);
  };
  ForEachTorchCall(facts, {"masked_fill", "masked_fill_"}, [&](const TorchCall& call) {
    Raises(facts, sink, call, call.tensor, argument(call, 1, "value"));
  });
  ForEachTorchCall(facts, {"fill_", "fill_diagonal_"}, [&](const TorchCall& call) {
    Raises(facts, sink, call, call.tensor, argument(call, 0, "value"));
  });
  ForEachTorchCall(facts, {"full_like", "new_full", "full"}, [&](const TorchCall& call) {
    const bool like = call.name == "full_like";
    if (call.is_method != (call.name == "new_full")) return;
    // What is made decides: full_like(h, …, dtype=torch.float32) is fine.
    Raises(facts, sink, call, call.node,
           argument(call, like || !call.is_method ? 0 : 1, "fill_value"));
  });
  ForEachTorchCall(facts, {"pad"}, [&](const TorchCall& call) {
    if (!call.is_method) Raises(facts, sink, call, call.tensor, argument(call, 2, "value"));
  });
  ForEachTorchCall(facts, {"where"}, [&](const TorchCall& call) {
    // torch.where(mask, scores, c), scores.where(mask, c)
    const NodeId a = call.is_method ? call.tensor : argument(call, 0, "input");
    const NodeId b = argument(call, 1, "other");
    BecomesInfinite(facts, sink, call.node, a, b);
    BecomesInfinite(facts, sink, call.node, b, a);
  });
  for (const CallEdge& edge : facts.modules->Edges(facts.number)) {
    if (edge.callee.function != nullptr) ThroughFunction(facts, sink, edge);
  }
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    if (!facts.syntax.Is(target, Kind::kSubscript)) continue;
    BecomesInfinite(facts, sink, id, facts.syntax.Child(target, f.value),
                    facts.syntax.Child(id, f.right));
  }
  for (const NodeId id : facts.binaries) {
    const std::string_view op = OperatorOf(facts, id);
    if ((op != "+" && op != "-") || !facts.dtypes->Of(id).is_fp16()) continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId factor = MaskFactor(facts, facts.syntax.Child(id, f.right));
    if (factor != kNoNode) BecomesInfinite(facts, sink, id, left, factor);
  }
}

}  // namespace mpnanny::check::mask_const_overflow
