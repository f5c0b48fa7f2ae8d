// What an expression does to the gradients of parameters: measures, clamps, shifts, scales or
// clears them.
//
// Internal to this folder and rules. Pure functions over Bindings. Gradients of inputs (x.grad, as
// in adversarial training) are none of these.
#ifndef MPNANNY_ENGINES_CHECK_SCALER_GRADIENTS_H_
#define MPNANNY_ENGINES_CHECK_SCALER_GRADIENTS_H_

#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

enum class GradientUse {
  kNone,
  kMeasure,  // a norm, a maximum, a mean
  kClamp,    // clipped by hand
  kShift,    // something is added that does not carry the loss scale: noise, weight decay
  kReplace,  // NaN and inf are replaced by numbers
  kClear,    // set to zero or None
  kChange,   // anything else: multiplied, divided, written
};

// Of a call or an assignment.
GradientUse UseOfGradient(const Bindings& bindings, NodeId expression);

// True if the expression is the gradient of a parameter, perhaps detached, flattened or converted.
bool IsGradient(const Bindings& bindings, NodeId expression);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCALER_GRADIENTS_H_
