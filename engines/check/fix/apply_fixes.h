// Writes the edits that findings offer into the files: what `mpnanny check --fix` does.
//
// Free functions without state. The only code of the check that writes; no tool calls it.
#ifndef MPNANNY_ENGINES_CHECK_FIX_APPLY_FIXES_H_
#define MPNANNY_ENGINES_CHECK_FIX_APPLY_FIXES_H_

#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"

namespace mpnanny::check {

// `structured`: an answer with whole findings. Gives a unified diff, and lines on what was done.
// `write`: also replaces the files, each at once (a new file beside it is renamed), keeping its
// mode. All edits of a finding are made or none: not where they overlap those of another one, where
// the file no longer has the finding's line, in a notebook, or where the result would not parse.
Result<Afterwards> ApplyFixes(const Json& structured, bool write);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FIX_APPLY_FIXES_H_
