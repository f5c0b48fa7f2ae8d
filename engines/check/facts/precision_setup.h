// What the frameworks of a file are told about mixed precision: TrainingArguments(fp16=True),
// Accelerator(mixed_precision="fp16"), Trainer(precision="16-mixed"), GradScaler().
//
// Free functions without state. Only what stands in the text as a literal is reported.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_PRECISION_SETUP_H_
#define MPNANNY_ENGINES_CHECK_FACTS_PRECISION_SETUP_H_

#include <vector>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

struct PrecisionSetup {
  enum class By { kScaler, kArguments, kAccelerator, kLightning };
  By by = By::kScaler;
  NodeId call = kNoNode;
  HalfType type = HalfType::kUnknown;
};

// In order of the text; switched-off ones and those whose dtype is computed are left out.
std::vector<PrecisionSetup> FindPrecisionSetups(const FileFacts& facts);

// A string literal without its quotes; empty for anything else.
std::string_view Literal(const FileFacts& facts, NodeId expression);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_PRECISION_SETUP_H_
