#include "numerics/logprob_mismatch.h"

#include <algorithm>
#include <map>
#include <optional>

#include "numerics/format.h"
#include "numerics/tensor_view.h"

namespace mpnanny {
namespace {

constexpr size_t kWorstTokens = 4;
constexpr double kLeastExposure = 0.1;  // of a row: below it says little of its logits
constexpr int64_t kFewestPairs = 16;    // of neighbours, before a shift is compared
// The fit of a temperature reads so many tokens, evenly taken: its cost is bounded.
constexpr size_t kMostFitted = 2048;
constexpr double kLeastTemperature = 0.2, kMostTemperature = 5;

struct Token {
  double trainer = 0, rollout = 0;
  double Difference() const { return trainer - rollout; }
  double Exposed() const { return -std::expm1(rollout); }
};

// One token's place among the others.
struct Place {
  int64_t position = 0, answer = 0, document = 0, answer_start = 0, padding = 0;
  std::optional<int64_t> after_boundary;
};

// Of what a caller gives as numbers; -1 where it is no whole number that fits.
int64_t WholeOf(double value) {
  return std::fabs(value) < 0x1p62 ? static_cast<int64_t>(value) : -1;
}

// Groups grow by halves of octaves: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 …
int64_t GroupOf(int64_t value) {
  if (value < 4) return std::max<int64_t>(value, 0);
  int64_t octave = 4;
  while (octave <= value / 2) octave *= 2;
  return value >= octave + octave / 2 ? octave + octave / 2 : octave;
}

int64_t ProbabilityGroup(double rollout) {
  const double p = std::exp(rollout);
  int64_t group = 0;
  while (group + 1 < static_cast<int64_t>(kProbabilityEdges.size()) &&
         p >= kProbabilityEdges[group + 1]) {
    ++group;
  }
  return group;
}

// Of values that are not sorted, one at least; they are afterwards not in their order.
double QuantileOf(std::vector<double>& values, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

class Groups {
 public:
  void Add(MismatchBy by, int64_t from, double difference, double exposed) {
    Held& held = held_[{static_cast<int64_t>(by), from}];
    held.exposed += exposed * exposed;
    held.sum += difference;
    held.squares += difference * difference;
    held.magnitudes.push_back(std::fabs(difference));
  }

  std::vector<MismatchGroup> Take() {
    std::vector<MismatchGroup> groups;
    for (auto& [key, held] : held_) {
      const auto count = static_cast<double>(held.magnitudes.size());
      MismatchGroup group;
      group.by = static_cast<MismatchBy>(key.first);
      group.from = key.second;
      group.tokens = static_cast<int64_t>(held.magnitudes.size());
      group.mean = held.sum / count;
      group.rms = std::sqrt(held.squares / count);
      group.exposure = std::sqrt(held.exposed / count);
      group.largest = *std::max_element(held.magnitudes.begin(), held.magnitudes.end());
      group.median = QuantileOf(held.magnitudes, 0.5);
      groups.push_back(group);
    }
    return groups;
  }

 private:
  struct Held {
    double sum = 0, squares = 0, exposed = 0;
    std::vector<double> magnitudes;
  };
  std::map<std::pair<int64_t, int64_t>, Held> held_;
};

bool OnGrid(Format format, double value) { return RoundTo(format, value) == value; }

// Whose grid holds all values: BF16's, FP16's or none. Zero and powers of two lie on every grid, so
// few values of one bit say nothing: `telling` counts those that a grid might have missed.
class GridTest {
 public:
  void Add(double value) {
    bf16_ = bf16_ && OnGrid(Format::kBf16, value);
    fp16_ = fp16_ && OnGrid(Format::kFp16, value);
    int exponent = 0;
    if (std::frexp(std::fabs(value), &exponent) != 0.5 && value != 0) ++telling_;
  }
  int64_t Found() const {
    constexpr int64_t kFewestTelling = 16;  // by chance: 2^-13 each, at the most
    if (telling_ < kFewestTelling) return 0;
    return static_cast<int64_t>(bf16_   ? DType::kBFloat16
                                : fp16_ ? DType::kFloat16
                                        : DType::kUnknown);
  }

 private:
  bool bf16_ = true, fp16_ = true;
  int64_t telling_ = 0;
};

class Comparison {
 public:
  explicit Comparison(const LogprobPair& pair) : pair_(pair) {}

  LogprobMismatch Run() {
    FindPaddingToken();
    for (int64_t row = 0; row < pair_.rows; ++row) Row(row);
    found_.tokens = static_cast<int64_t>(counted_.size());
    if (counted_.empty()) return std::move(found_);
    Sums();
    Quantiles();
    Shifts();
    FitTemperature();
    found_.groups = groups_.Take();
    found_.trainer_grid = trainer_grid_.Found();
    found_.rollout_grid = rollout_grid_.Found();
    return std::move(found_);
  }

 private:
  double At(std::span<const double> values, int64_t index, double otherwise) const {
    return values.empty() ? otherwise : values[static_cast<size_t>(index)];
  }

  // Tokens at the beginning of `row` that are `token` and do not count.
  int64_t Leading(int64_t row, double token) const {
    const int64_t first = row * pair_.length;
    int64_t place = 0;
    while (place < pair_.length && pair_.token[first + place] == token &&
           At(pair_.mask, first + place, 0) == 0) {
      ++place;
    }
    return place;
  }

  // The id with which most of the rows begin that begin with one twice.
  void FindPaddingToken() {
    if (pair_.token.empty() || pair_.length == 0) return;
    std::map<double, int64_t> rows;
    for (int64_t row = 0; row < pair_.rows; ++row) {
      const double token = pair_.token[row * pair_.length];
      if (Leading(row, token) >= 2) ++rows[token];
    }
    const auto most = std::max_element(
        rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != rows.end()) padding_ = most->first;
  }

  // True if another document begins at `index`, the `place`-th of its row.
  bool Begins(int64_t index, int64_t place) const {
    if (place == 0) return false;
    if (!pair_.document.empty()) return pair_.document[index] != pair_.document[index - 1];
    return !pair_.position.empty() && pair_.position[index] < pair_.position[index - 1];
  }

  void Row(int64_t row) {
    Place at;
    if (padding_) at.padding = Leading(row, *padding_);
    int64_t began = 0;
    std::optional<int64_t> answer_start;
    double squares = 0, exposed = 0;
    int64_t tokens = 0;
    std::optional<Token> before;
    for (int64_t place = 0; place < pair_.length; ++place) {
      const int64_t index = row * pair_.length + place;
      if (Begins(index, place)) {
        ++at.document;
        at.answer = 0;
        began = place;
      }
      if (At(pair_.mask, index, 1) == 0) {
        before.reset();
        continue;
      }
      if (!answer_start) answer_start = place;
      const Token token{pair_.trainer[index], pair_.rollout[index]};
      at.position = WholeOf(At(pair_.position, index, static_cast<double>(place - began)));
      at.answer_start = *answer_start;
      at.after_boundary = at.document > 0 ? std::optional(place - began) : std::nullopt;
      const bool finite = std::isfinite(token.trainer) && std::isfinite(token.rollout);
      if (finite) {
        Count(row, place, index, token, at);
        squares += token.Difference() * token.Difference();
        exposed += token.Exposed() * token.Exposed();
        ++tokens;
        if (before) Neighbours(*before, token);
        before = token;
      } else {
        found_.bad_trainer += !std::isfinite(token.trainer);
        found_.bad_rollout += !std::isfinite(token.rollout);
        before.reset();
      }
      ++at.answer;
    }
    if (exposed > kLeastExposure * kLeastExposure * static_cast<double>(tokens))
      row_errors_.push_back(std::sqrt(squares / exposed));
  }

  void Count(int64_t row, int64_t place, int64_t index, const Token& token, const Place& at) {
    const double d = token.Difference(), exposed = token.Exposed();
    counted_.push_back(token);
    groups_.Add(MismatchBy::kPosition, GroupOf(at.position), d, exposed);
    groups_.Add(MismatchBy::kAnswer, GroupOf(at.answer), d, exposed);
    groups_.Add(MismatchBy::kDocument, GroupOf(at.document), d, exposed);
    groups_.Add(MismatchBy::kAnswerStart, GroupOf(at.answer_start), d, exposed);
    groups_.Add(MismatchBy::kProbability, ProbabilityGroup(token.rollout), d, exposed);
    if (padding_) groups_.Add(MismatchBy::kPadding, GroupOf(at.padding), d, exposed);
    if (at.after_boundary)
      groups_.Add(MismatchBy::kAfterBoundary, GroupOf(*at.after_boundary), d, exposed);
    if (!pair_.experts_differ.empty()) {
      groups_.Add(MismatchBy::kExperts, pair_.experts_differ[index] != 0, d, exposed);
      if (place > 0)
        groups_.Add(MismatchBy::kExpertsBefore, pair_.experts_differ[index - 1] != 0, d, exposed);
    }
    trainer_grid_.Add(token.trainer);
    rollout_grid_.Add(token.rollout);
    KeepIfWorst({row, place, WholeOf(At(pair_.token, index, -1)), token.trainer, token.rollout});
  }

  void KeepIfWorst(const MismatchToken& token) {
    auto& worst = found_.worst;
    const auto far = [](const MismatchToken& t) { return std::fabs(t.trainer - t.rollout); };
    if (worst.size() == kWorstTokens && far(worst.back()) >= far(token)) return;
    worst.insert(std::upper_bound(worst.begin(), worst.end(), token,
                                  [&](const auto& a, const auto& b) { return far(a) > far(b); }),
                 token);
    if (worst.size() > kWorstTokens) worst.pop_back();
  }

  void Neighbours(const Token& first, const Token& second) {
    ++pairs_;
    const double before = second.trainer - first.rollout, after = first.trainer - second.rollout;
    squares_before_ += before * before;
    squares_after_ += after * after;
  }

  void Sums() {
    const auto count = static_cast<double>(counted_.size());
    double sum = 0, sum_abs = 0, squares = 0, k3 = 0, trainer = 0, rollout = 0, exposed = 0;
    int64_t beyond = 0, equal = 0, positive = 0;
    for (const Token& token : counted_) {
      const double d = token.Difference(), hidden = token.Exposed();
      sum += d;
      sum_abs += std::fabs(d);
      squares += d * d;
      k3 += std::expm1(d) - d;
      trainer += token.trainer;
      rollout += token.rollout;
      exposed += hidden * hidden;
      beyond += std::fabs(d) > kFarLogRatio;
      equal += d == 0;
      positive += d > 0;
    }
    found_.mean = sum / count;
    found_.mean_abs = sum_abs / count;
    found_.rms = std::sqrt(squares / count);
    found_.k3 = k3 / count;
    found_.trainer = trainer / count;
    found_.rollout = rollout / count;
    found_.exposure = std::sqrt(exposed / count);
    found_.beyond = static_cast<double>(beyond) / count;
    found_.equal = static_cast<double>(equal) / count;
    const int64_t unequal = found_.tokens - equal;
    found_.positive =
        unequal > 0 ? static_cast<double>(positive) / static_cast<double>(unequal) : 0;
  }

  void Quantiles() {
    std::vector<double> magnitudes;
    magnitudes.reserve(counted_.size());
    for (const Token& token : counted_) magnitudes.push_back(std::fabs(token.Difference()));
    found_.median = QuantileOf(magnitudes, 0.5);
    found_.p99 = QuantileOf(magnitudes, 0.99);
    found_.p999 = QuantileOf(magnitudes, 0.999);
    found_.largest = QuantileOf(magnitudes, 1);
    found_.rows = static_cast<int64_t>(row_errors_.size());
    if (row_errors_.empty()) return;
    found_.row_least = QuantileOf(row_errors_, 0);
    found_.row_median = QuantileOf(row_errors_, 0.5);
    found_.row_largest = QuantileOf(row_errors_, 1);
  }

  void Shifts() {
    if (pairs_ < kFewestPairs) return;
    found_.rms_before = std::sqrt(squares_before_ / static_cast<double>(pairs_));
    found_.rms_after = std::sqrt(squares_after_ / static_cast<double>(pairs_));
  }

  double RestAt(double temperature, double others) const {
    double squares = 0;
    for (const Token& token : fitted_) {
      const double rest = AtTemperature(token.trainer, temperature, others) - token.rollout;
      squares += rest * rest;
    }
    return squares;
  }

  void FitTemperature() {
    const size_t stride = (counted_.size() + kMostFitted - 1) / kMostFitted;
    for (size_t i = 0; i < counted_.size(); i += stride) {
      if (counted_[i].trainer <= 0 && counted_[i].rollout <= 0) fitted_.push_back(counted_[i]);
    }
    if (fitted_.empty()) return;
    double best = RestAt(1, 1);
    found_.temperature = 1;
    constexpr double kFiner = 1.08;  // the grid's step
    for (const double others : {1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 10000.0}) {
      for (double at = kLeastTemperature; at <= kMostTemperature; at *= kFiner)
        Try(at, others, best);
    }
    const double around = found_.temperature;
    for (double at = around / kFiner; at <= around * kFiner; at *= 1.005) Try(at, others_, best);
    found_.temperature_rest = std::sqrt(best / static_cast<double>(fitted_.size()));
  }

  void Try(double temperature, double others, double& best) {
    const double rest = RestAt(temperature, others);
    if (!(rest < best)) return;
    best = rest;
    found_.temperature = temperature;
    others_ = others;
  }

  const LogprobPair& pair_;
  std::optional<double> padding_;  // the id of padding, where rows begin with it
  LogprobMismatch found_;
  std::vector<Token> counted_, fitted_;
  std::vector<double> row_errors_;
  Groups groups_;
  GridTest trainer_grid_, rollout_grid_;
  double squares_before_ = 0, squares_after_ = 0, others_ = 1;
  int64_t pairs_ = 0;
};

}  // namespace

double AtTemperature(double logprob, double temperature, double others) {
  const double own = logprob / temperature;
  // ln of what is left for all others together, and of that at the temperature.
  const double rest = std::log(-std::expm1(logprob));
  if (!std::isfinite(rest)) return logprob;  // nothing is left: it stays certain
  const double together = rest / temperature + std::log(others) * (1 - 1 / temperature);
  const double larger = std::max(own, together);
  return own - larger - std::log(std::exp(own - larger) + std::exp(together - larger));
}

LogprobMismatch CompareLogprobs(const LogprobPair& pair) { return Comparison(pair).Run(); }

}  // namespace mpnanny
