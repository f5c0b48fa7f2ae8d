#include <algorithm>
#include <string>

#include "base/text.h"
#include "engines/check/facts/model_calls.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::loss_outside_autocast {
namespace {

// The loss of a name like `criterion`, `self.loss_fn`; its own type decides where it is seen.
bool IsNamedLoss(const FileFacts& facts, const Call& call) {
  if (!call.callee.empty() && !TorchFunction(call.callee).empty()) {
    return call.name == "cross_entropy" || call.name == "nll_loss" || call.name == "ctc_loss" ||
           call.name == "log_softmax";
  }
  const std::string name = LowerCase(call.name);
  if (name.find("criterion") == std::string::npos && !name.ends_with("loss") &&
      !name.ends_with("loss_fn") && !name.ends_with("loss_func") && !name.ends_with("lossfn"))
    return false;
  // A target of FP32 makes these FP32.
  const NodeId made =
      facts.bindings.ValueOf(facts.syntax.Child(call.node, PythonFields().function), 2);
  const std::string layer = made == kNoNode ? "" : std::string(facts.names.Callee(made));
  if (layer.starts_with("torch.nn."))
    return layer == "torch.nn.CrossEntropyLoss" || layer == "torch.nn.NLLLoss" ||
           layer == "torch.nn.CTCLoss";
  const Definition callee = facts.Callee(call.node);
  if (callee.function == nullptr) return true;
  const Syntax& syntax = (*facts.files)[callee.module]->syntax;
  const NodeId klass = callee.function->klass;
  const std::string_view text = syntax.Text(klass == kNoNode ? callee.function->node : klass);
  return !Holds(text, "float()") && !Holds(text, "float32") && !Holds(text, "autocast") &&
         !Holds(text, "custom_fwd") && !Holds(text, "mse_loss");
}

// The function or layer of torch that the loss is known to be; "" for others.
std::string LossOfTorch(const FileFacts& facts, const Call& call) {
  if (!call.callee.empty()) return std::string(TorchFunction(call.callee));
  const NodeId made =
      facts.bindings.ValueOf(facts.syntax.Child(call.node, PythonFields().function), 2);
  const std::string layer = made == kNoNode ? "" : std::string(facts.names.Callee(made));
  return layer.starts_with("torch.nn.") ? layer.substr(9) : "";
}

// The variables that get what a model returns under autocast, and where.
struct Output {
  std::string key;
  NodeId call;
};

std::vector<Output> OutputsUnderAutocast(const FileFacts& facts) {
  std::vector<Output> outputs;
  for (const ModelCall& model : FindModelCalls(facts)) {
    const Autocast* region = facts.regions.At(model.node);
    if (region == nullptr || region->foreign || region->enabled == Tri::kNo) continue;
    const NodeId up = facts.syntax[model.node].parent;
    if (!facts.syntax.Is(up, Kind::kAssignment)) continue;
    const NodeId left = facts.syntax.Child(up, PythonFields().left);
    if (facts.syntax.Is(left, Kind::kPatternList) || facts.syntax.Is(left, Kind::kTuple)) {
      for (const NodeId part : facts.syntax.Children(left))
        outputs.push_back({facts.names.Key(part), model.node});
    } else {
      outputs.push_back({facts.names.Key(left), model.node});
    }
  }
  return outputs;
}

// True if the variable is written between the two nodes.
bool IsWrittenBetween(const FileFacts& facts, const std::string& key, NodeId from, NodeId to) {
  const auto it = facts.bindings.all().find(key);
  if (it == facts.bindings.all().end()) return false;
  return std::any_of(it->second.begin(), it->second.end(),
                     [&](const Assignment& a) { return a.target > from && a.target < to; });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  std::vector<Output> outputs;
  bool found = false;
  for (const Call& call : facts.names.calls()) {
    if (!IsNamedLoss(facts, call) || facts.regions.At(call.node) != nullptr ||
        !MayTrain(facts, call.node))
      continue;
    const NodeId function = facts.syntax.FunctionOf(call.node);
    if (facts.syntax.Text(function).find("backward") == std::string_view::npos) continue;
    if (Policy policy; facts.dtypes->PolicyAt(call.node, &policy)) continue;
    if (!found) outputs = OutputsUnderAutocast(facts);
    found = true;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      const std::string key = facts.names.Key(argument);
      Value type = facts.dtypes->Of(argument);
      if (type.assumed) type = {Type::kUnknown, false, kNoNode};
      const auto output = std::find_if(outputs.rbegin(), outputs.rend(), [&](const Output& o) {
        return !o.key.empty() && o.call < call.node &&
               facts.syntax.FunctionOf(o.call) == function &&
               (key == o.key || key.starts_with(o.key + ".") || key.starts_with(o.key + "["));
      });
      const bool of_model =
          output != outputs.rend() &&
          !IsWrittenBetween(facts, output->key, facts.syntax[output->call].after, call.node);
      if (!type.is_16bit() && (!of_model || type.type == Type::kFp32)) continue;
      // nll_loss is given log_softmax of something, which autocast makes FP32.
      const std::string loss = LossOfTorch(facts, call);
      if (!type.is_16bit() &&
          (loss == "nll_loss" || loss == "NLLLoss" || loss == "ctc_loss" || loss == "CTCLoss"))
        continue;
      const bool region =
          of_model || (type.origin != kNoNode && facts.regions.At(type.origin) != nullptr);
      RawFinding& finding = sink.Add(
          call.node,
          std::string(facts.syntax.Text(argument).substr(0, 40)) +
              (type.is_16bit() ? " is 16-bit" : " comes out of autocast in 16 bits") +
              (region ? ", and the loss is computed after the region: in 16 bits."
                      : ", no autocast is in sight, and the loss is computed in 16 bits."));
      // A loss that is not known may cast; so may whoever wraps a model outside of a region.
      finding.guess = !region || (!type.is_16bit() && loss.empty());
      if (finding.guess) finding.confidence = "medium";
      break;
    }
  }
}

}  // namespace mpnanny::check::loss_outside_autocast
