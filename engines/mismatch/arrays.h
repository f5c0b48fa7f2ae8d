// Log-probabilities that lie in files: arrays (.npz, .npy, .safetensors, .pt) or JSON lines, one
// object a sequence.
//
// Free function without state; everything is read into memory, within a bound.
#ifndef MPNANNY_ENGINES_MISMATCH_ARRAYS_H_
#define MPNANNY_ENGINES_MISMATCH_ARRAYS_H_

#include <string>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "engines/mismatch/call.h"

namespace mpnanny::mismatch {

inline constexpr int64_t kMostNumbers = 64'000'000;  // of one array

struct Files {
  std::string a;     // the trainer's: "file" or "file#key"
  std::string b;     // the rollout's; "": in the same file
  std::string mask;  // "": one of the files' own, if there is one
};

// One call; of arrays of three dimensions [steps, batch, length] one a step. Beside the
// log-probabilities the files may hold mask, positions, documents and tokens under the names that
// README.md lists. Errors say which file lacks what.
Result<Calls> ReadArrays(const Files& files, const AllowedRoots& roots, const CancelToken& cancel);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_ARRAYS_H_
