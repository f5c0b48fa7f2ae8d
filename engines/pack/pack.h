// One consistent file of a run, to carry away: all ranks, flight recorders merged, no WAL, samples
// thinned to a size, names hashed on request.
//
// The file (mode 0600) stands at its place whole or not at all. The only part of the tools that
// writes, and a command only: no client can reach it. The run's own files are not touched.
#ifndef MPNANNY_ENGINES_PACK_PACK_H_
#define MPNANNY_ENGINES_PACK_PACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"

namespace mpnanny::pack {

struct PackOptions {
  std::string run;     // handle, database or folder, as the tools take it
  std::string output;  // the file to make
  int64_t max_bytes = int64_t{100} << 20;
  bool redact = false;
  bool force = false;  // may replace a file
};

struct PackReport {
  std::string run;     // handle of what was packed, escaped
  std::string output;  // escaped
  int64_t bytes = 0, ranks = 0, steps = 0, alerts = 0;
  int64_t sample_rows = 0, rows_left_out = 0;
  int64_t one_in = 1;  // of the samples away from alerts, so many are whole
  std::vector<std::string> notes;
};

Result<PackReport> Pack(const PackOptions& options, const AllowedRoots& roots,
                        const CancelToken& cancel);

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_PACK_H_
