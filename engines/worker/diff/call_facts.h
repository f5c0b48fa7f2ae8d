// What can be read off a call of an operator.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_CALL_FACTS_H_
#define MPNANNY_ENGINES_WORKER_DIFF_CALL_FACTS_H_

#include <functional>
#include <string>
#include <vector>

#include "engines/worker/run/shadow_runner.h"

namespace mpnanny::worker {

// Floating-point inputs with their references.
void ForEachInput(
    const Called& call,
    const std::function<void(const at::Tensor& held, const at::Tensor& reference)>& visit);

// Of the floating-point inputs, each once.
std::vector<c10::ScalarType> TypesOf(const Called& call);

// A number among the arguments that is not finite, as the -inf of a mask.
bool HoldsNonfiniteNumber(const Stack& values);

// "[4, 8]"
std::string ShownShape(const at::Tensor& tensor);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_CALL_FACTS_H_
