#include "tools/static_check/half_guess.h"
#include "tools/static_check/model_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/text_search.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::manual_half_cast {
namespace {

bool IsHalfCast(const FileFacts& facts, NodeId expression) {
  const auto call = TorchCallAt(facts, expression);
  if (!call || !call->is_method) return false;
  if (call->name == "half") return facts.names.Arguments(call->node).empty();
  if (call->name != "to" && call->name != "type") return false;
  for (const NodeId argument : facts.names.Arguments(call->node)) {
    if (facts.regions.ReadHalfType(argument) == HalfType::kFp16) return true;
  }
  return false;
}

bool Trains(const FileFacts& facts) {
  return facts.project.grad_scaler || facts.project.scaling_elsewhere ||
         Holds(facts.syntax.text(), "backward(");
}

// model(x.half()) where autocast chooses the types: what is lost before the first layer stays lost.
void InputsUnderAutocast(const FileFacts& facts, Sink& sink) {
  for (const ModelCall& model : FindModelCalls(facts)) {
    if (!facts.regions.MaybeOn(model.node) || !MayTrain(facts, model.node)) continue;
    for (const NodeId argument : facts.names.Arguments(model.node)) {
      if (!IsHalfCast(facts, argument)) continue;
      MarkGuess(sink.Add(argument,
                         "Autocast casts what needs it; cast by hand, the input is FP16 also "
                         "where layers work in FP32, and while autocast is switched off."));
    }
  }
}

// images = images.half(), and then autocast(): the same above the region, in a loop that trains.
void InputsBeforeAutocast(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("half")) {
    if (!IsHalfCast(facts, call->node) || !MayTrain(facts, call->node)) continue;
    const NodeId loop = LoopOf(facts, call->node);
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const NodeId statement = facts.syntax.StatementOf(call->node);
    const std::string_view name = facts.syntax.Text(call->receiver);
    // Models, losses and parameters are other rules'.
    if (name.find("model") != std::string_view::npos ||
        name.find("net") != std::string_view::npos || name.find("loss") != std::string_view::npos ||
        name.find("param") != std::string_view::npos || name.find("data") == 2 ||
        facts.regions.At(call->node) != nullptr ||
        !facts.syntax.Is(facts.syntax[statement].first_child, Kind::kAssignment))
      continue;
    const NodeId body = loop == kNoNode ? function : loop;
    const std::string_view text = facts.syntax.Text(body);
    if (text.find("backward(") == std::string_view::npos) continue;
    bool under = false;
    for (const ModelCall& model : FindModelCalls(facts))
      under = under || (model.node > call->node && IsInside(facts, model.node, body) &&
                        facts.regions.MaybeOn(model.node));
    if (under)
      MarkGuess(sink.Add(call->node,
                         "Autocast casts what needs it; cast by hand, this is FP16 also where "
                         "layers and losses work in FP32."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit || !Trains(facts)) return;
  const Fields& f = PythonFields();
  // Parameters that are made in FP16. A library makes them for whoever passes the dtype, and for
  // inference; a training script for itself.
  for (const Call* call : facts.names.CallsNamed("Parameter")) {
    if (call->callee != "torch.nn.Parameter" && call->callee != "torch.nn.parameter.Parameter")
      continue;
    const NodeId trained = facts.names.Argument(call->node, 1, "requires_grad");
    const NodeId data = facts.names.Argument(call->node, 0, "data");
    const Value type = facts.dtypes->Of(data);
    if (trained != kNoNode || !type.is_fp16() || type.assumed || type.passed != kNoNode ||
        !Holds(facts.syntax.text(), ".backward()"))
      continue;
    sink.Add(call->node,
             "A trained parameter is FP16: updates below 2^-11 of its value are lost, and "
             "GradScaler refuses its gradients.");
  }
  InputsUnderAutocast(facts, sink);
  InputsBeforeAutocast(facts, sink);
  // Targets of a regression.
  for (const std::string_view loss : {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}) {
    for (const Call* call : facts.names.CallsNamed(loss)) {
      if (TorchFunction(call->callee).empty() || !MayTrain(facts, call->node)) continue;
      const NodeId target = facts.names.Argument(call->node, 1, "target");
      if (!IsHalfCast(facts, target)) continue;
      sink.Add(target,
               "The target is rounded to FP16, 11 bits and at most 65504, before the loss "
               "compares it.");
    }
  }
  // The loss itself, and parameters one by one.
  for (const Call* call : facts.names.CallsNamed("half")) {
    if (!IsHalfCast(facts, call->node) || !MayTrain(facts, call->node)) continue;
    const std::string key = facts.names.Key(call->receiver);
    // self.loss is a module as often as a value.
    if (!key.starts_with("self.") &&
        (key == "loss" || key.ends_with("_loss") || key.ends_with(".loss")))
      sink.Add(call->node, "The loss is cast to FP16: the backward pass starts from 11 bits.");
  }
  for (const NodeId id : facts.assignments) {
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    if (!facts.syntax.Is(left, Kind::kAttribute) ||
        facts.syntax.Text(facts.syntax.Child(left, f.attribute)) != "data" ||
        !IsHalfCast(facts, right))
      continue;
    const NodeId loop = facts.syntax.Enclosing(id, Kind::kFor);
    if (loop == kNoNode || !MayTrain(facts, id)) continue;
    const std::string_view over = facts.syntax.Text(facts.syntax.Child(loop, f.right));
    const std::string_view body = facts.syntax.Text(loop);
    if (over.find("parameters()") == std::string_view::npos ||
        body.find("requires_grad") != std::string_view::npos ||
        facts.syntax.Text(facts.syntax.FunctionOf(id)).find("backward(") == std::string_view::npos)
      continue;
    sink.Add(id, "The parameters are cast to FP16: updates below 2^-11 of a weight are lost.");
  }
}

}  // namespace mpnanny::static_check::manual_half_cast
