#include "engines/team/merge_steps.h"

#include <algorithm>
#include <optional>
#include <string>

namespace mpnanny::team {
namespace {

constexpr int64_t kRowsAtOnce = 1'000'000;  // of all ranks

// As engines/runs/step_cursor.cc merges: the loss is the mean of the finite ones, and not finite
// where a rank's was not; rate, scale and the scale's moves are the first rank's that knows them;
// the others are the largest; flags say what any rank saw.
constexpr char kMerge[] = R"(
INSERT INTO mpnanny.step_all AS a (training_id, step, at, duration, loss, lr, loss_scale, grad_norm,
  peak_memory, flags, ranks, bad_ranks)
SELECT $1::bigint, s.step, max(s.at), max(s.duration),
  CASE WHEN bool_or(s.loss_nan) THEN 'NaN'::float8 WHEN bool_or(s.loss_inf) THEN 'Infinity'::float8
       ELSE avg(s.loss) END,
  (array_agg(s.lr ORDER BY s.rank) FILTER (WHERE s.lr IS NOT NULL))[1],
  (array_agg(s.loss_scale ORDER BY s.rank) FILTER (WHERE s.loss_scale IS NOT NULL))[1],
  CASE WHEN bool_or(s.grad_norm IS NULL AND s.flags & 4 <> 0) THEN 'NaN'::float8
       ELSE max(s.grad_norm) END,
  max(s.peak_memory),
  CASE WHEN bool_or(s.loss_scale IS NOT NULL)
       THEN bit_or(s.flags) & ~48::bigint
            | (array_agg(s.flags & 48 ORDER BY s.rank) FILTER (WHERE s.loss_scale IS NOT NULL))[1]
       ELSE bit_or(s.flags) END,
  count(*),
  coalesce(array_agg(s.rank ORDER BY s.rank) FILTER (WHERE s.flags & 3 <> 0),
           array_agg(s.rank ORDER BY s.rank) FILTER (WHERE s.flags & 4 <> 0))
FROM (SELECT p.rank, r.*, r.loss IS NULL AND r.flags & 1 <> 0 AS loss_nan,
             r.loss IS NULL AND r.flags & 3 = 2 AS loss_inf
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
  MPN_TRY(connection.Execute(kMerge, {training, range.from.value_or(INT64_MIN), end}));
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
