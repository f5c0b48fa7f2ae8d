#include <algorithm>

#include "tools/static_check/facts/autocast_callers.h"
#include "tools/static_check/facts/fill_values.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/smallest_masks.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::mask_const_overflow {
namespace {

// True for a name that attention scores are given, where no type is known.
bool NamesScores(const FileFacts& facts, NodeId tensor) {
  const std::string_view text = facts.syntax.Text(tensor);
  if (text.size() > 40) return false;
  for (const std::string_view word :
       {"score", "attn", "att_", "attention", "logits", "dots", "energ", "sim"}) {
    if (text.find(word) != std::string_view::npos)
      return !Holds(text, "mask") && !Holds(text, "bias");
  }
  return false;
}

// FP16 autocast is on here, and what is filled is called as attention scores are.
bool MayBeFp16(const FileFacts& facts, NodeId node, NodeId tensor, Value type) {
  if (type.type != Type::kUnknown && type.type != Type::kUnseen) return false;
  Policy policy;
  return NamesScores(facts, tensor) && facts.dtypes->PolicyAt(node, &policy) &&
         policy.half == Type::kFp16 && policy.device != Device::kCpu;
}

// The project runs models in FP16 in ways that show no region: .half(), or a framework does it.
bool RunsHalfModels(const FileFacts& facts) {
  const ProjectFacts& project = facts.project;
  if (project.apex) return true;
  if (!project.sixteen_bit || (project.bf16_autocast && !project.grad_scaler)) return false;
  return project.casts_models || project.deepspeed || project.accelerate || project.lightning ||
         project.hf_trainer;
}

// Scores, or an additive mask, in a layer of such a project, where nobody asks for the dtype.
bool MayBeOfHalfModel(const FileFacts& facts, NodeId node, NodeId tensor, Value type) {
  if ((type.type != Type::kUnknown && type.type != Type::kUnseen) || !RunsHalfModels(facts))
    return false;
  const NodeId klass = facts.syntax.Enclosing(node, Kind::kClass);
  if (klass == kNoNode || !facts.bindings.IsModuleClass(klass)) return false;
  // What is masked with a number is no mask of booleans.
  const std::string_view name = facts.syntax.Text(tensor);
  if (name == "attn_mask" || name == "attention_mask") {
    // Only one that is handed in: what the function makes of indices is FP32 on its own.
    const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(node));
    const auto& parameters = function->parameters;
    if (std::find(parameters.begin(), parameters.end(), name) == parameters.end()) return false;
  } else if (!NamesScores(facts, tensor)) {
    return false;
  }
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(node));
  return !HoldsAny(text, {".dtype", "finfo", "float16", "float32", ".float()"});
}

// mask.to(q.dtype) of a mask that was filled with -1e9 in FP32.
void CastMask(const FileFacts& facts, Sink& sink, const TorchCall& cast) {
  const NodeId to = facts.names.Argument(cast.node, 0, "dtype");
  const std::string_view text = facts.syntax.Text(to);
  const bool half = facts.dtypes->Of(cast.node).is_fp16();
  if (!cast.is_method || (!half && cast.name != "type_as" && !text.ends_with(".dtype") &&
                          text != "dtype" && text != "self.dtype"))
    return;
  const auto value = FilledWith(facts, cast.tensor);
  const HalfGuess guess(facts, cast.node);
  if (!value || *value > 0 || !(half || guess.fp16())) return;
  const std::string_view function = facts.syntax.Text(facts.syntax.FunctionOf(cast.node));
  if (function.find("finfo(") != std::string_view::npos ||
      function.find("dtype ==") != std::string_view::npos)
    return;
  MarkGuess(sink.Add(cast.node, ShowNumber(*value) +
                                    " was filled in, and becomes -inf where this casts to FP16: a "
                                    "row in which all is masked is NaN after the softmax."));
}

// scores += mask * -1e9: the sum stays in the type of the scores.
void AddedInPlace(const FileFacts& facts, Sink& sink, NodeId node, NodeId scores, NodeId added) {
  const auto value = FilledWith(facts, added);
  if (!value || !facts.syntax.Is(facts.syntax.Unwrap(scores), Kind::kIdentifier)) return;
  const HalfGuess guess(facts, node);
  const Value type = facts.dtypes->Of(scores);
  if (!type.is_fp16() && !(guess.fp16() && guess.MayBeHalf(scores))) return;
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(node));
  if (!Holds(text, "finfo(torch.f") && Holds(text, "finfo(")) return;
  MarkGuess(sink.Add(node, ShowNumber(*value) +
                               " becomes infinite where the scores are FP16, which adding in place "
                               "keeps: a row in which all is masked is NaN after the softmax."));
}

