#include "engines/tensors/element_type.h"

#include <string>

namespace mpnanny::tensor_files {
namespace {

using enum Reading;
constexpr DType kNot = DType::kUnknown;

constexpr ElementType kTypes[] = {
    {"float32", "F32", "FloatStorage", 7, 32, kFloat, DType::kFloat32},
    {"float16", "F16", "HalfStorage", 6, 16, kFloat, DType::kFloat16},
    {"bfloat16", "BF16", "BFloat16Storage", 13, 16, kFloat, DType::kBFloat16},
    {"float64", "F64", "DoubleStorage", 8, 64, kFloat, DType::kFloat64},
    {"float8_e4m3fn", "F8_E4M3", "", 29, 8, kFloat, DType::kFloat8E4M3},
    {"float8_e5m2", "F8_E5M2", "", 30, 8, kFloat, DType::kFloat8E5M2},
    {"int64", "I64", "LongStorage", 5, 64, kSigned, kNot},
    {"int32", "I32", "IntStorage", 4, 32, kSigned, kNot},
    {"int16", "I16", "ShortStorage", 3, 16, kSigned, kNot},
    {"int8", "I8", "CharStorage", 2, 8, kSigned, kNot},
    {"uint8", "U8", "ByteStorage", 1, 8, kUnsigned, kNot},
    {"uint16", "U16", "", 28, 16, kUnsigned, kNot},
    {"uint32", "U32", "", 34, 32, kUnsigned, kNot},
    {"uint64", "U64", "", 35, 64, kUnsigned, kNot},
    {"bool", "BOOL", "BoolStorage", 12, 8, kUnsigned, kNot},
    {"complex32", "", "", 9, 32, kNone, kNot},
    {"complex64", "C64", "ComplexFloatStorage", 10, 64, kNone, kNot},
    {"complex128", "", "ComplexDoubleStorage", 11, 128, kNone, kNot},
    {"float8_e4m3fnuz", "F8_E4M3FNUZ", "", 31, 8, kNone, kNot},
    {"float8_e5m2fnuz", "F8_E5M2FNUZ", "", 32, 8, kNone, kNot},
    {"float8_e8m0fnu", "F8_E8M0", "", 33, 8, kNone, kNot},
    {"float4_e2m1fn_x2", "F4", "", 0, 4, kNone, kNot},  // safetensors counts its halves
    {"qint8", "", "QInt8Storage", 0, 8, kNone, kNot},
    {"quint8", "", "QUInt8Storage", 0, 8, kNone, kNot},
    {"qint32", "", "QInt32Storage", 0, 32, kNone, kNot},
    {"longdouble", "", "", 0, 128, kNone, kNot},  // NumPy's, of 80 bits in 16 bytes
};

template <typename Fits>
const ElementType* Find(Fits fits) {
  for (const ElementType& type : kTypes) {
    if (fits(type)) return &type;
  }
  return nullptr;
}

}  // namespace

const ElementType* TypeByName(std::string_view name) {
  return Find([&](const ElementType& type) { return type.name == name; });
}

const ElementType* TypeBySafetensors(std::string_view name) {
  return Find([&](const ElementType& type) {
    return !type.safetensors.empty() && type.safetensors == name;
  });
}

const ElementType* TypeByStorage(std::string_view name) {
  return Find(
      [&](const ElementType& type) { return !type.storage.empty() && type.storage == name; });
}

const ElementType* TypeByExported(int64_t number) {
  return Find(
      [&](const ElementType& type) { return type.exported != 0 && type.exported == number; });
}

const ElementType* TypeByNumpy(char kind, int bytes) {
  if (kind == 'b') return bytes == 1 ? TypeByName("bool") : nullptr;
  if (kind == 'f' && bytes == 16) return TypeByName("longdouble");
  const char* const word = kind == 'f'   ? "float"
                           : kind == 'i' ? "int"
                           : kind == 'u' ? "uint"
                           : kind == 'c' ? "complex"
                                         : nullptr;
  if (word == nullptr || bytes > 16) return nullptr;
  return TypeByName(word + std::to_string(8 * bytes));
}

}  // namespace mpnanny::tensor_files
