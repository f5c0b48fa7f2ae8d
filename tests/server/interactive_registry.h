// What the tests' server offers beside TestRegistry(): tools that need the client, log, change
// lists, or outlast its patience.
#ifndef MPNANNY_TESTS_SERVER_INTERACTIVE_REGISTRY_H_
#define MPNANNY_TESTS_SERVER_INTERACTIVE_REGISTRY_H_

#include "server/registry.h"

namespace mpnanny {

// Tools: ask_name (elicitation), ask_twice (two rounds with state), ask_everything (elicitation,
// sampling and roots at once), ask_for_ever, log {level}, change {what} (a list, or a uri that was
// updated), work {ms} (goes on after its deadline). A fixed resource test://fixed, one that asks,
// test://asking, and TestRegistry()'s families. Prompt: introduce, which asks.
Registry InteractiveRegistry();

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_SERVER_INTERACTIVE_REGISTRY_H_
