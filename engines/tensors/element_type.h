// What an element of a tensor in a file is.
//
// Plain values; free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_ELEMENT_TYPE_H_
#define MPNANNY_ENGINES_TENSORS_ELEMENT_TYPE_H_

#include <optional>
#include <string_view>

#include "numerics/tensor_view.h"

namespace mpnanny::tensor_files {

enum class Reading {
  kFloat,     // as it lies, by numerics/
  kSigned,    // as FP64
  kUnsigned,  // as FP64; a boolean as its byte
  kNone,      // listed, not read: complex numbers, formats that numerics/ does not know
};

struct ElementType {
  std::string_view name;         // torch's: "float32"
  std::string_view safetensors;  // "F32"; empty: it has none
  std::string_view storage;      // torch's class of storages, "FloatStorage"; empty: none
  int exported;                  // number in a .pt2's JSON; 0: none
  int bits;
  Reading reading;
  DType dtype;  // of kFloat
};

// nullptr for an unknown word or number. Pointers live as long as the program.
const ElementType* TypeByName(std::string_view name);
const ElementType* TypeBySafetensors(std::string_view name);
const ElementType* TypeByStorage(std::string_view name);
const ElementType* TypeByExported(int64_t number);
// NumPy's kind and bytes: 'f' and 4.
const ElementType* TypeByNumpy(char kind, int bytes);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_ELEMENT_TYPE_H_
