// Rows that ranks of one training are compared by: rank_figures and collective.
#include "monitor/core/binder.h"
#include "monitor/core/database.h"

namespace mpnanny {
namespace {

// SQLite's integers have a sign.
int64_t Signed(uint64_t hash) { return static_cast<int64_t>(hash); }

}  // namespace

Result<void> RunDatabase::Insert(const RankFigureRow& row) {
  MPN_TRY_ASSIGN(auto insert,
                 Prepared("INSERT OR REPLACE INTO rank_figures (run_id, step, layer_id, what, "
                          "holders, first, numel, nonfinite, hash, l2, sketch_a, sketch_b) VALUES "
                          "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  Binder(insert)
      .Add(run_id_)
      .Add(row.step)
      .Add(LayerId(row.layer))
      .Add(row.what)
      .OrNull(row.holders)
      .Add(row.first)
      .Add(row.figures.numel)
      .Add(row.figures.nonfinite)
      .Add(Signed(row.figures.hash))
      .Add(std::sqrt(row.figures.squares))
      .Add(row.figures.sketch[0])
      .Add(row.figures.sketch[1]);
  return Step(insert);
}

Result<void> RunDatabase::Insert(const CollectiveRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared("INSERT OR REPLACE INTO collective (run_id, step, sequence, operation, reduction, "
               "ranks, source, phase, layer_id, gradient, numel, nonfinite_in, nonfinite_out, "
               "hash_in, hash_out, l2_in, l2_out, value_in, value_out, kept) VALUES (?, ?, ?, ?, "
               "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  Binder bind(insert);
  bind.Add(run_id_)
      .Add(row.step)
      .Add(row.sequence)
      .Add(row.operation)
      .OrNull(row.reduction)
      .OrNull(row.ranks)
      .OrNull(row.source)
      .OrNull(row.phase);
  row.layer ? bind.Add(LayerId(*row.layer)) : bind.Null();
  row.gradient ? bind.Add(int64_t{1}) : bind.Null();
  bind.Add(row.in.numel)
      .Add(row.in.nonfinite)
      .Add(row.out.nonfinite)
      .Add(Signed(row.in.hash))
      .Add(Signed(row.out.hash))
      .Add(std::sqrt(row.in.squares))
      .Add(std::sqrt(row.out.squares))
      .Add(row.value_in)
      .Add(row.value_out)
      .Add(row.kept);
  return Step(insert);
}

}  // namespace mpnanny
