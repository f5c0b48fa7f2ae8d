#include <algorithm>
#include <iterator>
#include <string_view>

#include "engines/check/facts/half_models.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::adam_eps_half {

// Those that divide by the root of a second moment plus eps.
static constexpr std::string_view kAdams[] = {"Adam", "AdamW", "Adamax", "NAdam"};

void Check(const FileFacts& facts, Sink& sink) {
  for (const HalfOptimizer& found : FindHalfOptimizers(facts)) {
    if (found.type != HalfType::kFp16 || found.loaded) continue;
    if (std::find(std::begin(kAdams), std::end(kAdams),
                  LastComponent(facts.names.Callee(found.call))) == std::end(kAdams))
      continue;
    const NodeId given = facts.names.Argument(found.call, 3, "eps");
    const auto eps = given == kNoNode ? std::optional<double>(1e-8) : facts.bindings.Number(given);
    if (!eps || *eps > kFp16RoundsToZero) continue;
    RawFinding& finding = sink.Add(found.call, "Adam keeps its moments in FP16 here, and its eps " +
                                                   ShowNumber(*eps) + " is zero in FP16.");
    if (found.some) finding.confidence = "medium";
    // A fused step computes in FP32 and rounds only what it stores.
    const NodeId fused = facts.names.Argument(found.call, -1, "fused");
    if (!IsPlainlyTrained(facts, found) ||
        (fused != kNoNode && !facts.syntax.Is(fused, Kind::kFalse)))
      finding.form = "masters-unknown";
  }
}

}  // namespace mpnanny::check::adam_eps_half
