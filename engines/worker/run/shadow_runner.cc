#include "engines/worker/run/shadow_runner.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <utility>

#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr int64_t kMostExact = int64_t{1}
                               << 24;  // elements of a result that is computed a third time
constexpr c10::ScalarType kWide = c10::ScalarType::Double;

// Tensors of both lanes in the same order; false where they are not as many.
bool Pairs(const std::vector<IValue>& held, const std::vector<IValue>& reference,
           std::vector<Made>& pairs) {
  std::vector<at::Tensor> a, b;
  ForEachTensor(held, [&](const at::Tensor& tensor) { a.push_back(tensor); });
  ForEachTensor(reference, [&](const at::Tensor& tensor) { b.push_back(tensor); });
  if (a.size() != b.size()) return false;
  for (size_t at = 0; at < a.size(); ++at) pairs.push_back({a[at], b[at], {}});
  return true;
}

// Whether a result may be a look at the memory of an input in this lane.
bool Shares(const at::Tensor& result, const Stack& inputs) {
  bool shares = false;
  ForEachTensor(inputs, [&](const at::Tensor& each) {
    shares = shares || (IsDense(each) && IsDense(result) && MemoryOf(each) == MemoryOf(result));
  });
  return shares;
}

bool AllShare(const std::vector<Made>& made, const Stack& inputs) {
  return std::all_of(made.begin(), made.end(),
                     [&](const Made& each) { return Shares(each.held, inputs); });
}

bool IsComparable(const Made& made) {
  return IsFloat(made.held) && IsFloat(made.reference) && IsDense(made.held) &&
         IsDense(made.reference);
}

// Two of them differ where random numbers were drawn in between.
at::Tensor RandomState() { return at::detail::getDefaultCPUGenerator().get_state(); }

// The references, and copies of what an operator is about to write.
Stack WithOwnTargets(const SchemaFacts& facts, const Stack& held, Stack reference) {
  for (const size_t at : facts.written) {
    if (held[at].isTensor() && held[at].toTensor().defined())
      reference[at] = held[at].toTensor().clone();
  }
  return reference;
}

bool HasNarrow(const Stack& values) {
  bool found = false;
  ForEachTensor(values, [&](const at::Tensor& tensor) {
    found = found || IsNarrow(tensor.scalar_type());
  });
  return found;
}

bool IsNumber(const IValue& value) { return value.isDouble() || value.isComplexDouble(); }

}  // namespace

ShadowRunner::ShadowRunner(const CastPolicy& precision, Observer& observer)
    : regions_(precision), observer_(observer) {}

// One reference for one memory.
IValue ShadowRunner::Widened(const IValue& value) {
  return Replaced(value, [&](const at::Tensor& tensor) {
    if (!IsFloat(tensor) || !IsDense(tensor)) return tensor;
    at::Tensor& wide = wide_[tensor.unsafeGetTensorImpl()];
    if (!wide.defined())
      wide = tensor.detach().to(Wide(tensor.scalar_type()), false, /*copy=*/true);
    return wide;
  });
}

Value ShadowRunner::BeginWith(const IValue& held, const IValue& exact) {
  return {held, Widened(exact)};
}

void ShadowRunner::Run(const Node& node, std::vector<Value>& slots) {
  Stack held, reference;
  for (const int slot : node.inputs) {
    held.push_back(slots[slot].held);
    reference.push_back(slots[slot].reference);
  }
  if (node.kind == Node::Kind::kStructure) {
    std::vector<IValue> held_outputs = Call(node, std::move(held));
    std::vector<IValue> outputs = Call(node, std::move(reference));
    for (size_t at = 0; at < node.outputs.size(); ++at) {
      slots[node.outputs[at]] = {std::move(held_outputs[at]), std::move(outputs[at])};
    }
    return;
  }
  Called call{node, ++number_, held, reference, {}, false};
  const SchemaFacts& facts = FactsOf(*node.schema);
  bool writes_whole = false;
  for (const size_t at : facts.written) {
    if (!held[at].isTensor() || !held[at].toTensor().defined()) continue;
    writes_whole = writes_whole || !IsFloat(held[at].toTensor());
    call.made.push_back({held[at].toTensor(), reference[at].toTensor(), {}});
  }
  call.wrote = !call.made.empty();
  if (call.wrote && !writes_whole) observer_.Before(call);
  const Stack unwritten = writes_whole ? WithOwnTargets(facts, held, reference) : Stack();
  const at::Tensor random = node.may_draw ? RandomState() : at::Tensor();
  const std::vector<IValue> held_outputs = Held(node, held);
  in_low_ += HasNarrow(held) || HasNarrow(held_outputs);
  const bool drew = node.may_draw && !RandomState().equal(random);
  // Memory of whole numbers is one in both lanes and must not be written twice.
  const std::vector<IValue> outputs =
      writes_whole ? held_outputs : Reference(node, held, reference, held_outputs, drew);
  if (!writes_whole) {
    if (!call.wrote) {
      Pairs(held_outputs, outputs, call.made);
      std::erase_if(call.made, [](const Made& made) { return !IsComparable(made); });
      call.computes = !facts.is_unwritten && !AllShare(call.made, held);
      if (call.computes && !drew) AddExact(node, held, call.made);
    }
    if (!call.made.empty()) observer_.After(call);
  } else if (!drew && HasFloats(held)) {
    DecideWritten(call, unwritten);
  }
  for (size_t at = 0; at < node.outputs.size(); ++at) {
    slots[node.outputs[at]] = {held_outputs[at], Merged(call, held_outputs[at], outputs[at])};
  }
}

