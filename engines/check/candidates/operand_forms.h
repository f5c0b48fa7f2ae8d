// Forms of the operands that make an operator a hazard: what the rows of hazards.cc ask.
//
// Free functions without state; they borrow the FileFacts and ask the file's ValueTypes.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_OPERAND_FORMS_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_OPERAND_FORMS_H_

#include <string_view>

#include "engines/check/candidates/value_types.h"

namespace mpnanny::check {

// One place where an operator stands: a call of torch's (function or method), a call of a layer, a
// binary or augmented expression, or an assignment through a subscript.
struct Occurrence {
  NodeId node = kNoNode;
  NodeId left = kNoNode;   // the tensor; the left operand; what is written into
  NodeId right = kNoNode;  // `other`, `value`, `src` …; the right operand; what is written
  std::string_view name;   // "exp"; "/", "+="; "[]="; "layer()"
  bool is_call = false;
};

// A constant that FP16 does not hold.
bool BeyondFp16(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// finfo(x.dtype).min added to something is -inf where both are the smallest.
bool SmallestOfType(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// A constant above zero that FP16 rounds to zero; the same as eps=.
bool RoundsToZero(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
bool EpsRoundsToZero(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// A constant below 1 that 16 bits round to 1.
bool NearOne(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// exp(x) of what nothing limits; log(x), sqrt(x) of what nothing keeps from zero.
bool Unbounded(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
bool MayBeZero(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// acos(x) of what nothing keeps in [-1, 1].
bool OutsideDomain(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// log(sigmoid(x)), log(softmax(x))
bool OfSigmoid(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
bool OfSoftmax(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// sqrt(x) + 1e-6 of what may be zero.
bool EpsBehindRoot(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// torch.empty(n, m) * x, also through a name.
bool OfUnwritten(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// x / x.norm(), a / b.sum(-1): a size that may be zero, or is tiny.
bool BySize(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// x / (s + 1e-6): 1 / 1e-6 is more than FP16 holds.
bool BySmall(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// x.sum() / n, a @ b / n
bool SumDividedLater(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
bool ProductDividedLater(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// (x ** 2).sum(), exp(x).sum()
bool OfSquares(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
bool OfExponentials(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// E[x^2] - E[x]^2
bool DifferenceOfMoments(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// |x|^2 + |y|^2 - 2xy
bool ExpandedDistance(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// arange(n).to(x)
bool OfPositions(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
bool EitherOfPositions(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// arange(n, dtype=x.dtype): of a type that follows something else.
bool TypedLikeActivations(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// Written by a type that nothing in the text ties to the other's.
bool TypesMayDiffer(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// A product of something that is FP32 for certain with something that may be 16-bit.
bool Fp32MeetsUnknown(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// self.mlp(embedding(t)): what comes out of a factory or a cast to FP32.
bool Fp32Input(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// Written through a mask or through a list of places, which does not convert.
bool TypesMayDifferThroughIndex(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// nn.Parameter(w.half()), mse_loss(x, y.half()), mse_loss(x, y).half()
bool ToHalf(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// decay * average + (1 - decay) * x, average.mul_(d).add_(…), average.lerp_(x, w)
bool IsAverage(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// total += loss inside of a loop, on a tensor.
bool InLoop(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// floor(keep + rand_like(x))
bool OfRandom(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
// x.float() @ w: autocast takes the cast back.
bool AfterCastUp(const FileFacts& facts, ValueTypes& types, const Occurrence& at);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_OPERAND_FORMS_H_
