// One call of an operator on values of another type than it was written for.
//
// Free functions without state. Functions on IValues go into lists and tuples of tensors.
#ifndef MPNANNY_ENGINES_WORKER_RUN_CALL_H_
#define MPNANNY_ENGINES_WORKER_RUN_CALL_H_

#include <ATen/core/TensorBody.h>

#include <functional>
#include <vector>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// What is known of an operator from its schema.
struct SchemaFacts {
  std::vector<size_t> written;  // arguments that it writes
  bool changes = false;         // what it writes there comes of what was there, as in add_
  bool is_view = false;         // gives another look at the memory of an argument
  bool is_unwritten = false;    // gives memory that nobody has written yet (empty)
  bool decides = false;  // takes the side of 0 that a value is on: that of the held one counts
  std::vector<size_t> dtypes;  // arguments that are a dtype
};
const SchemaFacts& FactsOf(const c10::FunctionSchema& schema);

// Whether this call cuts values off at the range of a format, as before a cast to it: a clamp to
// the largest numbers of int8, FP8 or FP16, fake_quantize. What it cuts off is lost by it.
bool ClampsToFormat(const c10::FunctionSchema& schema, const Stack& inputs);

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;
using TensorVisit = std::function<void(const at::Tensor&)>;

void ForEachTensor(const IValue& value, const TensorVisit& visit);
void ForEachTensor(const Stack& values, const TensorVisit& visit);
bool HasFloats(const Stack& values);

// `value` with each tensor replaced; itself where nothing changes.
IValue Replaced(const IValue& value, const TensorFunction& change);

// With memory of its own: what one run writes into a constant is not there in the next.
IValue OwnCopy(const IValue& value);

// A tensor of `type` instead of another floating-point type; of complex FP32 or FP64 instead of
// another complex one; as it is where it is none of both.
at::Tensor InType(const at::Tensor& tensor, c10::ScalarType type);
c10::ScalarType TypeFor(c10::ScalarType own, c10::ScalarType type);  // the same of a dtype

// Runs `node` on `inputs` and gives its outputs.
std::vector<IValue> Call(const Node& node, Stack inputs);

// The same with all that is floating-point in `type`, dtypes among the arguments too, and without
// autocast. What it writes is written back to the arguments, rounded to their type, and given in
// `type`.
std::vector<IValue> CallIn(c10::ScalarType type, const Node& node, const Stack& inputs);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_RUN_CALL_H_
