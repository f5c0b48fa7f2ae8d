#include "engines/worker/program/exported_values.h"

#include <ATen/ATen.h>
#include <ATen/core/List.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/text.h"

namespace mpnanny::worker {
namespace {

using c10::ScalarType;
using c10::TypeKind;

[[noreturn]] void Unknown(const std::string& what) {
  throw ModelProblem("The program holds " + EscapeControl(what, 200) + ", which is not followed.",
                     "Compare the model in Python: model.py:build.");
}

// torch/_export/serde/schema.py: ScalarType.
ScalarType ExportedType(int64_t number) {
  switch (number) {
    case 1:
      return ScalarType::Byte;
    case 2:
      return ScalarType::Char;
    case 3:
      return ScalarType::Short;
    case 4:
      return ScalarType::Int;
    case 5:
      return ScalarType::Long;
    case 6:
      return ScalarType::Half;
    case 7:
      return ScalarType::Float;
    case 8:
      return ScalarType::Double;
    case 9:
      return ScalarType::ComplexHalf;
    case 10:
      return ScalarType::ComplexFloat;
    case 11:
      return ScalarType::ComplexDouble;
    case 12:
      return ScalarType::Bool;
    case 13:
      return ScalarType::BFloat16;
    case 28:
      return ScalarType::UInt16;
    case 29:
      return ScalarType::Float8_e4m3fn;
    case 30:
      return ScalarType::Float8_e5m2;
    default:
      Unknown("a dtype of number " + std::to_string(number));
  }
}

// The same of MemoryFormat.
at::MemoryFormat ExportedFormat(int64_t number) {
  switch (number) {
    case 1:
      return at::MemoryFormat::Contiguous;
    case 2:
      return at::MemoryFormat::ChannelsLast;
    case 3:
      return at::MemoryFormat::ChannelsLast3d;
    default:
      return at::MemoryFormat::Preserve;
  }
}

constexpr int64_t kStrided = 7;  // the same of Layout

int64_t Integer(const Json& json) {
  if (!json.is_number_integer()) Unknown("no number where one belongs");
  return json.get<int64_t>();
}

double Float(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string word = json.is_string() ? json.get<std::string>() : "";
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::nan("");
  Unknown("no number where one belongs");
}

// What a number becomes where a tensor is wanted: as torch wraps it, so that it does not take part
// in type promotion.
IValue Wrapped(const at::Scalar& number) {
  at::Tensor tensor = at::scalar_tensor(number, number.isFloatingPoint() ? at::kDouble
                                                : number.isBoolean()     ? at::kBool
                                                                         : at::kLong);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::TypePtr Inner(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

IValue Number(const Json& json, const std::string& key, const c10::TypePtr& type) {
  const TypeKind kind = Inner(type)->kind();
  if (key == "as_bool") {
    if (!json.is_boolean()) Unknown("no boolean where one belongs");
    return kind == TypeKind::TensorType ? Wrapped(json.get<bool>()) : IValue(json.get<bool>());
  }
  if (key == "as_int") {
    if (kind == TypeKind::TensorType) return Wrapped(Integer(json));
    if (kind == TypeKind::FloatType) return static_cast<double>(Integer(json));
    return Integer(json);
  }
  return kind == TypeKind::TensorType ? Wrapped(Float(json)) : IValue(Float(json));
}

template <typename T, typename Make>
IValue ListOf(const Json& json, Make make) {
  if (!json.is_array()) Unknown("no list where one belongs");
  c10::List<T> list;
  for (const Json& each : json) list.push_back(make(each));
  return list;
}

bool TakesFloats(const c10::TypePtr& type) {
  const auto list = Inner(type)->cast<c10::ListType>();
  return list && list->getElementType()->kind() == TypeKind::FloatType;
}

// Lists of sizes, of which some may be names.
std::optional<IValue> Sizes(const Json& json) {
  if (!json.is_array()) Unknown("no list where one belongs");
  c10::List<int64_t> sizes;
  for (const Json& each : json) {
    if (!each.contains("as_int")) return std::nullopt;
    sizes.push_back(Integer(each["as_int"]));
  }
  return sizes;
}

}  // namespace

std::pair<std::string, const Json*> UnionOf(const Json& json) {
  if (!json.is_object() || json.size() != 1) Unknown("an argument of no kind");
  const auto it = json.begin();
  return {it.key(), &it.value()};
}

std::string NameOf(const Json& argument) {
  if (!argument.is_object() || argument.size() != 1) return "";
  const Json& held = argument.begin().value();
  for (const char* key : {"name", "as_name"}) {
    if (held.is_object() && held.contains(key) && held[key].is_string())
      return held[key].get<std::string>();
  }
  if (held.is_object() && held.size() == 1 && held.contains("as_tensor")) return NameOf(held);
  return "";
}

std::string NameOfItem(const Json& item) {
  for (const char* key : {"name", "as_name"}) {
    if (item.is_object() && item.contains(key) && item[key].is_string())
      return item[key].get<std::string>();
  }
  return NameOf(item);
}

std::optional<IValue> ConstantOf(const Json& argument, const c10::TypePtr& type) {
  const auto [key, at] = UnionOf(argument);
  const Json& json = *at;
  if (key == "as_none") return IValue();
  if (key == "as_int" || key == "as_float" || key == "as_bool") return Number(json, key, type);
  if (key == "as_string" && json.is_string()) return json.get<std::string>();
  if (key == "as_ints") {
    return TakesFloats(type) ? ListOf<double>(json, Float) : ListOf<int64_t>(json, Integer);
  }
  if (key == "as_floats") return ListOf<double>(json, Float);
  if (key == "as_bools") {
    return ListOf<bool>(json,
                        [](const Json& each) { return each.is_boolean() && each.get<bool>(); });
  }
  if (key == "as_strings") {
    return ListOf<std::string>(
        json, [](const Json& each) { return each.is_string() ? each.get<std::string>() : ""; });
  }
  if (key == "as_scalar_type") return static_cast<int64_t>(ExportedType(Integer(json)));
  if (key == "as_memory_format") return static_cast<int64_t>(ExportedFormat(Integer(json)));
  if (key == "as_layout") {
    if (Integer(json) != kStrided) Unknown("a tensor that is not strided");
    return static_cast<int64_t>(at::Layout::Strided);
  }
  if (key == "as_device") return at::Device(at::kCPU);  // whatever it was exported for
  if (key == "as_complex" && json.is_object()) {
    return c10::complex<double>(Float(ValueAt(json, {"real"})), Float(ValueAt(json, {"imag"})));
  }
  if (key == "as_sym_ints") return Sizes(json);
  if (key == "as_sym_int" && json.is_object() && json.contains("as_int"))
    return Integer(json["as_int"]);
  if (key == "as_sym_bool" && json.is_object() && json.contains("as_bool"))
    return json["as_bool"] == true;
  if (key == "as_sym_float" && json.is_object() && json.contains("as_float"))
    return Float(json["as_float"]);
  if (key == "as_optional_tensor" && json.is_object() && json.contains("as_none")) return IValue();
  constexpr std::array kNamed = {"as_tensor",           "as_tensors",   "as_optional_tensor",
                                 "as_optional_tensors", "as_sym_int",   "as_sym_bool",
                                 "as_sym_float",        "as_sym_bools", "as_sym_floats",
                                 "as_nested_tensors"};
  for (const char* named : kNamed) {
    if (key == named) return std::nullopt;
  }
  Unknown("an argument of the kind " + key);
}

const std::string& TextAt(const Json& json, const char* key) {
  const Json& text = ValueAt(json, {key});
  if (!text.is_string())
    throw ModelProblem(std::string("The description has no \"") + key + "\" where one belongs.",
                       "");
  return text.get_ref<const std::string&>();
}

}  // namespace mpnanny::worker
