// A model that has left Python, as an argument names it.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_ENGINES_EXPORTED_MODEL_FILE_H_
#define MPNANNY_ENGINES_EXPORTED_MODEL_FILE_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny::exported {

// Whether `words` name a file of a model ("model.pt2", "net.pt") and not code ("model.py:build").
bool IsModelFile(const std::string& words);

// What mpnanny-worker is asked (engines/worker/protocol.h), and its limits.
struct Question {
  Json request;
  std::chrono::seconds seconds{60};
  uint64_t memory_mb = 8192;
};

// The arguments of a call whose `model` is a file; `kind` of the job. InvalidInput for arguments
// that need the model's code. What AllowedRoots says of a path.
Result<Question> ReadQuestion(const std::string& kind, const Json& arguments,
                              const AllowedRoots& roots);

}  // namespace mpnanny::exported

#endif  // MPNANNY_ENGINES_EXPORTED_MODEL_FILE_H_
