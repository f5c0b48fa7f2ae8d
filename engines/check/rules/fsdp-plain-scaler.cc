#include <string_view>

#include "engines/check/rule_support.h"

namespace mpnanny::check::fsdp_plain_scaler {

void Check(const FileFacts& facts, Sink& sink) {
  constexpr std::string_view kFsdp = "torch.distributed.fsdp.";
  if (facts.scalers.made().empty()) return;
  bool wraps = false;
  bool others = false;  // models without FSDP, for which a plain scaler is right
  for (const Call& call : facts.names.calls()) {
    wraps = wraps ||
            (call.callee.starts_with(kFsdp) && call.callee.ends_with(".FullyShardedDataParallel"));
    others = others || call.callee == "torch.nn.parallel.DistributedDataParallel";
  }
  if (!wraps || others) return;
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false) continue;
    if (facts.syntax.Is(facts.names.Argument(made.call, -1, "enabled"), Kind::kFalse)) continue;
    // The other one is for the runs without FSDP.
    if (facts.names.Callee(made.call).find("ShardedGradScaler") != std::string_view::npos) return;
    sink.Add(made.call);
  }
}

}  // namespace mpnanny::check::fsdp_plain_scaler
