// The variables of a confined program: a fixed list of what it needs to find its libraries and
// devices. Tokens, keys and all the rest stay behind; WipeEnvironment() is declared in
// base/confinement.h.
//
// A free function; for a process of one thread.
#ifndef MPNANNY_BASE_OS_CONFINED_ENVIRONMENT_H_
#define MPNANNY_BASE_OS_CONFINED_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace mpnanny {

// "NAME=value", temporary files and caches in `writable`.
std::vector<std::string> PassedOnEnvironment(const std::string& writable);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_ENVIRONMENT_H_
