// What an expression does to the gradients of parameters: reads, replaces, clears or changes them.
//
// Internal to this folder. Pure functions over Bindings. Gradients of inputs (x.grad, as
// in adversarial training) are none of these.
#ifndef MPNANNY_ENGINES_CHECK_SCALER_GRADIENTS_H_
#define MPNANNY_ENGINES_CHECK_SCALER_GRADIENTS_H_

#include <optional>

#include "engines/check/scaler/transitions.h"
#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

// The event that a call or an assignment is for gradients, if it is one: kRead, kReplace, kClear,
// or kEscape for anything else that is done to them.
using GradientUse = std::optional<Event::Kind>;
GradientUse UseOfGradient(const Bindings& bindings, NodeId expression);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCALER_GRADIENTS_H_
