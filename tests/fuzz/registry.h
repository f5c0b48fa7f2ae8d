// What the fuzzed server offers: everything the core can do, and nothing that takes time.
#ifndef MPNANNY_TESTS_FUZZ_REGISTRY_H_
#define MPNANNY_TESTS_FUZZ_REGISTRY_H_

#include "server/registry.h"

namespace mpnanny::fuzz {

// Tools: echo (checked arguments, progress), ask (needs the client's input twice). A family
// fuzz://item/{item}, a fixed resource, a prompt with completion; all features.
Registry CheapRegistry();

}  // namespace mpnanny::fuzz

#endif  // MPNANNY_TESTS_FUZZ_REGISTRY_H_
