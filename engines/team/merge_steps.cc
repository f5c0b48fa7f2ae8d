#include "engines/team/merge_steps.h"

#include <algorithm>
#include <optional>
#include <string>

#include "engines/team/merged_rows.h"

namespace mpnanny::team {
namespace {

constexpr int64_t kRowsAtOnce = 1'000'000;  // of all ranks

std::string MergeStatement() {
  return std::string(R"(
INSERT INTO mpnanny.step_all AS a (training_id, step, at, duration, loss, lr, loss_scale, grad_norm,
  peak_memory, flags, ranks, bad_ranks)
SELECT $1::bigint, s.step, )") +
         kMergedFigures + R"(
FROM (SELECT p.rank, r.*
      FROM mpnanny.part p CROSS JOIN LATERAL
        (SELECT step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags
         FROM mpnanny.step WHERE training_id = $1::bigint AND rank = p.rank
           AND step > $2::bigint AND step <= $3::bigint) r
      WHERE p.training_id = $1::bigint) s
GROUP BY s.step
ON CONFLICT (training_id, step) DO UPDATE SET at = excluded.at, duration = excluded.duration,
  loss = excluded.loss, lr = excluded.lr, loss_scale = excluded.loss_scale,
  grad_norm = excluded.grad_norm, peak_memory = excluded.peak_memory, flags = excluded.flags,
  ranks = excluded.ranks, bad_ranks = excluded.bad_ranks)";
}

struct Range {
  bool ours = false;  // the training's row is locked by us
  std::optional<int64_t> from, to;
  int64_t ranks = 0;
};

Result<Range> RangeOf(Connection& connection, int64_t training, double at_most_every) {
  Range range;
  MPN_TRY_ASSIGN(auto rows,
                 connection.Query(
                     "SELECT t.merged_to, (SELECT CASE WHEN bool_or(NOT p.ended AND p.steps_to IS "
                     "NULL) THEN NULL WHEN bool_and(p.ended) THEN max(p.steps_to) ELSE "
                     "min(p.steps_to) FILTER (WHERE NOT p.ended) END FROM mpnanny.part p WHERE "
                     "p.training_id = t.training_id), (SELECT count(*) FROM mpnanny.part p WHERE "
                     "p.training_id = t.training_id) FROM mpnanny.training t WHERE t.training_id = "
                     "$1 AND coalesce(t.merged_at, 0) <= extract(epoch FROM clock_timestamp()) - "
                     "$2::float8 FOR UPDATE SKIP LOCKED",
                     {training, at_most_every}));
  MPN_TRY_ASSIGN(auto next, rows.Next());
  if (!next) return range;
  range = {true, rows.Int(0), rows.Int(1), rows.IntOr(2, 1)};
  MPN_TRY_ASSIGN(auto end, rows.Next());
  (void)end;
  return range;
}

// The end of a part of the range that is not too much at once.
Result<int64_t> EndOfPart(Connection& connection, int64_t training, const Range& range) {
  const int64_t steps = std::max<int64_t>(1, kRowsAtOnce / std::max<int64_t>(1, range.ranks));
  MPN_TRY_ASSIGN(auto rows,
                 connection.Query(
                     "SELECT s.step FROM mpnanny.step s WHERE s.training_id = $1 AND s.rank = "
                     "(SELECT min(rank) FROM mpnanny.part WHERE training_id = $1) AND s.step > "
                     "coalesce($2::bigint, -9223372036854775808) AND s.step <= $3::bigint ORDER BY "
                     "s.step OFFSET $4::bigint LIMIT 1",
                     {training, range.from ? Value(*range.from) : Value(), *range.to, steps}));
  MPN_TRY_ASSIGN(auto next, rows.Next());
  const int64_t end = next ? rows.IntOr(0, *range.to) : *range.to;
  if (next) {
    MPN_TRY_ASSIGN(auto last, rows.Next());
    (void)last;
  }
  return end;
}

// True if more is left.
Result<bool> MergePart(Connection& connection, int64_t training, double at_most_every) {
  MPN_TRY_ASSIGN(Range range, RangeOf(connection, training, at_most_every));
  if (!range.ours || !range.to || (range.from && *range.from >= *range.to)) return false;
  MPN_TRY_ASSIGN(const int64_t end, EndOfPart(connection, training, range));
  MPN_TRY(connection.Execute(MergeStatement(), {training, range.from.value_or(INT64_MIN), end}));
  MPN_TRY(connection.Execute(
      "UPDATE mpnanny.training SET merged_to = $2::bigint, merged_at = extract(epoch FROM "
      "clock_timestamp()) WHERE training_id = $1",
      {training, end}));
  return end < *range.to;
}

}  // namespace

Result<void> MergeSteps(Connection& connection, int64_t training, double at_most_every) {
  while (true) {
    MPN_TRY(connection.Execute("BEGIN"));
    auto more = MergePart(connection, training, at_most_every);
    const bool kept = more.has_value();
    if (!kept && !connection.alive()) return more.error();
    auto over = connection.Execute(kept ? "COMMIT" : "ROLLBACK");
    if (!kept) return more.error();
    if (!over) return over.error();
    if (!*more) return {};
    at_most_every = 0;  // it is us who merged just now
  }
}

}  // namespace mpnanny::team
