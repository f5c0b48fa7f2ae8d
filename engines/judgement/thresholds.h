// From where on a shadow step's figures are an error, each number with where it comes from. Errors
// are relative, in the L2 norm, against the FP64 reference. What is flushed: also
// numerics/reference_error.h. How often something has to be seen over a run: the monitor's
// shadow/schedule.py and severities.py. Relations have their own numbers, in relations/.
#ifndef MPNANNY_ENGINES_JUDGEMENT_THRESHOLDS_H_
#define MPNANNY_ENGINES_JUDGEMENT_THRESHOLDS_H_

#include "numerics/reference_error.h"

namespace mpnanny::judgement {

// --- an operator's own error ---

// A result this far from its reference is wrong, and one that makes this many times the error of
// its inputs has made it. Healthy BF16 networks stay below 0.1 for a long way: one BF16 rounding
// is 0.002, a BF16 matrix product 0.004.
inline constexpr double kWrong = 0.2;
inline constexpr double kAmplification = 5;
// Less than wrong and yet made here: a note.
inline constexpr double kNoted = 0.04;
inline constexpr double kNotedAmplification = 8;
inline constexpr double kCarries = 0.02;  // errors below this are no longer followed
// A cast or an operator flushes: this share of what matters became 0. (What matters, and what the
// type has no number for: numerics/reference_error.h.)
inline constexpr double kFlushedShare = kManyFlushed;
inline constexpr double kFlushedError = kMuchFlushed;  // of the squared error, that they make
inline constexpr double kUnderflows = 0.5;       // of what was flushed, that the type cannot hold
inline constexpr double kFlushedBefore = 0.5;    // of it, that was 0 in an input already
inline constexpr double kWrongIntegers = 0.01;   // share of whole numbers that became others
inline constexpr double kWrongIndices = 0.25;    // share of places that are others
inline constexpr double kLargestWhole = 0x1p53;  // FP64 itself does not hold those above
inline constexpr double kClippedShare = 1e-3;
inline constexpr double kClippedError = 0.1;
inline constexpr double kWrongMask = 0.25;  // share of a mask that is another one in FP64

// --- references that are 0 but for rounding ---

// Half the distance to the next number at 1 is what one rounding makes; 256 of FP64's is what a
// sum of 65,536 terms makes of an exact 0, 16 of FP32's what a product of FP32 makes.
inline constexpr double kOfFp64 = 256 * 0x1p-53;
inline constexpr double kOfProducts = 16 * 0x1p-24;

// --- what an error reaches ---

inline constexpr double kLossError = 0.05;
inline constexpr double kGradientShare = 0.01;  // of the squares: a tenth in the norm
inline constexpr double kUpdateShare = 0.01;
inline constexpr double kStateError = 0.2;
inline constexpr double kOutputError = 0.2;  // of a number that the program reads
inline constexpr double kInputError = 0.2;   // of data where it meets what is trained
inline constexpr double kOwnError = 1;       // of one parameter's gradient, if it is not tiny
inline constexpr double kOwnSize = 0.1;  // of the mean size of a gradient: below that it is tiny
// A gradient that is 0 everywhere, and of FP64 at least this part of the mean size, is lost: one
// whose terms cancel exactly is 1e-16 of it there.
inline constexpr double kGoneSize = 1e-3;
inline constexpr double kBufferSize = 1e-3;  // of the largest buffer beside it
// A skipped step at a loss scale above this is part of the search for one; a scale as small gives
// FP16 no room for gradients any more.
inline constexpr double kSearchedScale = 16;
// A loss below this part of the first ones is of a model that has converged: its gradients are
// what rounding leaves.
inline constexpr double kMattersLoss = 1e-3;
// Updates that FP32 cannot hold either: there is nothing left to learn.
inline constexpr double kSettled = 0x1p-23;

// --- where an error came in, and what cures it ---

inline constexpr double kCameIn = 0.5;  // an operator before which there was less has made it
inline constexpr double kCured = 0.1;   // of the error that it had, at the most
inline constexpr int kMostCalls = 200;  // that are looked through for it
inline constexpr int kMostLines = 5;

// --- changes that get lost ---

inline constexpr double kLost = 0.5;     // of the sum of the changes
inline constexpr double kOfAll = 1e-3;   // of all that changes the tensor in the step
inline constexpr double kRoundings = 4;  // of a value in one line of an optimizer
inline constexpr int kSteps = 3;         // one after the other, in which it was lost

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_THRESHOLDS_H_
