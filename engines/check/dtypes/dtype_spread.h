// Carries 16-bit types across the functions and files of a project: from calls into the functions
// that they run, and back through what these return.
//
// A project is evaluated in rounds: every function by itself first, then again those of which a
// call with 16-bit arguments, a call under autocast, or a cast of their module was found, and those
// that call one that returns 16-bit values. Few rounds are enough for what people write; what would
// need more stays unknown. Where calls differ, the 16-bit one counts: it is a way that the code
// runs.
#ifndef MPNANNY_ENGINES_CHECK_DTYPES_DTYPE_SPREAD_H_
#define MPNANNY_ENGINES_CHECK_DTYPES_DTYPE_SPREAD_H_

#include <memory>
#include <vector>

#include "base/cancel.h"
#include "engines/check/facts/facts.h"
#include "engines/check/facts/modules.h"

namespace mpnanny::check {

// Fills FileFacts::dtypes of every file; `files` are numbered as in `modules`. Works on up to
// `threads` threads (0: one for each core).
void SpreadDtypes(const Modules& modules, const std::vector<FileFacts*>& files, unsigned threads,
                  const CancelToken& cancel);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_DTYPES_DTYPE_SPREAD_H_
