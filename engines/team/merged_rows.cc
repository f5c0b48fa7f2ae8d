#include "engines/team/merged_rows.h"

namespace mpnanny::team {

std::string MergedRows(int64_t training, std::optional<int64_t> merged_to, bool all) {
  const std::string id = std::to_string(training);
  const std::string to = merged_to ? std::to_string(*merged_to) : "";
  std::string rows =
      "SELECT step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags, "
      "array_to_string(bad_ranks, ',') AS bad_ranks FROM (SELECT step, at, duration, loss, lr, "
      "loss_scale, grad_norm, peak_memory, flags, ranks, bad_ranks FROM mpnanny.step_all "
      "WHERE training_id = " +
      id + (merged_to ? " AND step <= " + to : " AND false");
  if (!all) {
    // Each rank by itself, since a key begins with the rank: what was merged is not read again.
    rows += std::string(" UNION ALL SELECT s.step, ") + kMergedFigures +
            " FROM (SELECT p.rank, r.step, r.at, r.duration, r.loss, r.lr, r.loss_scale, "
            "r.grad_norm, r.peak_memory, r.flags FROM mpnanny.part p JOIN mpnanny.step r "
            "ON r.training_id = " +
            id + " AND r.rank = p.rank" + (merged_to ? " AND r.step > " + to : "") +
            " WHERE p.training_id = " + id + (merged_to ? " AND p.steps_to > " + to : "") +
            ") AS s GROUP BY s.step";
  }
  return rows + ") AS steps";
}

}  // namespace mpnanny::team
