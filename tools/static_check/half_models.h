// Models that are cast to FP16 as a whole and then trained: what several rules ask for.
//
// Free function without state.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_HALF_MODELS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_HALF_MODELS_H_

#include <string>
#include <vector>

#include "tools/static_check/facts.h"

namespace mpnanny::static_check {

struct HalfOptimizer {
  NodeId call = kNoNode;  // torch.optim.X(model.parameters(), …)
  NodeId cast = kNoNode;  // the expression that made the model FP16
  std::string model;      // its variable
  bool some = false;      // of its parameters only some are picked, perhaps the FP32 ones
};

// Optimizers of torch.optim over parameters() of a variable that was cast to FP16 before, in the
// same function, in a file that calls backward().
std::vector<HalfOptimizer> FindHalfOptimizers(const FileFacts& facts);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_HALF_MODELS_H_
