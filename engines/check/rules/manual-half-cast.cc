#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::manual_half_cast {
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

}  // namespace mpnanny::check::manual_half_cast
