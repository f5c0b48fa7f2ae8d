// Completing a path that a person types into a client's form.
//
// Free function; reads directories below the allowed roots, nothing else.
#ifndef MPNANNY_SERVER_METHODS_PATH_COMPLETION_H_
#define MPNANNY_SERVER_METHODS_PATH_COMPLETION_H_

#include <string>
#include <vector>

#include "base/files.h"

namespace mpnanny {

// Files and folders (these end with '/') whose path begins with `typed`, sorted; hidden ones only
// if asked for. Empty if the folder is outside the roots or cannot be read. Looks at no more than a
// few thousand entries.
std::vector<std::string> CompletePath(const std::string& typed, const AllowedRoots& roots);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_METHODS_PATH_COMPLETION_H_
