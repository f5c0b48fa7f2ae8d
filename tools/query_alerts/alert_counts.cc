#include "tools/query_alerts/alert_counts.h"

#include <algorithm>

namespace mpnanny::query_alerts {
namespace {

bool Holds(const std::vector<std::string>& allowed, const std::string& value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

}  // namespace

bool CanCount(const runs::Source& source, const runs::AlertFilter& filter) {
  return source.others.empty() && !filter.layer_ids;
}

Result<AlertCounts> CountAlerts(const runs::Source& source, const runs::AlertFilter& filter,
                                const std::optional<Cursor>& after) {
  AlertCounts counts;
  MPN_TRY_ASSIGN(auto rows,
                 source.database->Prepare(
                     "SELECT severity, type, count(*), min(step) FROM alert "
                     "WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 GROUP BY severity, type"));
  rows.Bind(1, *source.run.handle.run_id);
  rows.Bind(2, filter.steps.first).Bind(3, filter.steps.last);
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) break;
    const std::string severity = rows.TextOr(0), type = rows.TextOr(1);
    if (!Holds(filter.types, type) || !Holds(filter.severities, severity)) continue;
    const Group group = {rows.IntOr(2, 0), rows.IntOr(3, 0)};
    counts.groups[{runs::SeverityRank(Word<Severity>(severity)), severity, type}] = group;
    counts.total += group.count;
  }
  if (!after) return counts;

  MPN_TRY_ASSIGN(auto earlier,
                 source.database->Prepare(
                     "SELECT count(*) FROM alert WHERE run_id=?1 AND severity=?2 AND type=?3 AND "
                     "step BETWEEN ?4 AND ?5 AND (step < ?5 OR alert_id <= ?6)"));
  for (const auto& [key, group] : counts.groups) {
    earlier.Bind(1, *source.run.handle.run_id);
    earlier.Bind(2, std::get<1>(key)).Bind(3, std::get<2>(key));
    earlier.Bind(4, filter.steps.first).Bind(5, after->step).Bind(6, after->alert_id);
    MPN_TRY_ASSIGN(auto row, earlier.Next());
    if (row) counts.before += earlier.IntOr(0, 0);
    earlier.Reset();
  }
  return counts;
}

}  // namespace mpnanny::query_alerts
