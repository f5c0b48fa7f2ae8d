// Names that torch's own files import, and what they mean.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_TORCH_NAMES_H_
#define MPNANNY_ENGINES_TENSORS_TORCH_NAMES_H_

#include <string>
#include <vector>

#include "engines/tensors/element_type.h"
#include "engines/tensors/pickle.h"

namespace mpnanny::tensor_files {

// "torch FloatStorage" and "torch float32"; nullptr for anything else. `untyped` storages count
// bytes.
struct NamedType {
  const ElementType* type = nullptr;
  bool untyped = false;
};
NamedType TypeOfGlobal(const Node& global);

// True if `global` is module.name.
bool IsGlobal(const Node& global, std::string_view module, std::string_view name);

// Notes about what Python would import, and by that execute, besides what torch.load(…,
// weights_only=True) takes itself. Empty if there is nothing.
std::vector<std::string> NotesOfImports(const Pickle& pickle);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_TORCH_NAMES_H_
