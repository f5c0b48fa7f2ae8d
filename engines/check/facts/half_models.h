// Models whose weights are 16-bit as a whole, and optimizers that train them: what several rules
// ask for.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_HALF_MODELS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_HALF_MODELS_H_

#include <string>
#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

// A place where the weights of a variable get their type.
struct WeightCast {
  NodeId node = kNoNode;    // the call that loads or casts, or that of the function that does
  NodeId origin = kNoNode;  // the call that loads or casts
  std::string model;        // the variable
  HalfType type = HalfType::kUnknown;  // kUnknown: FP32, or something that is not told
  bool loaded = false;                 // by from_pretrained(torch_dtype=…), else by a cast
};
// m.half(), m = Net().to(torch.bfloat16), m = X.from_pretrained(…, torch_dtype=torch.float16),
// m.float(), m = load() where load() returns such a variable, and other assignments of it, in order
// of the text.
std::vector<WeightCast> FindWeightCasts(const FileFacts& facts);
// The one that holds for the variable at `use`: the last one above it in the same function; for
// self.x also the last one of __init__. Null if there is none.
const WeightCast* CastAt(const FileFacts& facts, const std::vector<WeightCast>& casts,
                         const std::string& model, NodeId use);

// True if whoever runs `then` has run `first`: it is under no condition, loop or attempt that
// `then` is not under. Of what stands in another function (__init__) only the former is asked.
bool RunsBefore(const FileFacts& facts, NodeId first, NodeId then);

struct HalfOptimizer {
  NodeId call = kNoNode;  // torch.optim.X(model.parameters(), …)
  NodeId cast = kNoNode;  // the expression that made the model 16-bit
  std::string model;      // its variable
  bool some = false;      // of its parameters only some are picked, perhaps the FP32 ones
  HalfType type = HalfType::kFp16;
  bool loaded = false;  // the weights were loaded in 16 bits rather than cast
};

// Optimizers of torch.optim over parameters() of a variable whose weights were made 16-bit before,
// in the same function, in a file that calls backward().
std::vector<HalfOptimizer> FindHalfOptimizers(const FileFacts& facts);

// True if torch's own step() is what updates these weights, and they are 16-bit on every way that
// leads to the optimizer: the cast is under no condition that the optimizer is not under, and
// nothing of torch or the project apart gets the optimizer, which might keep FP32 masters.
bool IsPlainlyTrained(const FileFacts& facts, const HalfOptimizer& optimizer);

// The variable that the optimizer is assigned to; "" for none.
std::string OptimizerVariable(const FileFacts& facts, NodeId made);

// True where the file trains adapters beside the model's own weights, which stay frozen: PEFT, LoRA
// or quantised weights.
bool TrainsAdapters(const FileFacts& facts);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_HALF_MODELS_H_
