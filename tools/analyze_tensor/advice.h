// What to do about a tensor, in a sentence that states what was measured.
//
// Free functions without state.
#ifndef MPNANNY_TOOLS_ANALYZE_TENSOR_ADVICE_H_
#define MPNANNY_TOOLS_ANALYZE_TENSOR_ADVICE_H_

#include <string>
#include <vector>

#include "tools/analyze_tensor/analysis.h"

namespace mpnanny::analyze_tensor {

struct Advice {
  std::vector<std::string> sentences;  // the most important first; never empty
  std::vector<std::string> alerts;     // types of alerts that say the same of a training
};

Advice AdviceFor(const Analysis& analysis, const Limits& limits);

// "2 of 5 FP32 and FP64 tensors hold only BF16 values …": of a file. Empty where none do.
std::vector<std::string> GridAdvice(const std::vector<Ranked>& ranked);

}  // namespace mpnanny::analyze_tensor

#endif  // MPNANNY_TOOLS_ANALYZE_TENSOR_ADVICE_H_
