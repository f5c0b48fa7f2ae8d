// Whether anything that a file trains may run in FP16: without, a loss scale changes nothing.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_FP16_USE_H_
#define MPNANNY_ENGINES_CHECK_FACTS_FP16_USE_H_

#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

// The file, the files that import it, however far, and all that these import: the programs that it
// may be a part of.
std::vector<const FileFacts*> FilesAround(const FileFacts& facts);

// False if nothing in these files makes FP16 values or leaves that to a framework: no autocast that
// may be FP16, no cast. BF16 or FP32, as the other branch of a scaler that is on without BF16 is
// (`GradScaler(enabled=not use_bf16)`), need no loss scale.
bool MayRunInFp16(const FileFacts& facts);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_FP16_USE_H_
