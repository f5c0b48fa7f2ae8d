#include "engines/worker/diff/operator_errors.h"

#include <algorithm>
#include <cmath>

#include "engines/judgement/comparison.h"
#include "engines/worker/diff/comparison.h"

namespace mpnanny::worker {

using judgement::ErrorOf;

void OperatorErrors::Add(int place, const Called& call, size_t index, const ReferenceError& found,
                         bool noise) {
  Row& row = rows_[place];
  if (row.count == 0) {
    row.site = call.node.site;
    row.number = call.number;
  }
  row.count += index == 0 ? 1 : 0;
  row.nonfinite += found.range;
  row.absmax = std::max(row.absmax, found.max_held);
  if (found.integers && found.numel >= kFewestWhole) {
    row.wrong_whole = std::max(row.wrong_whole, static_cast<double>(found.wrong_integers) /
                                                    static_cast<double>(found.numel));
  }
  const double error = ErrorOf(found);
  if (!noise && std::isfinite(error)) row.accumulated = std::max(row.accumulated, error);
  const auto own = Compare(call.made[index].held, call.made[index].exact);
  if (!own || noise || own->nonfinite() > 0) return;
  const double local = ErrorOf(*own);
  if (!std::isfinite(local)) return;
  row.local = std::max(row.local, local);
  row.squared_local += local * local;
}

std::vector<Row> OperatorErrors::Rows() const {
  std::vector<Row> rows;
  for (const auto& [place, row] : rows_) rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.number < b.number; });
  return rows;
}

}  // namespace mpnanny::worker
