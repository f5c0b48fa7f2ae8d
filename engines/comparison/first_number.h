// Which printed number of two logs parts first: figure by figure, up to which step they are equal
// to the digits that the logs show, and what that says of where the two programs differ.
//
// It asks for equality and knows no noise: two runs of one program with one seed are equal, and so
// is all that stands before the first difference between two programs. Plain values; free
// functions.
#ifndef MPNANNY_ENGINES_COMPARISON_FIRST_NUMBER_H_
#define MPNANNY_ENGINES_COMPARISON_FIRST_NUMBER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::comparison {

// In the order in which a training step makes them, where they part at one step.
enum class NumberKind { kRate, kScale, kLoss, kNorm, kOther };

struct NumberParting {
  std::string name;  // "loss", "grad_norm", or as the logs have it, raw
  NumberKind kind = NumberKind::kOther;
  int64_t common = 0;                  // steps that both print
  int64_t equal = 0;                   // of them before the first difference
  std::optional<int64_t> equal_up_to;  // the last of those
  std::optional<int64_t> parts_at;     // absent: equal at every common step
  double a = 0, b = 0;                 // there
  std::string printed_a, printed_b;    // "4 decimals"
  std::optional<double> factor;        // b over a, where it is one and the same from there on
  int64_t factor_steps = 0;
};

struct FirstNumber {
  std::vector<NumberParting>
      numbers;           // those that part, by step, then by kind; then the equal ones
  std::string sentence;  // "" where there is nothing to say
};

// Of two logs, or a log and a recorded run. What a clock or a memory meter gives is left out: it
// differs between any two runs.
Result<FirstNumber> FindFirstNumber(const runs::Source& a, const runs::Source& b,
                                    const runs::StepRange& steps);

// The sentence, of numbers in FirstNumber's order.
std::string FirstNumberText(const std::vector<NumberParting>& numbers);

// What is known of a factor between two norms: "the square root of 2", "8 ranks or micro-batches,
// …"; "" for any other.
std::string FactorWords(double factor);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_FIRST_NUMBER_H_
