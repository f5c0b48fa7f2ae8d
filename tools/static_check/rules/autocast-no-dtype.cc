#include <set>
#include <string>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::autocast_no_dtype {

// True if the expression may be a device type: no dtype, no constant.
static bool MayBeDevice(const FileFacts& facts, NodeId expression) {
  const NodeId value = facts.bindings.ValueOf(expression);
  return expression != kNoNode && !facts.syntax.Is(value, Kind::kTrue) &&
         !facts.syntax.Is(value, Kind::kFalse) && !facts.names.Resolve(value).starts_with("torch.");
}

// The call that makes the region, also through a name and out of `autocast(…) if amp else
// nullcontext()`; null if there is none.
static const Call* CallOf(const FileFacts& facts, NodeId made) {
  const NodeId value = facts.bindings.ValueOf(made);
  if (facts.syntax.Is(value, Kind::kConditional)) {
    for (const NodeId part : facts.syntax.Children(value)) {
      const Call* call = facts.names.CallAt(facts.syntax.Unwrap(part));
      if (call != nullptr && IsAutocast(call->callee)) return call;
    }
  }
  return facts.names.CallAt(value);
}

// True if a name or a key of the file is one for the type of the run: prose about precision is no
// setting.
static bool HasSetting(const FileFacts& facts) {
  constexpr std::string_view kSettings[] = {"amp_dtype",   "weight_dtype",   "mixed_precision",
                                            "torch_dtype", "compute_dtype",  "param_dtype",
                                            "ptdtype",     "config.dtype",   "args.dtype",
                                            "cfg.dtype",   "autocast_dtype", "precision"};
  if (!HoldsAny(facts.syntax.text(), kSettings)) return false;
  for (NodeId id = 0; id < facts.syntax.size(); ++id) {
    const Kind kind = facts.syntax.kind(id);
    if (kind != Kind::kIdentifier && kind != Kind::kAttribute && kind != Kind::kString) continue;
    const std::string_view text = facts.syntax.Text(id);
    if (text.size() < 60 && !Holds(text, " ") && HoldsAny(text, kSettings)) return true;
  }
  return false;
}

// A type that is written into the region, in code that has a name for the type of the run.
static void GuessFixed(const FileFacts& facts, Sink& sink) {
  if (!HasSetting(facts)) return;
  std::set<NodeId> told;  // functions
  for (const Autocast& autocast : facts.regions.all()) {
    const Call* call = CallOf(facts, autocast.node);
    if (call == nullptr || !IsAutocast(call->callee) || !autocast.dtype_given ||
        autocast.dtype == HalfType::kUnknown || autocast.enabled == Tri::kNo ||
        !MayTrain(facts, call->node))
      continue;
    const NodeId dtype = facts.names.Argument(call->node, 1, "dtype");
    const NodeId function = facts.syntax.FunctionOf(call->node);
    // A condition on the type, or a choice, stands around it.
    bool chosen = dtype == kNoNode || !facts.syntax.Is(dtype, Kind::kAttribute);
    for (NodeId up = facts.syntax[call->node].parent; up > function && !chosen;
         up = facts.syntax[up].parent)
      chosen = facts.syntax.Is(up, Kind::kIf) || facts.syntax.Is(up, Kind::kElif) ||
               facts.syntax.Is(up, Kind::kConditional);
    if (chosen || autocast.enabled == Tri::kUnknown || !told.insert(function).second) continue;
    MarkGuess(sink.Add(dtype,
                       "The type is written here, while this file has a setting for precision: "
                       "whatever that says, this region runs in " +
                           std::string(autocast.dtype == HalfType::kBf16 ? "BF16." : "FP16.")));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.regions.all().empty()) GuessFixed(facts, sink);
  if (facts.regions.all().empty() || Holds(facts.syntax.text(), "set_autocast")) return;
  std::set<NodeId> told;  // functions
  for (const Autocast& autocast : facts.regions.all()) {
    const Call* call = CallOf(facts, autocast.node);
    if (call == nullptr || !IsAutocast(call->callee) || autocast.dtype_given ||
        autocast.enabled == Tri::kNo || HasSplat(facts, call->node))
      continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    if (autocast.device == Device::kUnknown && facts.project.grad_scaler &&
        MayBeDevice(facts, facts.names.Argument(call->node, 0, "device_type")) &&
        MayTrain(facts, call->node) && told.insert(function).second)
      MarkGuess(
          sink.Add(call->node,
                   "No dtype is given: this is FP16 on CUDA and BF16 on a CPU, and a model that "
                   "overflows in FP16 has no way to ask for BF16."));
    if (autocast.device == Device::kUnknown) {
      // With a scaler FP16 is meant, and a CPU is not.
      if (!facts.project.grad_scaler &&
          MayBeDevice(facts, facts.names.Argument(call->node, 0, "device_type")))
        sink.Add(call->node,
                 "The device is computed and no dtype is given: this runs in FP16 on CUDA and in "
                 "BF16 on a CPU.");
    } else if (autocast.device == Device::kCuda) {
      // Another region of the file has made a choice; a function that has one region for each
      // format has made it itself.
      bool chosen = false;
      bool switches = false;
      for (const Autocast& other : facts.regions.all()) {
        const bool names = other.dtype_given && other.dtype != HalfType::kFp16 &&
                           other.enabled != Tri::kNo && other.device != Device::kCpu;
        chosen = chosen || names;
        switches =
            switches || (names && facts.syntax.FunctionOf(other.node) == function && function != 0);
      }
      // A switch that turns it on, and none for the type.
      const bool wrong =  // autocast(torch.bfloat16) is autocast-bad-argument's
          facts.names.Resolve(facts.names.Argument(call->node, 0, "")).starts_with("torch.");
      const bool offers_bf16 = facts.project.bf16_autocast ||
                               Holds(facts.syntax.text(), "bfloat16") ||
                               Holds(facts.syntax.text(), "bf16");
      if (!chosen && !wrong && (autocast.enabled == Tri::kUnknown || offers_bf16) &&
          MayTrain(facts, call->node) && told.insert(function).second)
        MarkGuess(
            sink.Add(call->node,
                     "No dtype is given: this is FP16 on CUDA, also for a model that overflows "
                     "there and for a run that asks for BF16."));
      if (chosen && !switches)
        sink.Add(call->node,
                 "No dtype is given, so this runs in FP16, whereas another autocast of this file "
                 "names its dtype.");
    }
  }
}

}  // namespace mpnanny::static_check::autocast_no_dtype
