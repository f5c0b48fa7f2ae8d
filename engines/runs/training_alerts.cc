// ForEachOfTraining: the alerts of a thousand ranks by one question, which folds those that differ
// in nothing but the rank. What it cannot tell (an alert that one rank has twice, the places of
// shadow alerts) is folded here as alerts of files are.
#include <algorithm>
#include <string>
#include <utility>

#include "engines/runs/alert_fold.h"
#include "engines/runs/parts.h"
#include "engines/runs/rank_layers.h"
#include "engines/runs/ranks.h"

namespace mpnanny::runs {
namespace {

constexpr int64_t kIdMask = (int64_t{1} << kRankShift) - 1;

// "type IN (?4, ?5) AND "; the words' places follow `next`.
std::string Among(const char* column, const std::vector<std::string>& words, int& next) {
  if (words.empty()) return "";
  std::string text = std::string(column) + " IN (";
  for (size_t i = 0; i < words.size(); ++i) {
    text += (i > 0 ? ", ?" : "?") + std::to_string(next++);
  }
  return text + ") AND ";
}

class TrainingAlerts {
 public:
  static Result<TrainingAlerts> Open(const Source& source, const AlertFilter& filter) {
    int next = 4;
    const std::string which =
        Among("a.raw_type", filter.types, next) + Among("a.raw_severity", filter.severities, next);
    // The first of a group, by the order of the parts, has its words; an alert's id and the order
    // of its part make one number. Shadow alerts of one layer may be of several places, which
    // stand in their details: they are a group each.
    auto rows = source.database->Prepare(
        "SELECT w.alert_id, g.step, w.phase, w.layer_id, w.kind, w.type, w.severity, w.value, "
        "w.threshold, g.producer, g.repeats, g.last_step, substr(w.message, 1, 4000), "
        "substr(" +
        source.database->ColumnsOrNull("alert", {"detail"}) +
        ", 1, 16000), w.run_id, g.ranks, g.least, g.name "
        "FROM (SELECT a.step, max(a.producer) AS producer, max(a.repeats) AS repeats, "
        "max(a.last_step) AS last_step, array_to_string(array_agg(a.run_id), ',') AS ranks, "
        "min(a.run_id::bigint << 40 | a.alert_id) AS least, "
        "min(CASE WHEN a.run_id=?3 THEN a.alert_id ELSE (a.run_id + 1)::bigint << 40 | a.alert_id "
        "END) AS first, left(l.raw_name, 3000) AS name FROM alert a "
        "LEFT JOIN layer l ON l.run_id=a.run_id AND l.layer_id=a.layer_id WHERE " +
        which +
        "a.step BETWEEN ?1 AND ?2 GROUP BY a.step, a.raw_type, a.raw_severity, a.raw_phase, "
        "a.kind, "
        "l.raw_name, CASE WHEN l.raw_name IS NULL THEN a.layer_id END, "
        "CASE WHEN a.raw_type LIKE 'SHADOW%' OR a.raw_type='PROTOCOL' "
        "THEN a.run_id::bigint << 40 | a.alert_id END) AS g JOIN alert w "
        "ON w.run_id=CASE WHEN g.first >> 40 = 0 THEN ?3 ELSE (g.first >> 40)::integer - 1 END "
        "AND w.alert_id=g.first & " +
        std::to_string(kIdMask) + " ORDER BY g.step, g.first");
    if (!rows) return rows.error();
    rows->Bind(1, filter.steps.first).Bind(2, filter.steps.last).Bind(3, source.run.rank);
    next = 4;
    for (const std::string& type : filter.types) rows->Bind(next++, type);
    for (const std::string& severity : filter.severities) rows->Bind(next++, severity);
    return TrainingAlerts(source, *std::move(rows));
  }

  // The next group; nullopt at the end.
  Result<std::optional<AlertRow>> Next() {
    MPN_TRY_ASSIGN(auto next, rows_.Next());
    if (!next) return std::optional<AlertRow>();
    AlertRow row = AlertOf(rows_);
    row.ranks = NumbersOf(rows_.TextOr(15));
    std::sort(row.ranks.begin(), row.ranks.end());
    const int64_t rank = rows_.IntOr(14, 0);
    if (row.ranks.empty()) row.ranks = {rank};
    row.alert_id = rows_.IntOr(16, 0);
    row.part = parts_.Of(rank);
    if (row.layer_id && row.part > 0) {
      MPN_TRY_ASSIGN(auto mapped, layers_.Map(row.part - 1, *row.layer_id, rows_.Text(17)));
      row.layer_id = mapped;
    }
    return std::optional(std::move(row));
  }

  // All of one step as its ranks told them, part by part.
  Result<std::vector<AlertRow>> Unfolded(int64_t step, const AlertFilter& filter) {
    std::vector<AlertRow> all;
    MPN_TRY_ASSIGN(auto rows, source_.database->Prepare(AlertColumns(*source_.database) +
                                                        ", run_id FROM alert WHERE step=?1 "
                                                        "ORDER BY run_id<>?2, run_id, alert_id"));
    rows.Bind(1, step).Bind(2, source_.run.rank);
    while (all.size() < kMaxFolded) {
      MPN_TRY_ASSIGN(auto next, rows.Next());
      if (!next) break;
      AlertRow row = AlertOf(rows);
      if (!filter.Takes(row)) continue;
      const int64_t rank = rows.IntOr(14, 0);
      row.ranks = {rank};
      row.alert_id |= rank << kRankShift;
      row.part = parts_.Of(rank);
      if (row.layer_id && row.part > 0) {
        MPN_TRY_ASSIGN(auto mapped, layers_.Map(row.part - 1, *row.layer_id));
        row.layer_id = mapped;
      }
      all.push_back(std::move(row));
    }
    return all;
  }

 private:
  TrainingAlerts(const Source& source, Statement rows)
      : source_(source), layers_(source), parts_(source), rows_(std::move(rows)) {}

  const Source& source_;
  RankLayers layers_;
  PartsByRank parts_;
  Statement rows_;
};

// One rank told the same twice: which is which only the rows say.
bool HasTwice(const std::vector<AlertRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const AlertRow& row) {
    return std::adjacent_find(row.ranks.begin(), row.ranks.end()) != row.ranks.end();
  });
}

}  // namespace

Result<void> ForEachOfTraining(const Source& source, const AlertFilter& filter,
                               const std::function<bool(const AlertRow&)>& visit) {
  MPN_TRY_ASSIGN(auto alerts, TrainingAlerts::Open(source, filter));
  MPN_TRY_ASSIGN(auto head, alerts.Next());
  while (head) {
    const int64_t step = head->step;
    std::vector<AlertRow> rows;
    while (head && head->step == step) {
      rows.push_back(*std::move(head));
      auto next = alerts.Next();
      if (!next) return next.error();
      head = *std::move(next);
    }
    if (HasTwice(rows)) {
      auto unfolded = alerts.Unfolded(step, filter);
      if (!unfolded) return unfolded.error();
      rows = *std::move(unfolded);
    }
    std::erase_if(rows, [&](const AlertRow& row) { return !filter.TakesLayer(row); });
    for (const AlertRow& row : FoldAlerts(std::move(rows))) {
      if (!visit(row)) return {};
    }
  }
  return {};
}

}  // namespace mpnanny::runs