// True if the function chooses by dtype.
bool Thinks(const FileFacts& facts, NodeId node) {
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(node));
  for (const std::string_view thought : {"finfo(", "float16", "torch.half", "dtype ==", "dtype is",
                                         "dtype !=", "value_of_dtype", "neg_value"}) {
    if (const size_t at = text.find(thought);
        at != std::string_view::npos && text.substr(at, 13) != "finfo(torch.f")
      return true;
  }
  return false;
}

// A mask that is handed in to be added to scores: its type is the caller's.
bool IsGivenMask(const FileFacts& facts, NodeId tensor) {
  const std::string_view name = facts.syntax.Text(tensor);
  const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(tensor));
  if (function == nullptr || name.find("mask") == std::string_view::npos) return false;
  const auto& given = function->parameters;
  return std::find(given.begin(), given.end(), name) != given.end();
}

// What is written to may be FP16, and the function does not ask.
bool MayOverflow(const FileFacts& facts, NodeId node, NodeId tensor) {
  const HalfGuess guess(facts, node);
  const ProjectFacts& project = facts.project;
  if (Thinks(facts, node)) return false;
  if (project.sixteen_bit || project.deepspeed || project.apex) {
    if (guess.fp16() && (guess.MayBeHalf(tensor) || IsGivenMask(facts, tensor))) return true;
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
    return anywhere.fp16() && facts.syntax.FunctionOf(node) != 0 &&
           (anywhere.MayBeHalf(tensor) || IsGivenMask(facts, tensor));
  }
  // A project that names no type at all: whoever uses its layers may run them in FP16.
  const NodeId klass = facts.syntax.Enclosing(node, Kind::kClass);
  if (klass == kNoNode || !IsPartOfModel(facts, klass) || !MayTrain(facts, node)) return false;
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(node));
  return (NamesScores(facts, tensor) || Holds(text, "softmax")) && !guess.IsKnown(tensor);
}

void Raises(const FileFacts& facts, Sink& sink, const TorchCall& call, NodeId tensor,
            NodeId constant) {
  const auto value = Constant(facts, constant);
  if (!IsTooLarge(value)) return;
  const Value type = facts.dtypes->Of(tensor);
  const bool scores = !type.is_fp16() && MayBeFp16(facts, call.node, tensor, type);
  const bool guessed =
      scores || (!type.is_fp16() && (MayBeOfHalfModel(facts, call.node, tensor, type) ||
                                     MayOverflow(facts, call.node, tensor)));
  if (!type.is_fp16() && !guessed) return;
  RawFinding& finding =
      sink.Add(call.node, ShowNumber(*value) + " does not fit into " +
                              (scores ? "FP16, which these scores most likely are under autocast: "
                               : guessed ? "FP16; if this is FP16, as the project lets it be, "
                                         : "the FP16 tensor it is written to: ") +
                              std::string(call.name) + " raises RuntimeError.");
  const std::string key = facts.names.Key(tensor);
  if (*value < 0 && !key.empty() && facts.names.Resolve(tensor).empty() &&
      facts.names.ImportsModule("torch")) {
    const Node& node = facts.syntax[constant];
    finding.edits.push_back({{node.begin, node.end}, "torch.finfo(" + key + ".dtype).min"});
  }
  NoteAssumed(type, finding);
  if (guessed || !HoldsForCallers(facts, call.node, tensor, kNoNode)) {
    finding.guess = true;
    finding.confidence = "low";
  }
}

// x[mask == 0] = …: what is picked is picked by a mask.
bool IsMasked(const FileFacts& facts, NodeId assignment) {
  const NodeId target = facts.syntax.Child(assignment, PythonFields().left);
  const NodeId index = facts.syntax.Child(target, PythonFields().subscript);
  const std::string_view text = facts.syntax.Text(index);
  return facts.syntax.Is(index, Kind::kComparison) || Holds(text, "mask");
}

