#include "tools/runs/alerts.h"

#include <algorithm>

namespace mpnanny::runs {
namespace {

bool Holds(const std::vector<std::string>& allowed, const std::string& value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

}  // namespace

int SeverityRank(const std::string& severity) {
  return severity == "ERROR" ? 0 : severity == "WARNING" ? 1 : 2;
}

Result<void> ForEachAlert(const Source& source, const AlertFilter& filter,
                          const std::function<bool(const AlertRow&)>& visit) {
  auto rows = source.database->Prepare(
      "SELECT alert_id, step, phase, layer_id, kind, type, severity, value, threshold, producer,"
      " repeats, last_step, substr(message, 1, 4000) FROM alert "
      "WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 ORDER BY step, alert_id");
  if (!rows) return rows.error();
  rows->Bind(1, *source.run.handle.run_id).Bind(2, filter.steps.first).Bind(3, filter.steps.last);
  while (true) {
    auto next = rows->Next();
    if (!next) return next.error();
    if (!*next) return {};
    AlertRow row;
    row.type = rows->TextOr(5);
    row.severity = rows->TextOr(6);
    if (!Holds(filter.types, row.type) || !Holds(filter.severities, row.severity)) continue;
    row.layer_id = rows->Int(3);
    if (filter.layer_ids &&
        (!row.layer_id ||
         !std::binary_search(filter.layer_ids->begin(), filter.layer_ids->end(), *row.layer_id))) {
      continue;
    }
    row.alert_id = rows->IntOr(0, 0);
    row.step = rows->IntOr(1, 0);
    row.phase = rows->TextOr(2);
    row.kind = rows->Int(4);
    row.value = rows->Real(7);
    row.threshold = rows->Real(8);
    row.producer = rows->Int(9);
    row.repeats = rows->IntOr(10, 1);
    row.last_step = rows->Int(11);
    row.message = rows->TextOr(12);
    if (!visit(row)) return {};
  }
}

}  // namespace mpnanny::runs
