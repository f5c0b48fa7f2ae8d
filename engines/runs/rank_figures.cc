#include "engines/runs/rank_figures.h"

#include <algorithm>

#include "base/json.h"
#include "engines/runs/parts.h"

namespace mpnanny::runs {
namespace {

bool HasFigures(const Database& database) { return database.HasColumn("rank_figures", "hash"); }

TensorFigure FigureOf(const Statement& row) {
  TensorFigure figure;
  figure.holders = row.TextOr(2);
  figure.first = row.Int(3);
  if (figure.first && *figure.first < 0) figure.first.reset();
  figure.numel = row.IntOr(4, 0);
  figure.nonfinite = row.IntOr(5, 0);
  figure.hash = row.IntOr(6, 0);
  figure.has_norm = row.Real(7).has_value();
  figure.l2 = row.Real(7).value_or(0);
  figure.a = row.Real(8).value_or(0);
  figure.b = row.Real(9).value_or(0);
  return figure;
}

// Of one rank's run; where all ranks lie in one database, whose `run_id` is the rank, of all.
struct Of {
  const Database& database;
  const Run* run = nullptr;  // null: of all

  Result<Statement> Prepare(const std::string& select, const std::string& table,
                            int64_t step) const {
    auto rows = database.Prepare(
        select + (run ? " WHERE " + table + ".run_id=?2 AND " : " WHERE ") + table + ".step=?1");
    if (!rows) return rows.error();
    rows->Bind(1, step);
    if (run) rows->Bind(2, *run->handle.run_id);
    return rows;
  }
  int64_t RankOf(const Statement& row, int column) const {
    return run ? run->rank : row.IntOr(column, 0);
  }
};

Result<void> ReadFigures(const Of& of, RankStep& into) {
  MPN_TRY_ASSIGN(auto rows,
                 of.Prepare("SELECT l.name, f.what, f.holders, f.first, f.numel, f.nonfinite, "
                            "f.hash, f.l2, f.sketch_a, f.sketch_b, f.run_id FROM rank_figures f "
                            "JOIN layer l ON l.layer_id = f.layer_id AND l.run_id = f.run_id",
                            "f", into.step));
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    const int64_t what = rows.IntOr(1, -1);
    if (what < 0 || what >= static_cast<int64_t>(kMoments)) continue;
    into.tensors[rows.TextOr(0)][of.RankOf(rows, 10)].at[static_cast<size_t>(what)] =
        FigureOf(rows);
  }
}

Result<void> ReadCollectives(const Of& of, RankStep& into) {
  MPN_TRY_ASSIGN(
      auto rows,
      of.Prepare("SELECT c.sequence, c.operation, c.reduction, c.ranks, c.source, c.phase, l.name, "
                 "c.gradient, c.numel, c.nonfinite_in, c.nonfinite_out, c.hash_in, c.hash_out, "
                 "c.l2_in, c.l2_out, c.value_in, c.value_out, c.kept, c.run_id FROM collective c "
                 "LEFT JOIN layer l ON l.layer_id = c.layer_id AND l.run_id = c.run_id",
                 "c", into.step));
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    RankCollective call;
    call.rank = of.RankOf(rows, 18);
    call.sequence = rows.IntOr(0, 0);
    call.operation = rows.TextOr(1);
    call.reduction = rows.TextOr(2);
    call.ranks = rows.TextOr(3);
    call.source = rows.TextOr(4);
    call.phase = rows.TextOr(5);
    call.tensor = rows.TextOr(6);
    call.gradient = rows.IntOr(7, 0) != 0;
    call.numel = rows.IntOr(8, 0);
    call.nonfinite_in = rows.IntOr(9, 0);
    call.nonfinite_out = rows.IntOr(10, 0);
    call.hash_in = rows.IntOr(11, 0);
    call.hash_out = rows.IntOr(12, 0);
    call.l2_in = rows.Real(13);
    call.l2_out = rows.Real(14);
    call.value_in = rows.Real(15);
    call.value_out = rows.Real(16);
    call.kept = rows.Real(17);
    into.collectives.push_back(std::move(call));
  }
}

Result<void> ReadNorms(const Of& of, RankStep& into) {
  MPN_TRY_ASSIGN(auto rows, of.Prepare("SELECT substr(e.detail, 1, 4000), e.type, e.run_id FROM "
                                       "event e",
                                       "e", into.step));
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    if (rows.TextOr(1) != "gradient_norm") continue;
    const auto detail = ParseJson(rows.TextOr(0));
    if (!detail || !detail->is_object()) continue;
    const auto norm = detail->find("norm");
    if (norm != detail->end() && norm->is_number())
      into.norms.push_back({of.RankOf(rows, 2), norm->get<double>()});
  }
}

}  // namespace

const TensorFigure* RankTensor::Gradient(Moment last) const {
  for (int64_t moment = static_cast<int64_t>(last);
       moment >= static_cast<int64_t>(Moment::kDerived); --moment) {
    if (at[moment]) return &*at[moment];
  }
  return nullptr;
}

Result<std::vector<int64_t>> ComparedSteps(const Source& source) {
  std::vector<int64_t> steps;
  const Database& database = *source.database;
  if (!HasFigures(database)) return steps;
  // One seek a step: the table is clustered by it.
  MPN_TRY_ASSIGN(auto next, database.Prepare("SELECT min(step) FROM rank_figures WHERE run_id=?1 "
                                             "AND step > ?2"));
  int64_t last = INT64_MIN;
  while (true) {
    next.Reset();
    next.Bind(1, *source.run.handle.run_id).Bind(2, last);
    MPN_TRY_ASSIGN(auto row, next.Next());
    const std::optional<int64_t> step = row ? next.Int(0) : std::nullopt;
    if (!step) return steps;
    steps.push_back(last = *step);
  }
}

Result<RankStep> ReadRankStep(const Source& source, int64_t step) {
  RankStep found;
  found.step = step;
  const size_t parts = LiesInOne(source) ? 1 : PartsOf(source);
  for (size_t part = 0; part < parts; ++part) {
    const Of of{DatabaseOf(source, part), LiesInOne(source) ? nullptr : &RunOf(source, part)};
    if (!HasFigures(of.database)) continue;
    MPN_TRY(ReadFigures(of, found));
    MPN_TRY(ReadCollectives(of, found));
    MPN_TRY(ReadNorms(of, found));
  }
  std::stable_sort(found.collectives.begin(), found.collectives.end(),
                   [](const RankCollective& a, const RankCollective& b) {
                     return std::pair(a.rank, a.sequence) < std::pair(b.rank, b.sequence);
                   });
  return found;
}

Result<int64_t> CountRankRows(const Source& source, int64_t step) {
  MPN_TRY_ASSIGN(auto rows, source.database->Prepare("SELECT count(*) FROM rank_figures WHERE "
                                                     "run_id=?1 AND step=?2"));
  rows.Bind(1, *source.run.handle.run_id).Bind(2, step);
  MPN_TRY_ASSIGN(auto there, rows.Next());
  return there ? rows.IntOr(0, 0) * static_cast<int64_t>(PartsOf(source)) : 0;
}

}  // namespace mpnanny::runs
