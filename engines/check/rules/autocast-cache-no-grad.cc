#include <string>
#include <string_view>
#include <vector>

#include "engines/check/facts/model_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::autocast_cache_no_grad {

// The region of autocast that holds `node` as one of its own statements, and keeps its casts.
static const Autocast* CachingRegion(const FileFacts& facts, NodeId node) {
  const Autocast* autocast = facts.regions.At(node);
  if (autocast == nullptr || autocast->enabled == Tri::kNo || !autocast->caches) return nullptr;
  return autocast;
}

// True if both are in one `if` statement and in different branches of it.
static bool Exclusive(const FileFacts& facts, NodeId first, NodeId second) {
  const Syntax& syntax = facts.syntax;
  for (NodeId up = syntax[first].parent, below = first; up != kNoNode;
       below = up, up = syntax[up].parent) {
    if (syntax[up].begin <= syntax[second].begin && syntax[second].end <= syntax[up].end)
      return syntax.Is(up, Kind::kIf) && syntax[below].field != 0;
    if (syntax[up].kind == Kind::kFunction) return false;
  }
  return false;
}

// True where a statement of the first one's block leaves the function or the loop's turn, so that
// the second call does not follow it.
static bool Leaves(const FileFacts& facts, NodeId first, NodeId second) {
  const Syntax& syntax = facts.syntax;
  for (NodeId statement = syntax.StatementOf(first); statement != kNoNode && statement != 0;
       statement = syntax[statement].parent) {
    if (syntax[statement].after > second) return false;  // it holds both
    for (NodeId next = statement; next != kNoNode; next = syntax[next].next_sibling) {
      const Kind kind = syntax[next].kind;
      if (syntax[next].after > second) break;
      if (kind == Kind::kReturn || kind == Kind::kRaise || kind == Kind::kContinue ||
          kind == Kind::kBreak)
        return true;
    }
  }
  return false;
}

// A call of a model, or of a method of the same class that calls one of self's.
struct Pass {
  NodeId node = kNoNode;
  std::string key;
};

// Passes without gradients, in order of the text.
static std::vector<Pass> WithoutGradients(const FileFacts& facts,
                                          const std::vector<ModelCall>& calls) {
  std::vector<Pass> found;
  for (const ModelCall& call : calls) {
    if (facts.regions.NoGradAt(call.node)) found.push_back({call.node, call.key});
  }
  for (const Call& call : facts.names.calls()) {
    if (call.receiver == kNoNode || facts.syntax.Text(call.receiver) != "self") continue;
    const Function* method = facts.bindings.Callee(call.node);
    if (method == nullptr || !facts.regions.NoGradAt(call.node)) continue;
    for (const ModelCall& inner : calls) {
      if (facts.syntax.FunctionOf(inner.node) == method->node && inner.key.starts_with("self.") &&
          facts.regions.At(inner.node) == nullptr)
        found.push_back({call.node, inner.key});
    }
  }
  return found;
}

// True if the model, or a method of it, runs with gradients above: the copies that it leaves in the
// cache have a history.
static bool RunsWithGradientsBefore(const FileFacts& facts, const Pass& first) {
  const Autocast* region = facts.regions.At(first.node);
  for (const Call& call : facts.names.calls()) {
    if (call.node >= first.node) break;
    if (facts.syntax.FunctionOf(call.node) != facts.syntax.FunctionOf(first.node) ||
        facts.regions.At(call.node) != region || facts.regions.NoGradAt(call.node) ||
        IsInside(facts, first.node, call.node))
      continue;
    const NodeId called = facts.syntax.Child(call.node, PythonFields().function);
    const std::string key = facts.names.Key(call.receiver == kNoNode ? called : call.receiver);
    const bool method = key == first.key && call.receiver != kNoNode;
    if (method && (call.name == "train" || call.name == "eval" || call.name == "to" ||
                   call.name == "zero_grad" || call.name.find("param") != std::string_view::npos))
      continue;
    if (method || facts.names.Key(called) == first.key) return true;
  }
  return false;
}

// How sure it is that both stand in one region that keeps its casts; empty where they do not.
static std::string SharedRegion(const FileFacts& facts, NodeId first, NodeId second) {
  const NodeId function = facts.syntax.FunctionOf(first);
  if (facts.regions.At(first) != nullptr || facts.regions.At(second) != nullptr) {
    const Autocast* region = CachingRegion(facts, first);
    if (region == nullptr || region != CachingRegion(facts, second)) return "";
    return facts.regions.NoGradAt(facts.syntax[region->owner].first_child) ? "" : "high";
  }
  // A region around the whole function, where it is called from.
  if (function == 0 || facts.regions.NoGradAt(function)) return "";
  const Entry* entry = facts.dtypes->EntryOf(function);
  return entry != nullptr && entry->autocast ? "medium" : "";
}

void Check(const FileFacts& facts, Sink& sink) {
  const std::string& text = facts.syntax.text();
  if (Holds(text, "clear_autocast_cache") ||
      (!facts.project.fp16_on_cuda && !facts.project.other_autocast) ||
      (!Holds(text, "no_grad") && !Holds(text, "inference_mode")))
    return;
  const std::vector<ModelCall> calls = FindModelCalls(facts);
  if (calls.empty()) return;
  for (const Pass& first : WithoutGradients(facts, calls)) {
    if (RunsWithGradientsBefore(facts, first)) continue;
    for (const ModelCall& second : calls) {
      const bool later =
          second.node > first.node && second.key == first.key &&
          facts.syntax.FunctionOf(second.node) == facts.syntax.FunctionOf(first.node) &&
          !facts.regions.NoGradAt(second.node);
      if (!later || Exclusive(facts, first.node, second.node) ||
          Leaves(facts, first.node, second.node))
        continue;
      const std::string confidence = SharedRegion(facts, first.node, second.node);
      if (confidence.empty()) continue;
      RawFinding& finding =
          sink.Add(first.node, first.key +
                                   " is first run without gradients in the autocast region in "
                                   "which it is trained afterwards.");
      finding.confidence = confidence;
      // A framework's region casts nothing where the model is 16-bit already.
      const Autocast* region = facts.regions.At(first.node);
      finding.guess = region != nullptr && region->foreign;
      break;
    }
  }
}

}  // namespace mpnanny::check::autocast_cache_no_grad
