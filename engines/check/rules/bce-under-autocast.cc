#include "engines/check/rule_support.h"

namespace mpnanny::check::bce_under_autocast {
namespace {

bool MakesBce(const FileFacts& facts, NodeId expression) {
  while (facts.names.Method(expression) == "cuda" || facts.names.Method(expression) == "to")
    expression = facts.names.Receiver(expression);  // nn.BCELoss().cuda()
  return facts.syntax.Is(expression, Kind::kCall) &&
         facts.names.Callee(expression) == "torch.nn.BCELoss";
}

// Called directly, or through an object of torch.nn.BCELoss.
bool IsBce(const FileFacts& facts, NodeId call) {
  const std::string& callee = facts.names.Callee(call);
  if (!callee.empty())
    return callee == "torch.nn.functional.binary_cross_entropy" ||
           callee == "torch.binary_cross_entropy";
  const NodeId called = facts.syntax.Unwrap(facts.syntax.Child(call, PythonFields().function));
  if (MakesBce(facts, called)) return true;
  const NodeId made = facts.bindings.ValueOf(called);
  return made != kNoNode && made != call && MakesBce(facts, made);
}

// True if the region is switched by a parameter that is False unless somebody passes it.
bool IsOffByDefault(const FileFacts& facts, const Autocast& autocast) {
  const NodeId enabled = facts.names.Argument(autocast.node, -1, "enabled");
  if (!facts.syntax.Is(enabled, Kind::kIdentifier)) return false;
  const NodeId by_default =
      facts.bindings.ParameterDefault(facts.syntax.FunctionOf(enabled), facts.syntax.Text(enabled));
  return facts.syntax.Is(by_default, Kind::kFalse);
}

void Examine(const FileFacts& facts, Sink& sink, NodeId call) {
  const Autocast* autocast = facts.regions.At(call);
  if (autocast == nullptr || autocast->foreign || autocast->enabled == Tri::kNo ||
      autocast->device == Device::kCpu || autocast->device == Device::kOther || !IsBce(facts, call))
    return;
  RawFinding& finding = sink.Add(call);
  if (autocast->device == Device::kUnknown) {
    finding.confidence = "medium";
    finding.form = "device-unknown";
  }
  finding.guess = autocast->enabled == Tri::kUnknown && IsOffByDefault(facts, *autocast);
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.names.CallsNamed("BCELoss").empty() &&
      facts.names.CallsNamed("binary_cross_entropy").empty())
    return;
  ForEachCall(facts, [&](NodeId call) { Examine(facts, sink, call); });
}

}  // namespace mpnanny::check::bce_under_autocast
