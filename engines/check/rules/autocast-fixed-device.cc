#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::autocast_fixed_device {
namespace {

// True if the code around takes whatever device it is given, or names other ones.
bool TakesAnyDevice(const FileFacts& facts) {
  if (HoldsAny(facts.syntax.text(),
               {"\"mps\"", "'mps'", "\"xpu\"", "'xpu'", "\"cpu\"", "'cpu'", "is_available()",
                "get_device", "get_current_device", "current_device()", "self.device",
                ".device.type", "args.device", "cfg.device", "config.device"}))
    return true;
  const std::vector<Function>& functions = facts.bindings.functions();
  return std::any_of(functions.begin(), functions.end(), [](const Function& function) {
    return std::find(function.parameters.begin(), function.parameters.end(), "device") !=
           function.parameters.end();
  });
}

// "cuda" of torch.cuda.amp.autocast() and torch.autocast("cuda"); "" for what is computed.
std::string_view DeviceOf(const FileFacts& facts, const Call& call) {
  if (call.callee.find(".cuda.") != std::string_view::npos) return "cuda";
  if (call.callee.find(".cpu.") != std::string_view::npos) return "cpu";
  const NodeId first = facts.bindings.ValueOf(facts.names.Argument(call.node, 0, "device_type"));
  if (!facts.syntax.Is(first, Kind::kString)) return {};
  return Holds(facts.syntax.Text(first), "cuda") ? "cuda" : "cpu";
}

// True if the region or its surroundings ask which device it is.
bool AsksDevice(const FileFacts& facts, const Call& call) {
  const Syntax& syntax = facts.syntax;
  if (HoldsAny(syntax.Text(facts.names.Argument(call.node, -1, "enabled")),
               {"device", "cuda", "cpu", "available"}))
    return true;
  const NodeId first = facts.names.Argument(call.node, 0, "enabled");
  if (call.callee.find(".cuda.") != std::string_view::npos &&
      HoldsAny(syntax.Text(first), {"device", "cuda", "cpu", "available"}))
    return true;
  const NodeId function = syntax.FunctionOf(call.node);
  for (NodeId up = syntax[call.node].parent; up > function; up = syntax[up].parent) {
    const Kind kind = syntax.kind(up);
    if ((kind == Kind::kIf || kind == Kind::kElif) &&
        HoldsAny(syntax.Text(syntax.Child(up, PythonFields().condition)),
                 {"device", "cuda", "cpu", "available", "mps"}))
      return true;
    if (kind == Kind::kConditional &&
        HoldsAny(syntax.Text(up), {"device", "is_available", "cpu", "use_cuda"}))
      return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const auto calls = facts.names.CallsNamed("autocast");
  if (calls.empty() || !TakesAnyDevice(facts)) return;
  for (const Call* call : calls) {
    if (!IsAutocast(call->callee) || HasSplat(facts, call->node) ||
        facts.syntax.Is(facts.names.Argument(call->node, -1, "enabled"), Kind::kFalse) ||
        facts.syntax.Is(facts.names.Argument(call->node, 0, "enabled"), Kind::kFalse) ||
        AsksDevice(facts, *call))
      continue;
    const std::string_view device = DeviceOf(facts, *call);
    if (!device.empty()) {
      sink.Add(call->node, "This region is for " +
                               std::string(device == "cuda" ? "CUDA" : "the CPU") +
                               " only, in code that runs on the device it is given: on another one "
                               "everything stays in FP32, or the call fails.");
    } else if (facts.regions.ReadHalfType(facts.names.Argument(call->node, 1, "dtype")) ==
               HalfType::kFp16) {
      sink.Add(call->node,
               "The device is computed and the type is FP16: on a CPU most of autocast is meant "
               "for BF16, and there is no loss scaling.");
    }
  }
}

}  // namespace mpnanny::check::autocast_fixed_device
