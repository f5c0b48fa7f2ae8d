#include "engines/worker/diff/call_facts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engines/worker/run/call.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {

void ForEachInput(
    const Called& call,
    const std::function<void(const at::Tensor& held, const at::Tensor& reference)>& visit) {
  for (size_t at = 0; at < call.held.size() && at < call.reference.size(); ++at) {
    std::vector<at::Tensor> held, reference;
    ForEachTensor(call.held[at], [&](const at::Tensor& each) { held.push_back(each); });
    ForEachTensor(call.reference[at], [&](const at::Tensor& each) { reference.push_back(each); });
    for (size_t i = 0; i < held.size() && i < reference.size(); ++i) {
      if (IsFloat(held[i]) && MemoryOf(held[i]) != nullptr) visit(held[i], reference[i]);
    }
  }
}

std::vector<c10::ScalarType> TypesOf(const Called& call) {
  std::vector<c10::ScalarType> types;
  ForEachInput(call, [&](const at::Tensor& each, const at::Tensor&) {
    if (std::find(types.begin(), types.end(), each.scalar_type()) == types.end())
      types.push_back(each.scalar_type());
  });
  return types;
}

bool HoldsNonfiniteNumber(const Stack& values) {
  return std::any_of(values.begin(), values.end(), [](const IValue& each) {
    return each.isDouble() && !std::isfinite(each.toDouble());
  });
}

std::string ShownShape(const at::Tensor& tensor) {
  std::ostringstream shown;
  shown << tensor.sizes();
  return shown.str();
}

}  // namespace mpnanny::worker
