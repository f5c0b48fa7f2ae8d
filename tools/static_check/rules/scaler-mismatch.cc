#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::scaler_mismatch {

// True if anything in the file gives the name a value, or it is no plain name.
static bool IsBound(const FileFacts& facts, const std::string& name) {
  if (name.find_first_of(".[") != std::string::npos || facts.bindings.all().contains(name) ||
      !facts.names.Imported(name).empty() || !facts.names.star_imports().empty())
    return true;
  const std::vector<Function>& functions = facts.bindings.functions();
  return std::any_of(functions.begin(), functions.end(), [&](const Function& function) {
    return std::find(function.parameters.begin(), function.parameters.end(), name) !=
           function.parameters.end();
  });
}

// A function that scales with one name and steps with another, and never the other way: a typing
// error, or a scaler that was renamed in some of the lines.
static void GuessNames(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  const std::vector<Violation>& told = facts.protocol->violations();
  std::set<NodeId> seen;  // functions
  for (const ScalerCall& scale : calls) {
    const NodeId function = facts.syntax.FunctionOf(scale.call);
    if (scale.op != ScalerCall::Op::kScale || !seen.insert(function).second) continue;
    std::set<std::string> scaled, stepped;
    for (const ScalerCall& call : calls) {
      if (facts.syntax.FunctionOf(call.call) != function) continue;
      if (call.op == ScalerCall::Op::kScale) scaled.insert(call.scaler);
      if (call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale)
        stepped.insert(call.scaler);
    }
    if (scaled.size() != 1 || stepped.size() != 1 || *scaled.begin() == *stepped.begin() ||
        IsBound(facts, *scaled.begin()) ||
        std::any_of(told.begin(), told.end(),
                    [](const Violation& v) { return v.kind == Violation::Kind::kOtherScaler; }))
      continue;
    MarkGuess(sink.Add(scale.call, "Scaled by " + *scaled.begin() +
                                       ", which nothing here defines, and stepped by " +
                                       *stepped.begin() + "."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessNames(facts, sink);
  ReportViolations(facts, Violation::Kind::kOtherScaler, sink, [](const Violation& v) {
    return "The loss was scaled by " + v.scaler +
           "; another scaler is asked to unscale its gradients.";
  });
  for (const ScalerCall& call : facts.scalers.calls()) {
    if ((call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale) &&
        HoldsAny(LowerCase(LastComponent(call.optimizer)), {"sched", "loss", "model"}))
      MarkGuess(sink.Add(call.call, "By its name " + call.optimizer +
                                        " is no optimizer: step() and unscale_() of a scaler work "
                                        "on the param_groups of one."));
  }
}

}  // namespace mpnanny::static_check::scaler_mismatch
