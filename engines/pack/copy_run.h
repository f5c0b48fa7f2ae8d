// Copies one rank of a run into a new database: what its file and its flight recorder hold, thinned
// and redacted as asked. Ids of layers and findings are given anew: ranks share the file.
//
// Free functions; the source is only read. Memory grows with the layers and with one window of
// samples, not with the run.
#ifndef MPNANNY_ENGINES_PACK_COPY_RUN_H_
#define MPNANNY_ENGINES_PACK_COPY_RUN_H_

#include <cstdint>

#include "base/result.h"
#include "engines/pack/new_database.h"
#include "engines/runs/run.h"

namespace mpnanny::pack {

struct CopyOptions {
  int64_t run_id = 1;         // in the new file
  int64_t first_layer = 1;    // id of its first layer there
  int64_t first_finding = 1;  // and of its first shadow finding
  bool redact = false;
  int level = 0;          // of thinning (base/sample_thinning.h); 0: every sample is copied
  int64_t max_bytes = 0;  // of the file; 0: no limit
};

struct Copied {
  int64_t steps = 0, alerts = 0, layers = 0, findings = 0;
  int64_t sample_rows = 0, rows_left_out = 0;
  bool too_large = false;  // given up: the file passed max_bytes
};

// `source`: one rank alone.
Result<Copied> CopyRun(const runs::Source& source, const CopyOptions& options,
                       const NewDatabase& into);

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_COPY_RUN_H_
