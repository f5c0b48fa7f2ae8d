#include <string_view>

#include "engines/check/facts/model_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::positions_in_buffer_dtype {

// True for self.inv_freq and self.inv_freq.dtype.
static bool OfFrequencies(std::string_view text) {
  if (text.ends_with(".dtype")) text.remove_suffix(6);
  return text.starts_with("self.") && text.ends_with("inv_freq");
}

// True if the range gets its dtype from the frequencies, by dtype= or by a cast behind it.
static bool TakesTheirType(const FileFacts& facts, const Call& range) {
  const NodeId dtype = facts.names.Argument(range.node, -1, "dtype");
  if (dtype != kNoNode) return OfFrequencies(facts.syntax.Text(dtype));
  for (NodeId up = range.node;;) {
    const NodeId attribute = facts.syntax[up].parent;
    const Call* call =
        attribute == kNoNode ? nullptr : facts.names.CallAt(facts.syntax[attribute].parent);
    if (call == nullptr || call->receiver != up) return false;
    if (call->method == "type_as" || call->method == "to") {
      for (const NodeId argument : facts.names.Arguments(call->node)) {
        if (OfFrequencies(facts.syntax.Text(argument))) return true;
      }
    }
    up = call->node;
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit || !Holds(facts.syntax.text(), "inv_freq")) return;
  for (const Call* call : facts.names.CallsNamed("arange")) {
    // Whoever switches autocast off here has thought of the type.
    const Autocast* region = facts.regions.At(call->node);
    if (region != nullptr && region->enabled == Tri::kNo) continue;
    if (call->callee == "torch.arange" && TakesTheirType(facts, *call) &&
        RunsInModel(facts, call->node))
      sink.Add(call->node);
  }
}

}  // namespace mpnanny::check::positions_in_buffer_dtype
