#include "tools/query_alerts/alert_finding.h"

#include <string_view>

#include "base/text.h"

namespace mpnanny::query_alerts {

Result<std::optional<runs::ShadowFinding>> FindingOf(const runs::Source& source,
                                                     const runs::AlertRow& alert) {
  std::optional<runs::ShadowFinding> none;
  constexpr std::string_view kPrefix = "SHADOW_";
  if (!runs::IsShadowAlert(alert.type)) return none;
  const runs::ShadowAlert told = runs::ParseShadowAlert(alert.detail);
  if (told.finding_id) {
    auto found = runs::FindShadowFinding(source, alert.part, *told.finding_id);
    if (!found || *found) return found;
  }
  if (told.op.empty() && told.source.empty()) return none;
  if (!alert.type.text().starts_with(kPrefix)) return none;  // a type of several kinds
  runs::ShadowFinding finding;
  finding.kind = Word<FindingKind>(LowerCase(alert.type.text().substr(kPrefix.size())));
  finding.step = alert.step;
  finding.phase = alert.phase;
  finding.op = told.op;
  finding.source = told.source;
  finding.proof = told.proof;
  finding.cure = told.cure;
  return std::optional(std::move(finding));
}

}  // namespace mpnanny::query_alerts
