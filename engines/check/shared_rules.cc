#include "engines/check/shared_rules.h"

#include <mutex>

namespace mpnanny::check {

Result<std::shared_ptr<const RuleSet>> SharedRules(const DataFiles& data) {
  static std::mutex mutex;
  static std::shared_ptr<const RuleSet> kept;
  static uint64_t kept_fingerprint = 0;
  const uint64_t fingerprint = data.Fingerprint("engines/check/");
  const std::lock_guard lock(mutex);
  if (!kept || kept_fingerprint != fingerprint) {
    auto loaded = RuleSet::Load(data);
    if (!loaded) return loaded;
    kept = *std::move(loaded);
    kept_fingerprint = fingerprint;
  }
  return kept;
}

}  // namespace mpnanny::check
