#include "engines/team/merged_rows.h"

namespace mpnanny::team {

std::string MergedRows(int64_t training, std::optional<int64_t> merged_to, bool all) {
  const std::string id = std::to_string(training);
  const std::string to = merged_to ? std::to_string(*merged_to) : "";
  std::string rows =
      "SELECT step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags, "
      "array_to_string(bad_ranks, ',') AS bad_ranks FROM mpnanny.step_all WHERE training_id = " +
      id + (merged_to ? " AND step <= " + to : " AND false");
  if (all) return rows;
  // Each rank by itself, since a key begins with the rank: what was merged is not read again.
  const std::string after = merged_to ? " AND s.step > " + to : "";
  rows +=
      " UNION ALL SELECT step, max(at), max(duration),"
      " CASE WHEN bool_or(loss IS NULL AND flags & 3 <> 0) THEN NULL ELSE avg(loss) END,"
      " (array_agg(lr ORDER BY rank) FILTER (WHERE lr IS NOT NULL))[1],"
      " (array_agg(loss_scale ORDER BY rank) FILTER (WHERE loss_scale IS NOT NULL))[1],"
      " CASE WHEN bool_or(grad_norm IS NULL AND flags & 4 <> 0) THEN NULL ELSE max(grad_norm) END,"
      " max(peak_memory),"
      " CASE WHEN count(loss_scale) = 0 THEN bit_or(flags) ELSE bit_or(flags) & ~48::bigint |"
      " (array_agg(flags & 48 ORDER BY rank) FILTER (WHERE loss_scale IS NOT NULL))[1] END,"
      " array_to_string(coalesce(array_agg(rank ORDER BY rank) FILTER (WHERE flags & 3 <> 0),"
      " array_agg(rank ORDER BY rank) FILTER (WHERE flags & 4 <> 0)), ',')"
      " FROM (SELECT p.rank, s.step, s.at, s.duration, s.loss, s.lr, s.loss_scale, s.grad_norm,"
      " s.peak_memory, s.flags FROM mpnanny.part p JOIN mpnanny.step s ON s.training_id = " +
      id + " AND s.rank = p.rank" + after + " WHERE p.training_id = " + id +
      (merged_to ? " AND p.steps_to > " + to : "") + ") AS each GROUP BY step";
  return rows;
}

}  // namespace mpnanny::team
