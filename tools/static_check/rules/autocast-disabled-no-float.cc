#include <algorithm>
#include <set>

#include "tools/static_check/rule_support.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::autocast_disabled_no_float {
namespace {

bool Holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// The function's own parameter, which nobody casts in it: what a region that is switched off in a
// model gets from the region around it.
bool IsUncastParameter(const FileFacts& facts, NodeId input) {
  const NodeId id = facts.syntax.Unwrap(input);
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return false;
  const NodeId node = facts.syntax.FunctionOf(id);
  const Function* function = facts.bindings.FunctionAt(node);
  if (function == nullptr || function->klass == kNoNode ||
      !facts.bindings.IsModuleClass(function->klass) || function->name != "forward")
    return false;
  const std::string_view name = facts.syntax.Text(id);
  const auto& parameters = function->parameters;
  if (std::find(parameters.begin(), parameters.end(), name) == parameters.end()) return false;
  for (const std::string_view word :
       {"target", "label", "gt", "mask", "idx", "index", "ids", "weight", "wav", "audio"}) {
    if (Holds(name, word)) return false;
  }
  if (!facts.bindings.AssignmentsOf(id).empty()) return false;
  // A cast of anything here means that somebody thought of it.
  const std::string_view text = facts.syntax.Text(node);
  for (const std::string_view cast : {"float()", "float32", ".type(", ".to(", "double", "astype"}) {
    if (Holds(text, cast)) return false;
  }
  return true;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const bool any =
      std::any_of(facts.regions.all().begin(), facts.regions.all().end(),
                  [](const Autocast& autocast) { return autocast.enabled == Tri::kNo; });
  if (!any) return;
  const bool lowers =
      facts.project.fp16_on_cuda || facts.project.bf16_autocast || facts.project.grad_scaler;
  std::set<const Autocast*> guessed;  // one finding a region is enough
  for (const Call& plain : facts.names.calls()) {
    const Autocast* autocast = facts.regions.At(plain.node);
    if (autocast == nullptr || autocast->enabled != Tri::kNo || autocast->device == Device::kCpu)
      continue;
    const auto call = ReadTorchCall(facts, plain);
    if (!call || facts.names.Argument(call->node, -1, "dtype") != kNoNode) continue;
    if (facts.ops.PolicyOf(Device::kCuda, call->name) != CastPolicy::kFp32) continue;
    std::vector<NodeId> inputs = facts.names.Arguments(call->node);
    if (call->is_method) inputs.insert(inputs.begin(), call->tensor);
    const auto half = std::find_if(inputs.begin(), inputs.end(), [&](NodeId input) {
      return facts.dtypes->Of(input).is_16bit();
    });
    if (half != inputs.end()) {
      RawFinding& finding = sink.Add(
          call->node, "Autocast is off here, and " + std::string(call->name) +
                          " gets the 16-bit value " +
                          std::string(facts.syntax.Text(*half).substr(0, 60)) +
                          ": it runs in 16 bits, where autocast would have run it in FP32.");
      NoteAssumed(facts.dtypes->Of(*half), finding);
      continue;
    }
    if (!lowers || facts.regions.NoGradAt(call->node) || guessed.contains(autocast)) continue;
    const NodeId first = call->is_method ? call->tensor : (inputs.empty() ? kNoNode : inputs[0]);
    if (!IsUncastParameter(facts, first)) continue;
    guessed.insert(autocast);
    RawFinding& finding = sink.Add(
        call->node, "Autocast is off here, and " + std::string(call->name) + " gets " +
                        std::string(facts.syntax.Text(first).substr(0, 60)) +
                        " as the region around it made it, most likely in 16 bits: nothing here "
                        "calls .float().");
    finding.confidence = "medium";
  }
}

}  // namespace mpnanny::static_check::autocast_disabled_no_float
