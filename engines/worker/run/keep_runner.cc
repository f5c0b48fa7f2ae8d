#include "engines/worker/run/keep_runner.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {

namespace {

// An operator has written `copy` in the place of `target`, and perhaps given it as a result.
void WriteBack(const at::Tensor& copy, const at::Tensor& target, std::vector<IValue>& outputs) {
  target.copy_(copy);
  for (IValue& each : outputs) {
    if (each.isTensor() && each.toTensor().is_same(copy)) each = target;
  }
}

}  // namespace

std::string LineOf(const Node& node) {
  if (!node.site.source.empty()) return node.site.source;
  return node.site.module.empty() ? node.site.op : node.site.module + " " + node.site.op;
}

KeepRunner::KeepRunner(const CastPolicy& precision, const Kept& kept,
                       const std::vector<std::vector<c10::ScalarType>>& types)
    : regions_(precision), kept_(kept), types_(types) {}

void KeepRunner::Run(const Node& node, std::vector<Value>& slots) {
  Stack inputs;
  for (const int slot : node.inputs) inputs.push_back(slots[slot].held);
  std::vector<IValue> outputs;
  if (node.kind == Node::Kind::kStructure) {
    outputs = Call(node, std::move(inputs));
  } else {
    ++number_;
    const bool is_kept = kept_.lines.contains(LineOf(node));
    outputs = is_kept ? RunKept(node, inputs) : RunOther(node, inputs);
    if (number_ == last_) {
      Stopped stopped;
      const SchemaFacts& facts = FactsOf(*node.schema);
      for (const size_t at : facts.written) {
        if (inputs[at].isTensor()) stopped.results.push_back(Sum(inputs[at].toTensor()));
      }
      if (facts.written.empty()) {
        const bool any = HasFloats(outputs);  // else places, which are whole numbers
        ForEachTensor(outputs, [&](const at::Tensor& each) {
          if (IsFloat(each)) stopped.results.push_back(each);
          if (!any) stopped.results.push_back(each.to(c10::ScalarType::Double));
        });
      }
      throw stopped;
    }
  }
  for (size_t at = 0; at < node.outputs.size(); ++at) {
    slots[node.outputs[at]].held = std::move(outputs[at]);
  }
}

at::Tensor KeepRunner::Sum(const at::Tensor& tensor) const {
  const auto known = sums_.find(MemoryOf(tensor));
  if (known == sums_.end() || !IsFloat(tensor) || tensor.is_complex()) return tensor;
  return known->second.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

void KeepRunner::StartSums(const Node& node, const Stack& inputs) {
  for (const size_t at : FactsOf(*node.schema).written) {
    if (!inputs[at].isTensor() || !IsFloat(inputs[at].toTensor())) continue;
    const at::Tensor& target = inputs[at].toTensor();
    const void* const memory = MemoryOf(target);
    if (memory == nullptr || target.is_complex() || target.scalar_type() == kept_.type) continue;
    if (sums_.contains(memory)) continue;
    const auto count = static_cast<int64_t>(target.storage().nbytes() / target.element_size());
    sums_[memory] = target.as_strided({count}, {1}, 0).to(kept_.type);
    alive_.push_back(target);
  }
}

std::vector<IValue> KeepRunner::RunKept(const Node& node, const Stack& inputs) {
  StartSums(node, inputs);
  Stack wide;
  for (const IValue& each : inputs)
    wide.push_back(Replaced(each, [&](const at::Tensor& tensor) { return Sum(tensor); }));
  std::vector<IValue> outputs = CallIn(kept_.type, node, wide);
  for (const size_t at : FactsOf(*node.schema).written) {
    if (!inputs[at].isTensor() || wide[at].toTensor().is_same(inputs[at].toTensor())) continue;
    WriteBack(wide[at].toTensor(), inputs[at].toTensor(), outputs);
  }
  if (static_cast<size_t>(number_) >= types_.size()) return outputs;
  const auto& types = types_[static_cast<size_t>(number_)];
  size_t at = 0;
  ForEachTensor(outputs, [&](const at::Tensor& each) {
    if (!IsFloat(each)) return;
    const c10::ScalarType plain = at < types.size() ? types[at] : each.scalar_type();
    ++at;
    const void* const memory = MemoryOf(each);
    if (plain == each.scalar_type() || memory == nullptr) return;
    if (wide_.emplace(memory, plain).second) alive_.push_back(each);
  });
  return outputs;
}

std::vector<IValue> KeepRunner::RunOther(const Node& node, const Stack& inputs) {
  const SchemaFacts& facts = FactsOf(*node.schema);
  for (const size_t at : facts.written) {
    if (inputs[at].isTensor()) sums_.erase(MemoryOf(inputs[at].toTensor()));
  }
  if (wide_.empty() || facts.is_view) return Call(node, inputs);
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // the rounded copy, the wide one
  Stack rounded;
  for (const IValue& input : inputs) {
    rounded.push_back(Replaced(input, [&](const at::Tensor& each) {
      const auto known = wide_.find(MemoryOf(each));
      return known == wide_.end() || !IsFloat(each) ? each : each.to(known->second);
    }));
  }
  for (const size_t at : facts.written) {
    if (!inputs[at].isTensor() || rounded[at].toTensor().is_same(inputs[at].toTensor())) continue;
    written.emplace_back(rounded[at].toTensor(), inputs[at].toTensor());
  }
  std::vector<IValue> outputs = Call(node, std::move(rounded));
  for (const auto& [copy, wide] : written) WriteBack(copy, wide, outputs);
  return outputs;
}

}  // namespace mpnanny::worker
