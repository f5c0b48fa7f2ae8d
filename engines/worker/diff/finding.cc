#include "engines/worker/diff/finding.h"

#include <algorithm>

#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {

double Finding::HalfUlp() const {
  double most = worker::HalfUlp(held_type);
  for (const c10::ScalarType each : input_types) most = std::max(most, worker::HalfUlp(each));
  return most;
}

bool Finding::IsNarrow() const {
  return worker::IsNarrow(held_type) ||
         std::any_of(input_types.begin(), input_types.end(), worker::IsNarrow);
}

}  // namespace mpnanny::worker
