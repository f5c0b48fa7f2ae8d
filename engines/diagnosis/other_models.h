// The other models that the program of a run trained at the same time: each has a file of its own,
// metrics.db, metrics-2.db, … (docs/monitor_files.md).
//
// Free functions; nothing stays open.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_OTHER_MODELS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_OTHER_MODELS_H_

#include <vector>

#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

// Their runs, in the order of the files, at most 8. Files that cannot be read, and those of another
// program or time, are left out.
std::vector<runs::Source> OtherModels(const runs::Source& source, const AllowedRoots& roots,
                                      const CancelToken& cancel);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_OTHER_MODELS_H_