void BecomesInfinite(const FileFacts& facts, Sink& sink, NodeId node, NodeId tensor,
                     NodeId constant) {
  const auto value = Written(facts, constant);
  const Value type = facts.dtypes->Of(tensor);
  if (!IsTooLarge(value)) return;
  const NodeId written = facts.syntax.Unwrap(tensor);
  if (!type.is_fp16()) {
    if (MayOverflow(facts, node, written) && (!facts.syntax.Is(node, Kind::kAssignment) ||
                                              NamesScores(facts, tensor) || IsMasked(facts, node)))
      MarkGuess(sink.Add(node, ShowNumber(*value) + " becomes " + (*value < 0 ? "-inf" : "inf") +
                                   " if this is FP16, as the project lets it be: a row in which "
                                   "all is masked is NaN after the softmax."));
    return;
  }
  RawFinding& finding = sink.Add(
      node, ShowNumber(*value) + " becomes " + (*value < 0 ? "-inf" : "inf") +
                " in the FP16 tensor it is written to: a row in which all is masked is NaN after "
                "the softmax.");
  finding.confidence = "medium";
  finding.form = "infinite";
  NoteAssumed(type, finding);
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
        // Whose tensor it is: the function's argument of that name.
        const std::string_view text = module.syntax->Text(function);
        if (Holds(text, "finfo") || text.find(".float()") < text.find("masked_fill")) continue;
        const NodeId tensor = facts.names.Argument(edge.call, 0, "tensor");
        const Value type = facts.dtypes->Of(tensor);
        const Function* caller = facts.bindings.FunctionAt(facts.syntax.FunctionOf(edge.call));
        const bool layer =
            caller != nullptr && caller->klass != kNoNode &&
            (caller->name == "forward" || facts.bindings.IsModuleClass(caller->klass));
        const bool unknown = type.type == Type::kUnknown || type.type == Type::kUnseen;
        const bool guessed =
            unknown && ((layer && RunsHalfModels(facts)) || MayOverflow(facts, edge.call, tensor));
        if (!type.is_fp16() && !guessed) return;
        RawFinding& finding =
            sink.Add(edge.call, ShowNumber(*value) + " is handed to " + edge.callee.function->name +
                                    "(), where masked_fill raises RuntimeError for " +
                                    (guessed ? "FP16, which this is where the model runs in half."
                                             : "the FP16 tensor that it is given."));
        NoteAssumed(type, finding);
        if (guessed) {
          finding.guess = true;
          finding.confidence = "low";
        }
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

// (1.0 - mask) * -1e9, to be added to scores: where the mask is FP16, so is the product.
void AdditiveMask(const FileFacts& facts, Sink& sink, NodeId product) {
  const Fields& f = PythonFields();
  if (facts.dtypes->Of(product).is_fp16()) return;  // told where it is added
  for (const auto& [number, other] : {std::pair(f.left, f.right), std::pair(f.right, f.left)}) {
    const auto value = Constant(facts, facts.syntax.Child(product, number));
    if (!IsTooLarge(value)) continue;
    const NodeId mask = facts.syntax.Unwrap(facts.syntax.Child(product, other));
    const bool complement = OperatorOf(facts, mask) == "-" &&
                            facts.bindings.Number(facts.syntax.Child(mask, f.left)) == 1.0;
    const bool named = facts.syntax.Is(mask, Kind::kIdentifier) &&
                       facts.syntax.Text(mask).find("mask") != std::string_view::npos;
    // scores - 1e30 * mask
    const bool taken = OperatorOf(facts, facts.syntax[product].parent) == "-" &&
                       facts.syntax[product].field == f.right;
    if (!(complement || named) || (*value > 0) != taken) continue;
    const HalfGuess guess(facts, product);
    const NodeId of = complement ? facts.syntax.Child(mask, f.right) : mask;
    if (!guess.weights() || !guess.fp16() || guess.IsKnown(of) || Thinks(facts, product)) continue;
    MarkGuess(sink.Add(
        product, ShowNumber(*value) +
                     " becomes infinite where the mask is FP16, as in a model that is FP16 as a "
                     "whole: a row in which all is masked is NaN after the softmax."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (const UnlikeWrite& one : FindSmallestMasks(facts)) MarkGuess(sink.Add(one.node, one.why));
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
  ForEachTorchCall(facts, {"to", "type", "type_as", "half"},
                   [&](const TorchCall& call) { CastMask(facts, sink, call); });
  ForEachTorchCall(facts, {"add_"}, [&](const TorchCall& call) {
    AddedInPlace(facts, sink, call.node, call.tensor, argument(call, 0, "other"));
  });
  for (const NodeId id : facts.augmented)
    AddedInPlace(facts, sink, id, facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right));
  for (const NodeId id : facts.binaries) {
    const std::string_view op = OperatorOf(facts, id);
    if (op == "*") AdditiveMask(facts, sink, id);
    if ((op != "+" && op != "-") || !facts.dtypes->Of(id).is_fp16()) continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId factor = MaskFactor(facts, facts.syntax.Child(id, f.right));
    if (factor != kNoNode) BecomesInfinite(facts, sink, id, left, factor);
  }
}

}  // namespace mpnanny::static_check::mask_const_overflow
