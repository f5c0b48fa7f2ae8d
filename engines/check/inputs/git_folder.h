// The git repository that a file lies in, if what git would read of it lies in the allowed roots.
//
// git follows what a repository names: a .git file leads to another folder (`gitdir:`), that one to
// a third (commondir), objects may be borrowed from a fourth (alternates), and each part may be a
// link. Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_GIT_FOLDER_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_GIT_FOLDER_H_

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace mpnanny::check {

// The folder at or above `folder` (canonical) that holds .git; "" if there is none. InvalidInput
// where the repository, or a part of it, lies outside the roots.
Result<std::string> RepositoryOf(const std::string& folder, const AllowedRoots& roots);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_GIT_FOLDER_H_
