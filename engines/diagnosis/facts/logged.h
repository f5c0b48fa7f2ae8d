// Relations between the numbers that a log prints: what does not fit together, or lies where chance
// does not put it. Each is arithmetic on printed values; what it comes of is not known from them.
//
// Plain values; pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOGGED_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOGGED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/runs/named_figures.h"

namespace mpnanny::diagnosis {

// A perplexity that is not the exponential of the loss of the same split.
struct PerplexityApart {
  std::string perplexity, loss;  // names, raw
  int64_t steps = 0, step = 0;   // that have both; the last of them
  double shown = 0, loss_there = 0;
  double apart = 0;  // median of ln(perplexity) - loss
};

// The loss rests at the logarithm of a number of classes: every class is guessed alike.
struct RestsAtGuess {
  std::string loss;      // raw
  int64_t classes = 0;   // whose logarithm it is
  std::string named_by;  // the log's name for that number, raw; "": a number that is often used
  int64_t losses = 0;    // that rest there, to the end
  int64_t from = 0;      // the first of them
  double mean = 0, scatter = 0;
};

// Every printed value is a number that a 16-bit format holds.
struct OnGrid {
  std::string name;  // raw
  bool bf16 = false;
  int64_t values = 0;            // different ones
  double log10_chance = 0;       // of that by accident
  double example = 0, next = 0;  // a value, and the next one of the format
};

struct LoggedRelations {
  std::vector<PerplexityApart> perplexities;
  std::optional<RestsAtGuess> guess;
  std::vector<OnGrid> grids;
};

LoggedRelations RelateLogged(const std::vector<runs::NamedSeries>& figures);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_LOGGED_H_
