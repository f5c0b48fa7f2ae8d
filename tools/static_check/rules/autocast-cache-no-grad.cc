#include <string>
#include <vector>

#include "tools/static_check/model_calls.h"
#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::autocast_cache_no_grad {

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

void Check(const FileFacts& facts, Sink& sink) {
  const std::string& text = facts.syntax.text();
  if (facts.regions.all().empty() || text.find("clear_autocast_cache") != std::string::npos ||
      (text.find("no_grad") == std::string::npos &&
       text.find("inference_mode") == std::string::npos))
    return;
  const std::vector<ModelCall> calls = FindModelCalls(facts);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Autocast* region = CachingRegion(facts, calls[i].node);
    if (region == nullptr || !facts.regions.NoGradAt(calls[i].node)) continue;
    if (facts.regions.NoGradAt(facts.syntax[region->owner].first_child)) continue;
    for (size_t j = i + 1; j < calls.size(); ++j) {
      const bool same =
          calls[j].key == calls[i].key && CachingRegion(facts, calls[j].node) == region &&
          facts.syntax.FunctionOf(calls[j].node) == facts.syntax.FunctionOf(calls[i].node);
      if (!same || facts.regions.NoGradAt(calls[j].node)) continue;
      if (Exclusive(facts, calls[i].node, calls[j].node) ||
          Leaves(facts, calls[i].node, calls[j].node))
        continue;
      sink.Add(calls[i].node, calls[i].key +
                                  " is first run without gradients in the autocast "
                                  "region in which it is trained afterwards.");
      break;
    }
  }
}

}  // namespace mpnanny::static_check::autocast_cache_no_grad
