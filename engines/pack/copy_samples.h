// The samples of one rank, those that stay at a level of thinning, copied into a new database.
#ifndef MPNANNY_ENGINES_PACK_COPY_SAMPLES_H_
#define MPNANNY_ENGINES_PACK_COPY_SAMPLES_H_

#include <cstdint>
#include <unordered_map>

#include "engines/pack/copy_run.h"

namespace mpnanny::pack {

// Layer ids of the source -> those of the new file.
using LayerIds = std::unordered_map<int64_t, int64_t>;

Result<void> CopySamples(const runs::Source& source, const CopyOptions& options,
                         const LayerIds& layers, const NewDatabase& into, Copied& copied);

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_COPY_SAMPLES_H_
