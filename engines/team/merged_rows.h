// The steps of a training, each once, merged over its ranks as engines/runs/step_cursor.h merges
// those of files: what a writer has merged into step_all, and the steps after that.
//
// A free function without state.
#ifndef MPNANNY_ENGINES_TEAM_MERGED_ROWS_H_
#define MPNANNY_ENGINES_TEAM_MERGED_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace mpnanny::team {

// The columns of step_all behind the step, from rows of `step` that are called s, with their rank,
// grouped by step. The loss is the mean of the finite ones, and not finite where a rank's was not;
// rate, scale and the scale's moves are the first rank's that knows them; the others are the
// largest; flags say what any rank saw.
inline constexpr char kMergedFigures[] = R"(max(s.at) AS at, max(s.duration) AS duration,
  CASE WHEN bool_or(s.loss IS NULL AND s.flags & 1 <> 0) THEN 'NaN'::float8
       WHEN bool_or(s.loss IS NULL AND s.flags & 3 = 2) THEN 'Infinity'::float8
       ELSE avg(s.loss) END AS loss,
  (array_agg(s.lr ORDER BY s.rank) FILTER (WHERE s.lr IS NOT NULL))[1] AS lr,
  (array_agg(s.loss_scale ORDER BY s.rank) FILTER (WHERE s.loss_scale IS NOT NULL))[1]
    AS loss_scale,
  CASE WHEN bool_or(s.grad_norm IS NULL AND s.flags & 4 <> 0) THEN 'NaN'::float8
       ELSE max(s.grad_norm) END AS grad_norm,
  max(s.peak_memory) AS peak_memory,
  CASE WHEN bool_or(s.loss_scale IS NOT NULL)
       THEN bit_or(s.flags) & ~48::bigint
            | (array_agg(s.flags & 48 ORDER BY s.rank) FILTER (WHERE s.loss_scale IS NOT NULL))[1]
       ELSE bit_or(s.flags) END AS flags,
  count(*)::integer AS ranks,
  coalesce(array_agg(s.rank ORDER BY s.rank) FILTER (WHERE s.flags & 3 <> 0),
           array_agg(s.rank ORDER BY s.rank) FILTER (WHERE s.flags & 4 <> 0)) AS bad_ranks)";

// A SELECT with the columns of step_all; bad_ranks as text, "3,5". `merged_to`: the last step up to
// which step_all is whole. `all`: there are no steps after that.
std::string MergedRows(int64_t training, std::optional<int64_t> merged_to, bool all);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_MERGED_ROWS_H_
