// What two programs that should give the same log-probabilities to the same tokens differ by: a
// trainer and the engine that sampled the tokens, or any other two.
//
// d = log p(trainer) − log p(rollout) of a token, natural logarithms. The tokens were drawn from
// the rollout's policy, so mean(−d) (k1) and mean(exp(d) − 1 − d) (k3) estimate KL(rollout ‖
// trainer) (Schulman 2020, "Approximating KL divergence"). Pure functions on borrowed memory; safe
// from any thread.
#ifndef MPNANNY_NUMERICS_LOGPROB_MISMATCH_H_
#define MPNANNY_NUMERICS_LOGPROB_MISMATCH_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace mpnanny {

// Rows of `length` tokens each, one row after the other. An empty span: not given.
struct LogprobPair {
  int64_t rows = 0, length = 0;
  std::span<const double> trainer, rollout;
  std::span<const double> mask;            // not zero: the token counts (it was sampled)
  std::span<const double> position;        // of the token in its document
  std::span<const double> document;        // changes where another document of the row begins
  std::span<const double> token;           // its id
  std::span<const double> experts_differ;  // not zero: it went to other experts
};

// What the tokens are grouped by.
enum class MismatchBy : int64_t {
  kPosition = 0,       // in its document, or else in its row
  kAnswer = 1,         // counted tokens of its document before it
  kDocument = 2,       // documents of its row before its own
  kAfterBoundary = 3,  // position in its document, of all documents but a row's first
  kProbability = 4,    // exp(rollout), as an index into kProbabilityEdges
  kExperts = 5,        // 0: the same experts, 1: others
  kAnswerStart = 6,    // place in its row of the first counted token: prompt and padding
  kExpertsBefore = 7,  // as kExperts, of the token before: its pass gives this one's probability
  kPadding = 8,        // padding before the text of its row
};
inline constexpr int kMismatchGroupings = 9;

// Lower edges of the groups by probability.
inline constexpr std::array<double, 8> kProbabilityEdges = {0,   1e-4, 1e-3, 1e-2,
                                                            0.1, 0.5,  0.9,  0.99};

struct MismatchGroup {
  MismatchBy by = MismatchBy::kPosition;
  int64_t from = 0;  // the least value of the group
  int64_t tokens = 0;
  double mean = 0, rms = 0, median = 0, largest = 0;  // of d; the last two of |d|
  double exposure = 0;                                // as LogprobMismatch::exposure
};

struct MismatchToken {
  int64_t row = 0, place = 0, token = -1;  // token: -1 if it is not known
  double trainer = 0, rollout = 0;
};

inline constexpr double kFarLogRatio = 0.5;  // "beyond e^±0.5"
inline constexpr double kUnknownFigure = std::numeric_limits<double>::quiet_NaN();

struct LogprobMismatch {
  int64_t tokens = 0;                        // that count and are finite on both sides
  int64_t bad_trainer = 0, bad_rollout = 0;  // that count and are not finite there
  double mean = 0, mean_abs = 0, rms = 0, k3 = 0;
  double median = 0, p99 = 0, p999 = 0, largest = 0;  // of |d|
  double beyond = 0;                                  // share of tokens with |d| > kFarLogRatio
  double equal = 0;                                   // share of tokens with d = 0
  double positive = 0;                                // share of d > 0 among those with d ≠ 0
  double trainer = 0, rollout = 0;                    // means of the log-probabilities
  // sqrt(mean (1 − p)²), p by the rollout: what an error of the size 1 in every logit would give
  // about as rms, because a softmax hides errors of what is nearly certain.
  double exposure = 0;
  // rms of d if the rollout's value of the token before (after) is taken.
  double rms_before = kUnknownFigure, rms_after = kUnknownFigure;
  // 16-bit format whose grid holds every log-probability (DType::kFloat16 or kBFloat16), or 0.
  int64_t trainer_grid = 0, rollout_grid = 0;
  // The rollout's temperature by which the trainer's distribution comes nearest to it, each other
  // token being taken as one of equally likely ones, and the rms of d that is left then.
  double temperature = kUnknownFigure, temperature_rest = kUnknownFigure;
  // Of the rows that are not nearly certain of all of their tokens: least, median and largest
  // error of a logit, as LogitError().
  double row_least = kUnknownFigure, row_median = kUnknownFigure, row_largest = kUnknownFigure;
  int64_t rows = 0;                   // of those
  std::vector<MismatchGroup> groups;  // without tokens: left out
  std::vector<MismatchToken> worst;   // largest |d| first, at most four

  double k1() const { return -mean; }
  // About the error of a logit that would give this rms.
  double LogitError() const { return exposure > 0 ? rms / exposure : 0; }
};

// Everything in one call. `pair.trainer` and `pair.rollout` have rows·length elements, the other
// spans as many or none.
LogprobMismatch CompareLogprobs(const LogprobPair& pair);

// ln of the probability that a token of log-probability `logprob` gets at another temperature, the
// rest of the probability lying on `others` equally likely tokens.
double AtTemperature(double logprob, double temperature, double others);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_LOGPROB_MISMATCH_H_
