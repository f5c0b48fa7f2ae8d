#include "engines/worker/tensor_types.h"

#include <array>
#include <utility>

namespace mpnanny::worker {
namespace {

using c10::ScalarType;

// Names in torch's words first.
constexpr std::array<std::pair<std::string_view, ScalarType>, 28> kNames = {{
    {"float64", ScalarType::Double},
    {"float32", ScalarType::Float},
    {"float16", ScalarType::Half},
    {"bfloat16", ScalarType::BFloat16},
    {"float8_e4m3fn", ScalarType::Float8_e4m3fn},
    {"float8_e5m2", ScalarType::Float8_e5m2},
    {"int64", ScalarType::Long},
    {"int32", ScalarType::Int},
    {"int16", ScalarType::Short},
    {"int8", ScalarType::Char},
    {"uint8", ScalarType::Byte},
    {"bool", ScalarType::Bool},
    {"complex64", ScalarType::ComplexFloat},
    {"complex128", ScalarType::ComplexDouble},
    {"complex32", ScalarType::ComplexHalf},
    {"uint16", ScalarType::UInt16},
    {"uint32", ScalarType::UInt32},
    {"uint64", ScalarType::UInt64},
    {"double", ScalarType::Double},
    {"fp32", ScalarType::Float},
    {"float", ScalarType::Float},
    {"fp16", ScalarType::Half},
    {"half", ScalarType::Half},
    {"bf16", ScalarType::BFloat16},
    {"e4m3", ScalarType::Float8_e4m3fn},
    {"e5m2", ScalarType::Float8_e5m2},
    {"long", ScalarType::Long},
    {"int", ScalarType::Long},
}};

}  // namespace

std::optional<ScalarType> ScalarTypeByName(std::string_view name) {
  for (const auto& [word, type] : kNames) {
    if (word == name) return type;
  }
  return std::nullopt;
}

std::optional<ScalarType> ScalarTypeOf(const tensor_files::ElementType& type) {
  return ScalarTypeByName(type.name);
}

std::string NameOf(ScalarType type) {
  for (const auto& [word, each] : kNames) {
    if (each == type) return std::string(word);
  }
  return c10::toString(type);
}

ScalarType Wide(ScalarType type) {
  return c10::isComplexType(type) ? ScalarType::ComplexDouble : ScalarType::Double;
}

bool IsFloat(ScalarType type) { return c10::isFloatingType(type) || c10::isComplexType(type); }

bool IsFloat(const at::Tensor& tensor) { return tensor.defined() && IsFloat(tensor.scalar_type()); }

bool IsDense(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized();
}

const void* MemoryOf(const at::Tensor& tensor) {
  return IsDense(tensor) ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

bool IsNarrow(ScalarType type) {
  return IsFloat(type) && type != ScalarType::Float && type != ScalarType::Double &&
         type != ScalarType::ComplexFloat && type != ScalarType::ComplexDouble;
}

judgement::Element ElementOf(ScalarType type) {
  return FindNamed<judgement::Element>(NameOf(type)).value_or(judgement::Element::kOther);
}

DType DTypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return DType::kFloat32;
    case ScalarType::Half:
      return DType::kFloat16;
    case ScalarType::BFloat16:
      return DType::kBFloat16;
    case ScalarType::Double:
      return DType::kFloat64;
    case ScalarType::Float8_e4m3fn:
      return DType::kFloat8E4M3;
    case ScalarType::Float8_e5m2:
      return DType::kFloat8E5M2;
    default:
      return DType::kUnknown;
  }
}

}  // namespace mpnanny::worker
