// Putting a finished file at its place: who reads there sees the old one or the new one, never half
// of one.
//
// Free functions without state; safe from any thread, but of two writers of one file the last wins.
#ifndef MPNANNY_BASE_REPLACE_FILE_H_
#define MPNANNY_BASE_REPLACE_FILE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny {

// Renames `part`, which lies in the same folder, to `path`, over what may be there. Unavailable if
// that cannot be: `path` is a folder, or the folder cannot be written.
Result<void> MoveIntoPlace(const std::string& part, const std::string& path);

// Makes `text` the whole of the file `path`, on the disk when this returns. A link stays a link and
// its target is replaced; a file that is there keeps its mode, a new one is for its owner only
// (0600). Unavailable where that cannot be; what was there is then untouched.
Result<void> ReplaceFile(const std::string& path, std::string_view text);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_REPLACE_FILE_H_
