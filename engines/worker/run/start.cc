#include "engines/worker/run/start.h"

#include <ATen/ATen.h>

#include <map>

#include "engines/worker/run/call.h"

namespace mpnanny::worker {
namespace {

constexpr uint64_t kSeed = 7;  // so that runs draw the same random numbers

// One memory stays one: `made` holds what was made of the tensors before.
using Copies = std::map<const void*, at::Tensor>;

IValue Placed(const IValue& value, const CastPolicy& precision, Copies& made) {
  return Replaced(value, [&](const at::Tensor& tensor) {
    at::Tensor& copy = made[tensor.unsafeGetTensorImpl()];
    if (copy.defined()) return copy;
    const bool changes = precision.everything && c10::isFloatingType(tensor.scalar_type());
    copy = tensor.layout() == at::kStrided && !tensor.is_quantized()
               ? tensor.detach().to(changes ? *precision.everything : tensor.scalar_type(), false,
                                    /*copy=*/true)
               : tensor;
    // Which kernel a product takes may depend on it.
    if (tensor.requires_grad() && tensor.is_leaf()) copy.set_requires_grad(true);
    return copy;
  });
}

template <typename Make>
Start StartWith(const Program& program, const std::vector<IValue>& inputs, Make make) {
  at::manual_seed(kSeed);
  Start start;
  for (const State& state : program.states) start.states.push_back(make(state.value));
  for (const IValue& each : inputs) start.inputs.push_back(make(each));
  return start;
}

}  // namespace

Start StartOf(const Program& program, const std::vector<IValue>& inputs,
              const CastPolicy& precision) {
  Copies made;
  return StartWith(program, inputs,
                   [&](const IValue& value) { return Value{Placed(value, precision, made), {}}; });
}

Start StartOf(const Program& program, const std::vector<IValue>& inputs, const CastPolicy& precision,
              ShadowRunner& runner) {
  Copies made;
  return StartWith(program, inputs, [&](const IValue& value) {
    return runner.BeginWith(Placed(value, precision, made), value);
  });
}

}  // namespace mpnanny::worker
