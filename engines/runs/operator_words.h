// PyTorch's operators as a person calls them.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_RUNS_OPERATOR_WORDS_H_
#define MPNANNY_ENGINES_RUNS_OPERATOR_WORDS_H_

#include <string>
#include <string_view>

#include "base/run_words.h"
#include "engines/runs/sentence.h"

namespace mpnanny::runs {

// "sub" of "aten._foreach_sub_.ScalarList"; a part of `op`.
std::string_view OperatorBaseName(std::string_view op);

// What kind of operator gives values that are not finite, of finite ones.
enum class OperatorKind {
  kOther,
  kConstant,  // puts in a number of the program: full, fill
  kMoves,     // copies, gathers, writes: makes no number of its own
  kDomain,    // is not defined everywhere: log, sqrt, div
};
OperatorKind KindOfOperator(std::string_view op);

// Of an operator of the forward pass: whether its derivative at exactly 0 is infinite, as that of a
// root, and of a norm of zeros, is.
bool IsSteepAtZero(std::string_view op);

// Operators in which nearly equal numbers may cancel out: those that subtract, and those that add
// up many terms.
bool TakesAway(std::string_view op);
bool AddsUp(std::string_view op);

// Whether it finds the places of numbers among others: searchsorted, bucketize.
bool LooksUp(std::string_view op);
// Whether it says which ones of several numbers: topk, sort, argmax, a comparison.
bool Chooses(std::string_view op);

// "subtraction" of "aten.sub.Tensor"; the name without its overload where no word is known.
std::string OperatorWord(std::string_view op);
Sentence OperatorNoun(std::string_view op);  // the same in every language

// The part of a step that a tensor belongs to, "forward"; escaped, and empty of an empty one.
Sentence PhaseNoun(const Word<Phase>& phase);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_OPERATOR_WORDS_H_
