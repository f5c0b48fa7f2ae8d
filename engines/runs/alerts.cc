#include "engines/runs/alerts.h"

#include <algorithm>

#include "engines/runs/alert_fold.h"
#include "engines/runs/parts.h"
#include "engines/runs/rank_layers.h"

namespace mpnanny::runs {
namespace {

bool Holds(const std::vector<std::string>& allowed, std::string_view value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

// The alerts of one rank, in the order of (step, alert_id).
class AlertCursor {
 public:
  static Result<AlertCursor> Open(const Database& database, const Run& run,
                                  const StepRange& steps) {
    auto rows = database.Prepare(
        AlertColumns(database) +
        " FROM alert WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 ORDER BY step, alert_id");
    if (!rows) return rows.error();
    rows->Bind(1, *run.handle.run_id).Bind(2, steps.first).Bind(3, steps.last);
    return AlertCursor(*std::move(rows));
  }

  // The next one of these types and severities.
  Result<std::optional<AlertRow>> Next(const AlertFilter& filter) {
    while (true) {
      MPN_TRY_ASSIGN(auto next, rows_.Next());
      if (!next) return std::optional<AlertRow>();
      AlertRow row = AlertOf(rows_);
      if (filter.Takes(row)) return std::optional(std::move(row));
    }
  }

 private:
  explicit AlertCursor(Statement rows) : rows_(std::move(rows)) {}
  Statement rows_;
};

Result<void> ForEachMerged(const Source& source, const AlertFilter& filter,
                           const std::function<bool(const AlertRow&)>& visit) {
  RankLayers layers(source);
  std::vector<AlertCursor> cursors;
  std::vector<std::optional<AlertRow>> heads(source.others.size() + 1);
  // The next alert of one part that fits, under the Source's numbering.
  const auto advance = [&](size_t part) -> Result<void> {
    const int64_t rank = part == 0 ? source.run.rank : source.others[part - 1].run.rank;
    while (true) {
      auto row = cursors[part].Next(filter);
      if (!row) return row.error();
      heads[part] = *std::move(row);
      if (!heads[part]) return {};
      AlertRow& head = *heads[part];
      if (head.layer_id && part > 0) {
        MPN_TRY_ASSIGN(auto mapped, layers.Map(part - 1, *head.layer_id));
        head.layer_id = mapped;
      }
      if (!filter.TakesLayer(head)) continue;
      head.ranks = {rank};
      head.part = part;
      head.alert_id |= rank << kRankShift;
      return {};
    }
  };
  for (size_t part = 0; part < heads.size(); ++part) {
    auto cursor =
        AlertCursor::Open(part == 0 ? *source.database : *source.others[part - 1].database,
                          part == 0 ? source.run : source.others[part - 1].run, filter.steps);
    if (!cursor) return cursor.error();
    cursors.push_back(*std::move(cursor));
    MPN_TRY(advance(part));
  }
  while (true) {
    std::optional<int64_t> step;
    for (const auto& head : heads) {
      if (head && (!step || head->step < *step)) step = head->step;
    }
    if (!step) return {};
    std::vector<AlertRow> rows;
    for (size_t part = 0; part < heads.size(); ++part) {
      while (heads[part] && heads[part]->step == *step && rows.size() < kMaxFolded) {
        rows.push_back(*std::move(heads[part]));
        MPN_TRY(advance(part));
      }
    }
    for (const AlertRow& row : FoldAlerts(std::move(rows))) {
      if (!visit(row)) return {};
    }
  }
}

}  // namespace

std::string AlertColumns(const Database& database) {
  return "SELECT alert_id, step, phase, layer_id, kind, type, severity, value, threshold, producer,"
         " repeats, last_step, substr(message, 1, 4000), substr(" +
         database.ColumnsOrNull("alert", {"detail"}) + ", 1, 16000)";
}

AlertRow AlertOf(const Statement& row) {
  AlertRow alert;
  alert.alert_id = row.IntOr(0, 0);
  alert.step = row.IntOr(1, 0);
  alert.phase = Word<Phase>(row.TextOr(2));
  alert.layer_id = row.Int(3);
  alert.kind = row.Int(4);
  alert.type = Word<AlertType>(row.TextOr(5));
  alert.severity = Word<Severity>(row.TextOr(6));
  alert.value = row.Real(7);
  alert.threshold = row.Real(8);
  alert.producer = row.Int(9);
  alert.repeats = row.IntOr(10, 1);
  alert.last_step = row.Int(11);
  alert.message = row.TextOr(12);
  alert.detail = row.TextOr(13);
  return alert;
}

bool AlertFilter::Takes(const AlertRow& row) const {
  return Holds(types, row.type.text()) && Holds(severities, row.severity.text());
}

bool AlertFilter::TakesLayer(const AlertRow& row) const {
  return !layer_ids ||
         (row.layer_id && std::binary_search(layer_ids->begin(), layer_ids->end(), *row.layer_id));
}

int PhaseRank(const Word<Phase>& phase) {
  constexpr auto kRest = Phase::kState;  // a state is of no moment of the step
  return static_cast<int>(phase.value().value_or(kRest));
}

int SeverityRank(const Word<Severity>& severity) {
  return severity == Severity::kError ? 0 : severity == Severity::kWarning ? 1 : 2;
}

Result<void> ForEachAlert(const Source& source, const AlertFilter& filter,
                          const std::function<bool(const AlertRow&)>& visit) {
  if (LiesInOne(source)) return ForEachOfTraining(source, filter, visit);
  if (!source.others.empty()) return ForEachMerged(source, filter, visit);
  MPN_TRY_ASSIGN(auto cursor, AlertCursor::Open(*source.database, source.run, filter.steps));
  while (true) {
    MPN_TRY_ASSIGN(auto row, cursor.Next(filter));
    if (!row) return {};
    if (filter.TakesLayer(*row) && !visit(*row)) return {};
  }
}

}  // namespace mpnanny::runs
