// The last so many values of a series that is read once, side by side in memory: means, medians and
// extremes are taken of them at every step of a run.
//
// Plain value; pushing costs the same however long the series is.
#ifndef MPNANNY_ENGINES_RUNS_LAST_VALUES_H_
#define MPNANNY_ENGINES_RUNS_LAST_VALUES_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace mpnanny::runs {

class LastValues {
 public:
  explicit LastValues(size_t most) : most_(most) {}

  void Push(double value) {
    // Twice the room: old values are moved out once in `most` pushes.
    if (values_.size() == 2 * most_) {
      values_.erase(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(most_ + 1));
    }
    values_.push_back(value);
  }

  size_t size() const { return std::min(values_.size(), most_); }
  // All of them, or the newest `count`; the newest stands last.
  std::span<const double> All() const { return Last(most_); }
  std::span<const double> Last(size_t count) const {
    return std::span(values_).last(std::min(count, size()));
  }

 private:
  size_t most_;
  std::vector<double> values_;
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_LAST_VALUES_H_
