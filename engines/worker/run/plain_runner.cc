#include "engines/worker/run/plain_runner.h"

#include <utility>

namespace mpnanny::worker {

PlainRunner::PlainRunner(const CastPolicy& precision, Given given)
    : regions_(precision), given_(std::move(given)) {}

void PlainRunner::Run(const Node& node, std::vector<Value>& slots) {
  stack_.clear();
  for (const int slot : node.inputs) stack_.push_back(slots[slot].held);
  node.run(stack_);
  for (size_t at = 0; at < node.outputs.size(); ++at) {
    slots[node.outputs[at]].held = std::move(stack_[at]);
  }
}

void PlainRunner::Give(const Node& node, const std::vector<Value>& slots) {
  if (!given_) return;
  std::vector<IValue> values;
  for (const int slot : node.inputs) values.push_back(slots[slot].held);
  given_(node.site.module, values);
}

}  // namespace mpnanny::worker
