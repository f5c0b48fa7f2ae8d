// What the user of a program may switch on or off, and whether anybody does.
//
// Free functions without state; they borrow the FileFacts.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_SWITCHES_H_
#define MPNANNY_ENGINES_CHECK_FACTS_SWITCHES_H_

#include <string_view>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

// The innermost condition around the node, within its function, that asks for a switch: a
// parameter, or an attribute that only __init__ sets, alone or compared with a constant
// (`if args.clip > 0:`). kNoNode where there is none. Whether mixed precision is on is no switch
// here, nor is what the parameter's default answers with yes.
NodeId SwitchAround(const FileFacts& facts, NodeId node);

// True if the expression is a parameter of its function that is off by default (None, False, or no
// positive number), and every call of the project leaves it so; there is at least one.
bool IsNeverSwitchedOn(const FileFacts& facts, NodeId expression);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_SWITCHES_H_
