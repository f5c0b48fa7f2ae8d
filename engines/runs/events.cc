#include "engines/runs/events.h"

namespace mpnanny::runs {

Result<void> ForEachEvent(const Source& source, const std::function<bool(const EventRow&)>& visit) {
  if (!source.database->HasColumn("event", "run_id")) return {};
  MPN_TRY_ASSIGN(auto rows, source.database->Prepare(
                                "SELECT step, type, substr(detail, 1, 4000) FROM event "
                                "WHERE run_id=?1 ORDER BY step IS NOT NULL, step, rowid"));
  rows.Bind(1, *source.run.handle.run_id);
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    EventRow row;
    row.step = rows.Int(0);
    row.type = rows.TextOr(1);
    row.detail = rows.TextOr(2);
    if (!visit(row)) return {};
  }
}

}  // namespace mpnanny::runs
