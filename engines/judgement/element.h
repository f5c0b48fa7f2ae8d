// The type of a tensor's elements, under torch's name: of everything that an operator can make, as
// whole numbers and masks are.
#ifndef MPNANNY_ENGINES_JUDGEMENT_ELEMENT_H_
#define MPNANNY_ENGINES_JUDGEMENT_ELEMENT_H_

#include "base/word.h"

namespace mpnanny {
namespace judgement {

enum class Element {
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kFloat8E4M3,
  kFloat8E5M2,
  kComplex32,
  kComplex64,
  kComplex128,
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kOther
};

// Half the distance to the next number at 1: the largest relative error of one rounding. 0 of what
// is no floating-point type.
constexpr double HalfUlp(Element type) {
  switch (type) {
    case Element::kFloat16:
    case Element::kComplex32:
      return 0x1p-11;
    case Element::kBFloat16:
      return 0x1p-8;
    case Element::kFloat32:
    case Element::kComplex64:
      return 0x1p-24;
    case Element::kFloat64:
    case Element::kComplex128:
      return 0x1p-53;
    case Element::kFloat8E4M3:
      return 0x1p-4;
    case Element::kFloat8E5M2:
      return 0x1p-3;
    default:
      return 0;
  }
}

// Whether a type holds less than FP32 does.
constexpr bool IsNarrow(Element type) { return HalfUlp(type) > HalfUlp(Element::kFloat32); }

}  // namespace judgement

template <>
struct Vocabulary<judgement::Element> {
  static constexpr const char* kNames[] = {"float16",       "bfloat16",    "float32",   "float64",
                                           "float8_e4m3fn", "float8_e5m2", "complex32", "complex64",
                                           "complex128",    "bool",        "uint8",     "int8",
                                           "int16",         "int32",       "int64",     "other"};
};

}  // namespace mpnanny

#endif  // MPNANNY_ENGINES_JUDGEMENT_ELEMENT_H_
