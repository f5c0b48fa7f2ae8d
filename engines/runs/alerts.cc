#include "engines/runs/alerts.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "engines/runs/rank_layers.h"
#include "engines/runs/shadow.h"

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
        "SELECT alert_id, step, phase, layer_id, kind, type, severity, value, threshold, producer,"
        " repeats, last_step, substr(message, 1, 4000), substr(" +
        database.ColumnsOrNull("alert", {"detail"}) +
        ", 1, 16000) FROM alert "
        "WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 ORDER BY step, alert_id");
    if (!rows) return rows.error();
    rows->Bind(1, *run.handle.run_id).Bind(2, steps.first).Bind(3, steps.last);
    return AlertCursor(*std::move(rows));
  }

  // The next one of these types and severities.
  Result<std::optional<AlertRow>> Next(const AlertFilter& filter) {
    while (true) {
      MPN_TRY_ASSIGN(auto next, rows_.Next());
      if (!next) return std::optional<AlertRow>();
      AlertRow row;
      row.type = Word<AlertType>(rows_.TextOr(5));
      row.severity = Word<Severity>(rows_.TextOr(6));
      if (!Holds(filter.types, row.type) || !Holds(filter.severities, row.severity)) continue;
      row.alert_id = rows_.IntOr(0, 0);
      row.step = rows_.IntOr(1, 0);
      row.phase = Word<Phase>(rows_.TextOr(2));
      row.layer_id = rows_.Int(3);
      row.kind = rows_.Int(4);
      row.value = rows_.Real(7);
      row.threshold = rows_.Real(8);
      row.producer = rows_.Int(9);
      row.repeats = rows_.IntOr(10, 1);
      row.last_step = rows_.Int(11);
      row.message = rows_.TextOr(12);
      row.detail = rows_.TextOr(13);
      return std::optional(std::move(row));
    }
  }

 private:
  explicit AlertCursor(Statement rows) : rows_(std::move(rows)) {}
  Statement rows_;
};

bool FitsLayers(const AlertFilter& filter, const AlertRow& row) {
  return !filter.layer_ids ||
         (row.layer_id &&
          std::binary_search(filter.layer_ids->begin(), filter.layer_ids->end(), *row.layer_id));
}

// Of an alert that a shadow step raised, its operator and line: one layer may have several.
std::string PlaceOf(const AlertRow& row) {
  if (!IsShadowAlert(row.type)) return "";
  const ShadowAlert alert = ParseShadowAlert(row.detail);
  return alert.op + "\n" + alert.source;
}

constexpr size_t kMaxFolded = 20'000;  // of one step; more are told one by one
constexpr int kRankShift = 40;         // alert ids of all ranks stand apart

// The alerts of one step, those that tell the same folded into one: the deciding rank's words, else
// the lowest rank's. Rows come rank by rank, the deciding one first.
std::vector<AlertRow> Folded(std::vector<AlertRow> rows) {
  using Key = std::tuple<std::string, std::string, std::string, std::optional<int64_t>,
                         std::optional<int64_t>, std::string>;
  std::map<Key, size_t> at;
  std::vector<AlertRow> folded;
  for (AlertRow& row : rows) {
    const Key key(row.type.text(), row.severity.text(), row.phase.text(), row.layer_id, row.kind,
                  PlaceOf(row));
    const auto found = at.find(key);
    // Twice on one rank is two alerts.
    if (found == at.end() || folded[found->second].ranks.back() == row.ranks.front()) {
      at[key] = folded.size();
      folded.push_back(std::move(row));
      continue;
    }
    AlertRow& first = folded[found->second];
    first.ranks.push_back(row.ranks.front());
    first.alert_id = std::min(first.alert_id, row.alert_id);
    if (row.producer && (!first.producer || *row.producer == 1)) first.producer = row.producer;
    first.repeats = std::max(first.repeats, row.repeats);
    first.last_step = std::max(first.last_step, row.last_step);
  }
  for (AlertRow& row : folded) std::sort(row.ranks.begin(), row.ranks.end());
  std::sort(folded.begin(), folded.end(),
            [](const AlertRow& a, const AlertRow& b) { return a.alert_id < b.alert_id; });
  return folded;
}

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
      if (!FitsLayers(filter, head)) continue;
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
    for (const AlertRow& row : Folded(std::move(rows))) {
      if (!visit(row)) return {};
    }
  }
}

}  // namespace

int PhaseRank(const Word<Phase>& phase) {
  constexpr auto kRest = Phase::kState;  // a state is of no moment of the step
  return static_cast<int>(phase.value().value_or(kRest));
}

int SeverityRank(const Word<Severity>& severity) {
  return severity == Severity::kError ? 0 : severity == Severity::kWarning ? 1 : 2;
}

Result<void> ForEachAlert(const Source& source, const AlertFilter& filter,
                          const std::function<bool(const AlertRow&)>& visit) {
  if (!source.others.empty()) return ForEachMerged(source, filter, visit);
  MPN_TRY_ASSIGN(auto cursor, AlertCursor::Open(*source.database, source.run, filter.steps));
  while (true) {
    MPN_TRY_ASSIGN(auto row, cursor.Next(filter));
    if (!row) return {};
    if (FitsLayers(filter, *row) && !visit(*row)) return {};
  }
}

}  // namespace mpnanny::runs
