// What the tests' server offers: tools, resources and prompts that do what real ones may do.
#ifndef MPNANNY_TESTS_SERVER_TEST_REGISTRY_H_
#define MPNANNY_TESTS_SERVER_TEST_REGISTRY_H_

#include "server/registry.h"

namespace mpnanny {

// Tools: echo {text}, fail {kind}, sleep_until_cancelled, sleep {ms} (which heeds no cancellation),
// count {to} (progress), print (to stdout), throw_exception, bad_result. Resources:
// test://item/{item} with 450 items, public, and test://private/{name}. Prompts: greet(name,
// tone?).
Registry TestRegistry();

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_SERVER_TEST_REGISTRY_H_
