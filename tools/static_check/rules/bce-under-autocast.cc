#include <algorithm>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::bce_under_autocast {
namespace {

enum class Bce { kNo, kMaybe, kYes };

bool MakesBce(const FileFacts& facts, NodeId expression) {
  while (facts.names.Method(expression) == "cuda" || facts.names.Method(expression) == "to")
    expression = facts.names.Receiver(expression);  // nn.BCELoss().cuda()
  return facts.syntax.Is(expression, Kind::kCall) &&
         facts.names.Callee(expression) == "torch.nn.BCELoss";
}

// Called directly, or through an object of torch.nn.BCELoss; kMaybe: of what several branches make
// one is such an object.
Bce IsBce(const FileFacts& facts, NodeId call) {
  const std::string& callee = facts.names.Callee(call);
  if (!callee.empty())
    return callee == "torch.nn.functional.binary_cross_entropy" ||
                   callee == "torch.binary_cross_entropy"
               ? Bce::kYes
               : Bce::kNo;
  const NodeId called = facts.syntax.Unwrap(facts.syntax.Child(call, PythonFields().function));
  if (MakesBce(facts, called)) return Bce::kYes;
  const NodeId made = facts.bindings.ValueOf(called);
  if (made != kNoNode && made != call && MakesBce(facts, made)) return Bce::kYes;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(called)) {
    const NodeId value = facts.syntax.Unwrap(assignment.value);
    if (MakesBce(facts, value)) return Bce::kMaybe;
    if (!facts.syntax.Is(value, Kind::kConditional)) continue;
    for (const NodeId part : facts.syntax.Children(value)) {
      if (MakesBce(facts, facts.syntax.Unwrap(part))) return Bce::kMaybe;
    }
  }
  return Bce::kNo;
}

// True if the region is switched by a parameter that is False unless somebody passes it.
bool IsOffByDefault(const FileFacts& facts, const Autocast& autocast) {
  const NodeId enabled = facts.names.Argument(autocast.node, -1, "enabled");
  if (!facts.syntax.Is(enabled, Kind::kIdentifier)) return false;
  const NodeId by_default =
      facts.bindings.ParameterDefault(facts.syntax.FunctionOf(enabled), facts.syntax.Text(enabled));
  return facts.syntax.Is(by_default, Kind::kFalse);
}

// True in a class of a file that imports Lightning: its Trainer chooses the precision.
bool IsOfLightning(const FileFacts& facts, NodeId call) {
  return facts.syntax.Enclosing(call, Kind::kClass) != kNoNode &&
         (facts.names.ImportsModule("lightning") || facts.names.ImportsModule("pytorch_lightning"));
}

void Examine(const FileFacts& facts, Sink& sink, NodeId call) {
  const Autocast* autocast = facts.regions.At(call);
  if (autocast != nullptr && (autocast->enabled == Tri::kNo || autocast->device == Device::kCpu ||
                              autocast->device == Device::kOther))
    return;
  const Bce bce = IsBce(facts, call);
  if (bce == Bce::kNo) return;
  if (autocast != nullptr && !autocast->foreign && bce == Bce::kYes) {
    RawFinding& finding = sink.Add(call);
    if (autocast->device == Device::kUnknown) {
      finding.confidence = "medium";
      finding.form = "device-unknown";
    }
    finding.guess = autocast->enabled == Tri::kUnknown && IsOffByDefault(facts, *autocast);
    return;
  }
  // A region of another function, or one of several losses.
  Policy policy;
  const bool on = autocast != nullptr || facts.dtypes->PolicyAt(call, &policy);
  const HalfGuess guess(facts, call);
  if (!on && autocast == nullptr && IsOfLightning(facts, call)) {
    MarkGuess(
        sink.Add(call,
                 "If a Trainer with 16-bit precision runs this, it raises on CUDA: logits and "
                 "binary_cross_entropy_with_logits do not."));
    return;
  }
  const bool may = guess.autocast() || HalfGuess::Anywhere(facts, call).any();
  if (!on && !(may && facts.regions.At(call) == nullptr)) return;
  MarkGuess(sink.Add(call, bce == Bce::kMaybe
                               ? "Where this loss is a BCELoss, CUDA autocast refuses it."
                               : "If this is called under the autocast that this project uses, it "
                                 "raises on CUDA."));
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const std::string_view text = facts.syntax.text();
  if (!Holds(text, "BCELoss") && !Holds(text, "binary_cross_entropy")) return;
  ForEachCall(facts, [&](NodeId call) { Examine(facts, sink, call); });
}

}  // namespace mpnanny::static_check::bce_under_autocast
