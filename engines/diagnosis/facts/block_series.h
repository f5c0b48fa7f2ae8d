// A series of any length as a few hundred blocks, each with its mean and its ends.
//
// A value; memory does not grow with the series.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_BLOCK_SERIES_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_BLOCK_SERIES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mpnanny::diagnosis {

struct Block {
  int64_t first_step = 0, last_step = 0, count = 0;
  double mean = 0, low = 0, high = 0;

  void Take(const Block& next) {
    const auto both = static_cast<double>(count + next.count);
    mean += (next.mean - mean) * static_cast<double>(next.count) / both;
    low = std::min(low, next.low);
    high = std::max(high, next.high);
    count += next.count;
    last_step = next.last_step;
  }
};

class BlockSeries {
 public:
  // Values that are not finite are left out.
  void Add(int64_t step, double value) {
    if (!std::isfinite(value)) return;
    ++count_;
    const Block one{step, step, 1, value, value, value};
    if (!blocks_.empty() && blocks_.back().count < each_) {
      blocks_.back().Take(one);
      return;
    }
    if (blocks_.size() == kMost) Halve();
    blocks_.push_back(one);
  }

  const std::vector<Block>& blocks() const { return blocks_; }
  int64_t count() const { return count_; }

 private:
  void Halve() {
    for (size_t i = 0; i < kMost / 2; ++i) {
      blocks_[i] = blocks_[2 * i];
      blocks_[i].Take(blocks_[2 * i + 1]);
    }
    blocks_.resize(kMost / 2);
    each_ *= 2;
  }

  static constexpr size_t kMost = 512;
  std::vector<Block> blocks_;
  int64_t each_ = 1, count_ = 0;
};

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_BLOCK_SERIES_H_