// Whole numbers were written: are they those that the references make?
void ShadowRunner::DecideWritten(const Called& call, const Stack& unwritten) {
  try {
    CallIn(kWide, call.node, unwritten);
  } catch (const c10::Error&) {
    not_followed_.insert(call.node.site.op);
    return;
  }
  for (const size_t at : FactsOf(*call.node.schema).written) {
    if (!call.held[at].isTensor() || IsFloat(call.held[at].toTensor())) continue;
    observer_.Decided(call, call.held[at].toTensor(), unwritten[at].toTensor());
  }
}

std::vector<IValue> ShadowRunner::Held(const Node& node, const Stack& inputs) {
  try {
    return Call(node, inputs);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    if (what.find("not implemented for") == std::string::npos &&
        what.find("not supported") == std::string::npos)
      throw;
    std::optional<c10::ScalarType> low;
    ForEachTensor(inputs, [&](const at::Tensor& each) {
      if (IsNarrow(each.scalar_type())) low = each.scalar_type();
    });
    if (!low || (node.schema && !FactsOf(*node.schema).written.empty())) throw;
    std::vector<IValue> wide = CallIn(c10::ScalarType::Float, node, inputs);
    missing_kernels_.insert(node.site.op);
    for (IValue& each : wide) {
      each = Replaced(each, [&](const at::Tensor& tensor) { return InType(tensor, *low); });
    }
    return wide;
  }
}

std::vector<IValue> ShadowRunner::Reference(const Node& node, const Stack& held_inputs,
                                            const Stack& inputs, const std::vector<IValue>& held,
                                            bool drew) {
  const auto as_held = [&] {
    std::vector<IValue> taken;
    for (const IValue& each : held) {
      taken.push_back(Replaced(each, [](const at::Tensor& tensor) {
        return IsFloat(tensor) && IsDense(tensor)
                   ? tensor.detach().to(Wide(tensor.scalar_type()), false, true)
                   : tensor;
      }));
    }
    return taken;
  };
  const SchemaFacts& facts = FactsOf(*node.schema);
  std::vector<IValue> made;
  try {
    if (drew || facts.decides || facts.is_unwritten) {
      made = as_held();
    } else if (ClampsToFormat(*node.schema, inputs) && facts.written.empty()) {
      made = as_held();
      made[0] = inputs[0].toTensor().clone();
    } else {
      made = CallIn(kWide, node, inputs);
    }
  } catch (const c10::Error&) {
    not_followed_.insert(node.site.op);
    made = as_held();
  }
  if (drew || not_followed_.contains(node.site.op)) {  // what was drawn is what was meant
    for (const size_t at : facts.written) {
      if (!inputs[at].isTensor() || !IsFloat(inputs[at].toTensor())) continue;
      inputs[at].toTensor().copy_(held_inputs[at].toTensor());
      for (size_t out = 0; out < made.size() && out < held.size(); ++out) {
        if (held[out].isTensor() && held[out].toTensor().is_same(held_inputs[at].toTensor()))
          made[out] = inputs[at];
      }
    }
  }
  std::vector<Made> pairs;
  if (!Pairs(held, made, pairs)) return as_held();
  size_t next = 0;
  for (IValue& each : made) {
    each = Replaced(each, [&](const at::Tensor& tensor) -> at::Tensor {
      const Made& pair = pairs[next++];
      if (!IsFloat(tensor) || !IsDense(tensor)) return tensor;
      // A cast copies in the one lane and has nothing to do in the other.
      if (Shares(tensor, inputs) && !Shares(pair.held, held_inputs)) return tensor.clone();
      return tensor.scalar_type() == Wide(tensor.scalar_type()) ? tensor : InType(tensor, kWide);
    });
  }
  return made;
}

IValue ShadowRunner::Merged(const Called& call, const IValue& held, const IValue& reference) {
  if (held.isTensor() && reference.isTensor()) {
    const at::Tensor& a = held.toTensor();
    const at::Tensor& b = reference.toTensor();
    if (!a.defined() || IsFloat(a)) return reference;
    if (!a.is_same(b) && a.sizes() == b.sizes() && HasFloats(call.held))
      observer_.Decided(call, a, b);
    return held;
  }
  if (IsNumber(held) && reference.type()->kind() == held.type()->kind()) return reference;
  if (held.isInt() || held.isBool() || held.isString() || held.isNone() || held.isDevice())
    return held;
  if (held.isTensorList() && reference.isTensorList()) {
    c10::List<at::Tensor> merged;
    const auto a = held.toTensorVector(), b = reference.toTensorVector();
    for (size_t at = 0; at < a.size() && at < b.size(); ++at)
      merged.push_back(IsFloat(a[at]) ? b[at] : a[at]);
    return merged;
  }
  return reference;
}

void ShadowRunner::AddExact(const Node& node, const Stack& inputs, std::vector<Made>& made) {
  if (made.empty() || not_followed_.contains(node.site.op)) return;
  for (const Made& each : made) {
    if (each.held.numel() > kMostExact) return;
  }
  std::vector<at::Tensor> exact;
  try {
    ForEachTensor(CallIn(kWide, node, inputs), [&](const at::Tensor& tensor) {
      if (IsFloat(tensor) && IsDense(tensor)) exact.push_back(tensor);
    });
  } catch (const c10::Error&) {
    return;
  }
  for (size_t at = 0; at < made.size() && at < exact.size(); ++at) {
    if (exact[at].sizes() == made[at].held.sizes()) made[at].exact = exact[at];
  }
}

}  // namespace mpnanny::worker
