#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engines/check/facts/model_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::eval_not_under_autocast {

namespace {

// A model that brings its own autocast needs none around it.
bool ModelCasts(const FileFacts& facts) {
  for (const Autocast& autocast : facts.regions.all()) {
    const NodeId function = facts.syntax.Is(autocast.owner, Kind::kFunction)
                                ? autocast.owner
                                : facts.syntax.FunctionOf(autocast.owner);
    if (function != 0 &&
        facts.syntax.Text(facts.syntax.Child(function, PythonFields().name)) == "forward")
      return true;
  }
  return false;
}

// What is trained under autocast in this file and evaluated without.
void CheckFile(const FileFacts& facts, const std::vector<ModelCall>& calls, Sink& sink) {
  const std::vector<Autocast>& regions = facts.regions.all();
  const bool plain = std::any_of(regions.begin(), regions.end(), [](const Autocast& autocast) {
    return !autocast.foreign && autocast.enabled != Tri::kNo;
  });
  if (!plain) return;
  std::set<NodeId> reported;      // functions
  std::set<std::string> trained;  // models that run under autocast with gradients
  for (const ModelCall& call : calls) {
    if (facts.regions.MaybeOn(call.node) && !facts.regions.NoGradAt(call.node))
      trained.insert(call.key);
  }
  for (const ModelCall& call : calls) {
    if (!facts.regions.NoGradAt(call.node) || facts.regions.At(call.node) != nullptr ||
        !trained.contains(call.key))
      continue;
    Policy policy;  // of a region that a caller opened
    if (facts.dtypes->PolicyAt(call.node, &policy) && !policy.assumed) continue;
    // One note for each function; the function that trains may want an exact pass.
    const NodeId function = facts.syntax.FunctionOf(call.node);
    const bool trains = std::any_of(calls.begin(), calls.end(), [&](const ModelCall& other) {
      return facts.syntax.FunctionOf(other.node) == function && facts.regions.MaybeOn(other.node);
    });
    if (trains || !reported.insert(function).second) continue;
    sink.Add(call.node, call.key + " is trained under autocast and evaluated without it.");
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const bool passes = HoldsAny(facts.syntax.text(), {"no_grad", "inference_mode"});
  if (!passes || ModelCasts(facts)) return;
  CheckFile(facts, FindModelCalls(facts), sink);
}

}  // namespace mpnanny::check::eval_not_under_autocast
