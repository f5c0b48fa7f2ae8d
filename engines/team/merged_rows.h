// The steps of a training, each once, merged over its ranks as engines/runs/step_cursor.h merges
// those of files: what the writer has merged into step_all, and the steps after that.
//
// A free function without state.
#ifndef MPNANNY_ENGINES_TEAM_MERGED_ROWS_H_
#define MPNANNY_ENGINES_TEAM_MERGED_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace mpnanny::team {

// A SELECT with the columns of step_all; bad_ranks as text, "3,5". `merged_to`: the last step up to
// which step_all is whole. `all`: there are no steps after that.
std::string MergedRows(int64_t training, std::optional<int64_t> merged_to, bool all);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_MERGED_ROWS_H_
