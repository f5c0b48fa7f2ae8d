// What shadow steps told of one rank, copied into a new database: steps, findings, profiles. A file
// of version 1 has none.
//
// Free functions; the source is only read.
#ifndef MPNANNY_ENGINES_PACK_COPY_SHADOW_H_
#define MPNANNY_ENGINES_PACK_COPY_SHADOW_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "engines/pack/copy_run.h"
#include "engines/pack/copy_samples.h"

namespace mpnanny::pack {

// Finding ids of the source -> those of the new file.
using FindingIds = std::unordered_map<int64_t, int64_t>;

// Fills `findings`.
Result<void> CopyShadow(const runs::Source& source, const CopyOptions& options,
                        const LayerIds& layers, const NewDatabase& into, FindingIds& findings,
                        Copied& copied);

// An alert's detail (JSON) for the new file, where its finding has another id; "" for none.
std::string AlertDetail(const std::string& detail, const FindingIds& findings, bool redact);

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_COPY_SHADOW_H_
