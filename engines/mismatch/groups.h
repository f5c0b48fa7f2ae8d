// Groups of tokens over all calls of a run, and the contrast between two parts of them.
//
// Owns the merged groups; immutable once made.
#ifndef MPNANNY_ENGINES_MISMATCH_GROUPS_H_
#define MPNANNY_ENGINES_MISMATCH_GROUPS_H_

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engines/mismatch/finding.h"

namespace mpnanny::mismatch {

class MergedGroups {
 public:
  struct Group {
    int64_t from = 0, tokens = 0;
    double squares = 0;  // Σd²
    double exposed = 0;  // Σ(1 − p)²
    double Rms() const;
    double Exposure() const;
    double LogitError() const { return Exposure() > 0 ? Rms() / Exposure() : 0; }
  };

  explicit MergedGroups(std::span<const Call> calls);

  const std::vector<Group>& By(MismatchBy by) const { return groups_[static_cast<size_t>(by)]; }

  // Groups for which `loud` is true against the others. Nothing where a side has fewer than
  // `fewest` tokens.
  std::optional<Contrast> Between(MismatchBy by, const std::function<bool(int64_t from)>& loud,
                                  int64_t fewest = 8) const;

  // The split by which the groups from one value on are loudest beside those before it.
  struct Split {
    int64_t from = 0;
    Contrast contrast;
  };
  std::optional<Split> BestSplit(MismatchBy by, int64_t fewest = 16) const;

  // Rank correlation (Spearman) of the groups' values and their errors of a logit, −1 … 1; 0 for
  // fewer than 4.
  double Trend(MismatchBy by) const;

 private:
  std::array<std::vector<Group>, kMismatchGroupings> groups_;
};

// Spearman's rank correlation of `values` with their order.
double TrendOf(std::span<const double> values);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_GROUPS_H_
