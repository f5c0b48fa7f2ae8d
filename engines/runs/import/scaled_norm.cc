#include "engines/runs/import/scaled_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "engines/runs/import/statement.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMoves = 3;  // fewer prove nothing
constexpr size_t kLevel = 8;  // norms on each side of a move that its level is the median of
constexpr size_t kMovesKept = 1000;
constexpr int64_t kStillLosses = 20;

struct Level {
  double scale = 0;
  std::vector<double> first, last;  // norms at its beginning and at its end
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Trainers that are told not to clip print a norm of 0. Beside a loss that never moves, to the last
// digit, a norm of 0 is the gradient's own.
bool DropZeroNorms(sqlite3* database) {
  {
    Writer row(database,
               "SELECT count(*), total(grad_norm<>0), max(loss)=min(loss) AND max(loss)<>0 FROM "
               "step WHERE run_id=1 AND grad_norm IS NOT NULL");
    if (!row.NextRow() || row.Int(0) < 3 || *row.Real(1) > 0) return false;
    if (row.Int(0) >= kStillLosses && row.Real(2).value_or(0) == 1) return false;
  }
  Writer drop(database, "UPDATE step SET grad_norm = NULL WHERE run_id=1");
  return drop.Run();
}

}  // namespace

void UnscaleNorms(sqlite3* database, std::vector<std::string>& notes) {
  if (DropZeroNorms(database)) {
    notes.push_back("The printed gradient norm is 0 throughout: it was not computed.");
    return;
  }
  Writer rows(database,
              "SELECT loss_scale, grad_norm FROM step WHERE run_id=1 AND loss_scale>0"
              " AND grad_norm>0 AND grad_norm<1e300 AND loss_scale<1e300 ORDER BY step");
  std::optional<Level> before, now;
  size_t moves = 0, follows = 0, stays = 0;
  const auto judge = [&] {
    if (!before || !now || moves >= kMovesKept) return;
    ++moves;
    const double scale = std::log2(now->scale / before->scale);
    const double norm = std::log2(Median(now->first) / Median(before->last));
    // Nearer to the scale's move than to none, by a good margin: norms scatter.
    if (std::fabs(norm - scale) < 0.3 * std::fabs(scale)) ++follows;
    if (std::fabs(norm) < 0.3 * std::fabs(scale)) ++stays;
  };
  while (rows.NextRow()) {
    const double scale = *rows.Real(0), norm = *rows.Real(1);
    if (!now || scale != now->scale) {
      judge();
      before = std::move(now);
      now = Level{scale, {}, {}};
    }
    if (now->first.size() < kLevel) now->first.push_back(norm);
    now->last.push_back(norm);
    if (now->last.size() > kLevel) now->last.erase(now->last.begin());
  }
  judge();
  if (moves < kMoves || follows * 4 < moves * 3 || stays * 4 > moves) return;
  Writer divide(database,
                "UPDATE step SET grad_norm = grad_norm / loss_scale WHERE run_id=1"
                " AND loss_scale>0 AND grad_norm IS NOT NULL");
  divide.Run();
  // Without a scale beside it a scaled norm says nothing.
  Writer drop(database,
              "UPDATE step SET grad_norm = NULL WHERE run_id=1 AND loss_scale IS NULL"
              " AND NOT flags & 4");
  drop.Run();
  notes.push_back("The printed gradient norm moves with the loss scale (at " +
                  std::to_string(follows) + " of " +
                  runs::Count(static_cast<int64_t>(moves), "move") +
                  "): it is the norm of scaled gradients. Here it is divided by the scale.");
}

}  // namespace mpnanny::imports
