// Which ranks' tensors are compared, and whether they are the same, a multiple, or a sum.
//
// Pure functions over one step's figures.
#ifndef MPNANNY_ENGINES_RANKS_SAME_H_
#define MPNANNY_ENGINES_RANKS_SAME_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engines/runs/rank_figures.h"

namespace mpnanny::ranks {

using runs::Moment;
using runs::RankTensor;
using runs::TensorFigure;
using ByRank = std::map<int64_t, RankTensor>;

// One rank's part of a comparison.
struct Part {
  int64_t rank = 0;
  const RankTensor* tensor = nullptr;
};
using Parts = std::vector<Part>;

// The ranks that hold the same part, as the program says: one list for each part that two ranks or
// more hold. Empty where the program says nothing.
std::vector<Parts> ClaimedParts(const ByRank& tensor);
// All ranks; empty where they are fewer than two or not of one size.
Parts AllParts(const ByRank& tensor);
// Whether it is a part of a tensor that is spread over ranks.
bool IsSharded(const ByRank& tensor);

// Whether all parts have the moment, and the same bits; absent where one lacks it.
std::optional<bool> AreSame(const Parts& parts, Moment moment);
// The same of the newest gradient.
std::optional<bool> AreGradientsSame(const Parts& parts, Moment last = Moment::kUsed);
// Ranks whose bits are not those that most have: of two, the second.
std::vector<int64_t> Outliers(const Parts& parts, Moment moment);

// The factor c of value = c · of, told by norm and sketch within kMultiple; absent: no multiple.
inline constexpr double kMultiple = 0.02;
std::optional<double> FactorOf(const TensorFigure& value, const TensorFigure& of);

// Whether the optimizer's gradient is what the rank itself had derived, scaled or not.
std::optional<double> OwnFactor(const RankTensor& tensor);

// Whether the gradient was put together from different ones of the ranks, and is the same since.
bool IsReduced(const Parts& parts);

std::vector<int64_t> RanksOf(const Parts& parts);

}  // namespace mpnanny::ranks

#endif  // MPNANNY_ENGINES_RANKS_SAME_H_
