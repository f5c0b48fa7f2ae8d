// Puts what a check shows to the test: runs each place in 16 bits and in FP64, confined, within one
// limit of time.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_PROVE_H_
#define MPNANNY_TOOLS_STATIC_CHECK_PROVE_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/call_context.h"
#include "engines/check/engine.h"
#include "engines/check/inputs/sources.h"

namespace mpnanny::check {

// A finding or a candidate that is shown.
struct Suspect {
  std::string rule;
  std::string path;  // as findings have it
  int line = 0;
  std::optional<Proof>* proof = nullptr;  // gets what came of it
};

struct ProveOptions {
  std::chrono::seconds limit{60};  // for all together
  std::string python;              // the interpreter; empty: the project's
};

// The largest proof that there is, for what has to know how many items a page can hold.
Proof LargestProof();

// `training`: files in which gradients are computed, as the map names them. Each suspect gets a
// proof; `notes` what the machine could not keep the code from. Fails where nothing of the user's
// can be run here, and where the call is over.
Result<void> Prove(const std::vector<Suspect>& suspects, const std::vector<Source>& sources,
                   const std::vector<std::string>& training, const ProveOptions& options,
                   const ToolContext& context, std::vector<std::string>& notes);

}  // namespace mpnanny::check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_PROVE_H_
