// Whether code may run under an autocast region that stands somewhere else: in whoever calls it.
//
// What the text proves of types outside of all regions holds only where no caller enters one: under
// autocast a matrix product converts both of its sides, and sums and softmax are FP32. Free
// functions without state.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_AUTOCAST_CALLERS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_AUTOCAST_CALLERS_H_

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

// True if a region is around the node, or may be around a call that leads to it: the project (or a
// framework that it uses) has autocast, and not all callers are seen, or one of them is under it.
bool MayRunUnderAutocast(const FileFacts& facts, NodeId node);

// True if what the text proves of these two holds whoever calls the function: types are those of
// the region that is around the node, or nothing that calls it changes them.
bool HoldsForCallers(const FileFacts& facts, NodeId node, NodeId one, NodeId other);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_AUTOCAST_CALLERS_H_
