#include <string_view>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::rotary_matmul_under_autocast {

static bool NamesFrequencies(std::string_view text) {
  return Holds(text, "inv_freq") || Holds(text, "theta") || Holds(text, "omega") ||
         text.ends_with("freqs") || text.ends_with("freqs)") || text.ends_with("freq_bands") ||
         Holds(text, "gaussian_matrix") || Holds(text, "fourier");
}

static bool NamesPositions(std::string_view text) {
  // t.type(freqs.dtype) is t.
  if (text.starts_with("t.") || text.starts_with("t[") || text.starts_with("pos.") ||
      text.starts_with("seq."))
    return true;
  return Holds(text, "position") || Holds(text, "pos_ids") || text == "t" || text == "pos" ||
         text == "seq" || text == "seq_idx" || text.starts_with("coords") ||
         text.starts_with("timestep") || Holds(text, "arange");
}

// What is multiplied: two expressions, of which one names frequencies and the other positions.
static bool IsAngle(const FileFacts& facts, NodeId a, NodeId b) {
  if (a == kNoNode || b == kNoNode) return false;
  const std::string_view left = facts.syntax.Text(a);
  const std::string_view right = facts.syntax.Text(b);
  if (left.size() > 160 || right.size() > 160) return false;
  // Of t.type(freqs.dtype) the name in front counts.
  const auto both = [](std::string_view frequencies, std::string_view positions) {
    return NamesFrequencies(frequencies) && NamesPositions(positions) &&
           !(frequencies.starts_with("t.") || frequencies.find("arange") != std::string_view::npos);
  };
  return both(left, right) || both(right, left);
}

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const std::string_view text = facts.syntax.text();
  if (!Holds(text, "freq") && !Holds(text, "theta") && !Holds(text, "omega") &&
      !Holds(text, "gaussian_matrix") && !Holds(text, "fourier"))
    return;
  const auto report = [&](NodeId node) {
    const Autocast* autocast = facts.regions.At(node);
    if (autocast != nullptr && autocast->enabled != Tri::kNo && !autocast->foreign) sink.Add(node);
  };
  for (const std::string_view name : {"einsum", "matmul", "bmm", "mm"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (name == "einsum") {
        if (call->callee == "torch.einsum" &&
            IsAngle(facts, facts.names.Argument(call->node, 1, ""),
                    facts.names.Argument(call->node, 2, "")))
          report(call->node);
      } else if (call->callee.empty()
                     ? IsAngle(facts, call->receiver, facts.names.Argument(call->node, 0, ""))
                     : IsAngle(facts, facts.names.Argument(call->node, 0, ""),
                               facts.names.Argument(call->node, 1, ""))) {
        report(call->node);
      }
    }
  }
  if (!Holds(text, " @ ")) return;
  for (NodeId id = 0; id < facts.syntax.size(); ++id) {
    if (facts.syntax[id].kind != Kind::kBinary) continue;
    if (facts.syntax.Text(facts.syntax.Child(id, f.operator_)) == "@" &&
        IsAngle(facts, facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right)))
      report(id);
  }
}

}  // namespace mpnanny::check::rotary_matmul_under_autocast
