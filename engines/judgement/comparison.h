// What the figures of a comparison mean.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_JUDGEMENT_COMPARISON_H_
#define MPNANNY_ENGINES_JUDGEMENT_COMPARISON_H_

#include "engines/judgement/element.h"
#include "numerics/reference_error.h"

namespace mpnanny::judgement {

// Relative error in the L2 norm over the elements that are finite in both; infinite where the
// reference is 0 and the held value is not.
double ErrorOf(const ReferenceError& found);

// Whether the reference is 0 but for its own rounding, as the gradient of a bias before a
// normalisation: a sum whose terms cancel exactly. The held error is about half an ulp of the
// terms, so the terms follow from it, and with them what FP64 makes of an exact 0. `rounding`: of
// products in FP32 (Result::rounding).
bool IsNoise(const ReferenceError& found, Element type, double rounding);

// The part of its error below which a reference is its own rounding.
double LeastOfNoise(Element type, double rounding);

// The figures that follow where what is held becomes the reference.
ReferenceError Exact(const ReferenceError& found);

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_COMPARISON_H_
