// Whether a method runs with autocast off although no region stands in it: its class calls it only
// from where autocast is switched off.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_SWITCHED_OFF_H_
#define MPNANNY_ENGINES_CHECK_FACTS_SWITCHED_OFF_H_

#include "engines/check/facts/regions.h"

namespace mpnanny::check {

// True if self.f(…) of the function's name is called at least once, and always inside of a region
// that is disabled (autocast(enabled=False), custom_fwd(cast_inputs=…)), also by way of another
// such method.
bool IsCalledWithAutocastOff(const Bindings& bindings, const Regions& regions, NodeId function,
                             int depth = 3);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_SWITCHED_OFF_H_
