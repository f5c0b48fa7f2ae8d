// What ranks are compared by, copied into a new database: figures of tensors, calls of
// torch.distributed. A file of an earlier version, or of a run of one process, has none.
//
// Free function; the source is only read.
#ifndef MPNANNY_ENGINES_PACK_COPY_RANKS_H_
#define MPNANNY_ENGINES_PACK_COPY_RANKS_H_

#include "engines/pack/copy_run.h"
#include "engines/pack/copy_samples.h"

namespace mpnanny::pack {

Result<void> CopyRanks(const runs::Source& source, const CopyOptions& options,
                       const LayerIds& layers, const NewDatabase& into, Copied& copied);

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_COPY_RANKS_H_
