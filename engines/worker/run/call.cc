#include "engines/worker/run/call.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr c10::DispatchKey kAutocast = c10::DispatchKey::AutocastCPU;

bool IsDType(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

SchemaFacts Find(const c10::FunctionSchema& schema) {
  SchemaFacts facts;
  const auto& arguments = schema.arguments();
  for (size_t at = 0; at < arguments.size(); ++at) {
    const auto* alias = arguments[at].alias_info();
    if (alias != nullptr && alias->isWrite()) facts.written.push_back(at);
    if (IsDType(arguments[at])) facts.dtypes.push_back(at);
  }
  facts.is_view = facts.written.empty() &&
                  std::any_of(schema.returns().begin(), schema.returns().end(),
                              [](const auto& each) { return each.alias_info() != nullptr; });
  const std::string& name = schema.name();
  const bool overwrites = name == "aten::copy_" || name == "aten::fill_" || name == "aten::zero_";
  facts.changes = !facts.written.empty() && name.ends_with("_") && !overwrites;
  facts.is_unwritten = name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
  facts.decides = name == "aten::sign" || name == "aten::sgn";
  return facts;
}

// A tuple or a list that may have tensors in it.
bool HoldsTensors(const IValue& value) {
  return value.isTuple() ||
         (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList());
}

}  // namespace

const SchemaFacts& FactsOf(const c10::FunctionSchema& schema) {
  static std::unordered_map<const c10::FunctionSchema*, SchemaFacts> known;
  const auto it = known.find(&schema);
  return it != known.end() ? it->second : known.emplace(&schema, Find(schema)).first->second;
}

bool ClampsToFormat(const c10::FunctionSchema& schema, const Stack& inputs) {
  if (inputs.empty() || !inputs[0].isTensor() || !IsFloat(inputs[0].toTensor())) return false;
  if (schema.name().starts_with("aten::fake_quantize")) return true;
  if (!schema.name().starts_with("aten::clamp")) return false;
  // As _CAST_LIMITS of the monitor's operators.py: how much of its tails int8 loses is its choice.
  constexpr std::array<double, 4> kLimits = {240, 448, 57344, 65504};
  const auto is_limit = [&](const char* bound) {
    const auto at = schema.argumentIndexWithName(bound);
    return at && static_cast<size_t>(*at) < inputs.size() && inputs[*at].isScalar() &&
           std::find(kLimits.begin(), kLimits.end(), std::abs(inputs[*at].toScalar().toDouble())) !=
               kLimits.end();
  };
  return is_limit("min") && is_limit("max");
}

void ForEachTensor(const IValue& value, const TensorVisit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) visit(each);
  } else if (value.isTuple()) {
    for (const IValue& each : value.toTupleRef().elements()) ForEachTensor(each, visit);
  } else if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    for (const IValue& each : value.toListRef()) ForEachTensor(each, visit);
  } else if (value.isGenericDict()) {
    for (const auto& each : value.toGenericDict()) ForEachTensor(each.value(), visit);
  }
}

void ForEachTensor(const Stack& values, const TensorVisit& visit) {
  for (const IValue& each : values) ForEachTensor(each, visit);
}

bool HasFloats(const Stack& values) {
  bool found = false;
  ForEachTensor(values, [&](const at::Tensor& tensor) { found = found || IsFloat(tensor); });
  return found;
}

IValue Replaced(const IValue& value, const TensorFunction& change) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return value;
    at::Tensor made = change(value.toTensor());
    return made.is_same(value.toTensor()) ? value : IValue(std::move(made));
  }
  if (!HoldsTensors(value)) return value;
  bool changes = false;
  const auto each_of = [&](const IValue& each) {
    IValue made = Replaced(each, change);
    changes = changes || !made.is(each);
    return made;
  };
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue& each : value.toTupleRef().elements()) items.push_back(each_of(each));
    return changes ? IValue(c10::ivalue::Tuple::create(std::move(items))) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(each_of(each).toTensor());
    return changes ? IValue(std::move(list)) : value;
  }
  const c10::List<IValue> old = value.toList();
  c10::impl::GenericList list(old.elementType());
  for (size_t at = 0; at < old.size(); ++at) list.push_back(each_of(old.get(at)));
  return changes ? IValue(std::move(list)) : value;
}

c10::ScalarType TypeFor(c10::ScalarType own, c10::ScalarType type) {
  if (c10::isComplexType(own)) {
    return type == c10::ScalarType::Double ? c10::ScalarType::ComplexDouble
                                           : c10::ScalarType::ComplexFloat;
  }
  return c10::isFloatingType(own) ? type : own;
}

at::Tensor InType(const at::Tensor& tensor, c10::ScalarType type) {
  const c10::ScalarType wanted = TypeFor(tensor.scalar_type(), type);
  if (wanted == tensor.scalar_type()) return tensor;
  return tensor.detach().to(wanted);
}

IValue OwnCopy(const IValue& value) {
  return Replaced(value, [](const at::Tensor& tensor) {
    if (!IsDense(tensor)) return tensor;
    at::Tensor copy = tensor.detach().clone();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
      copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
  });
}

std::vector<IValue> Call(const Node& node, Stack inputs) {
  node.run(inputs);
  // What an operator leaves are its outputs; nothing else was on this stack.
  return inputs;
}

std::vector<IValue> CallIn(c10::ScalarType type, const Node& node, const Stack& inputs) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocast);
  std::unordered_map<const c10::TensorImpl*, at::Tensor> made;  // one copy of one tensor
  const auto change = [&](const at::Tensor& tensor) {
    at::Tensor& copy = made[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) copy = InType(tensor, type);
    return copy;
  };
  Stack converted;
  converted.reserve(inputs.size());
  for (const IValue& each : inputs) converted.push_back(Replaced(each, change));
  std::vector<at::Tensor> written, targets;
  if (node.schema != nullptr) {
    const SchemaFacts& facts = FactsOf(*node.schema);
    for (const size_t at : facts.dtypes) {
      if (at >= converted.size() || !converted[at].isInt()) continue;
      const auto own = static_cast<c10::ScalarType>(converted[at].toInt());
      converted[at] = static_cast<int64_t>(TypeFor(own, type));
    }
    for (const size_t at : facts.written) {
      if (at >= converted.size() || !converted[at].isTensor()) continue;
      if (converted[at].toTensor().is_same(inputs[at].toTensor())) continue;
      written.push_back(converted[at].toTensor());
      targets.push_back(inputs[at].toTensor());
    }
  }
  std::vector<IValue> outputs = Call(node, std::move(converted));
  for (size_t at = 0; at < written.size(); ++at) targets[at].copy_(written[at]);
  return outputs;
}

}  // namespace mpnanny::worker
