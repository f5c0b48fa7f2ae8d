#include "engines/tensors/torch_names.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace mpnanny::tensor_files {
namespace {

constexpr size_t kMostShown = 12;

// torch/_weights_only_unpickler.py, _get_allowed_globals(); the families of names are below.
constexpr std::pair<std::string_view, std::string_view> kAllowed[] = {
    {"_codecs", "encode"},
    {"__builtin__", "bytearray"},
    {"__builtin__", "complex"},
    {"__builtin__", "set"},
    {"builtins", "bytearray"},
    {"builtins", "complex"},
    {"builtins", "set"},
    {"collections", "Counter"},
    {"collections", "OrderedDict"},
    {"torch", "Size"},
    {"torch", "Tensor"},
    {"torch", "device"},
    {"torch", "per_channel_affine"},
    {"torch", "per_channel_affine_float_qparams"},
    {"torch", "per_channel_symmetric"},
    {"torch", "per_tensor_affine"},
    {"torch", "per_tensor_symmetric"},
    {"torch._tensor", "_rebuild_from_type_v2"},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor"},
    {"torch._utils", "_rebuild_device_tensor_from_numpy"},
    {"torch._utils", "_rebuild_meta_tensor_no_storage"},
    {"torch._utils", "_rebuild_nested_tensor"},
    {"torch._utils", "_rebuild_parameter"},
    {"torch._utils", "_rebuild_parameter_with_state"},
    {"torch._utils", "_rebuild_qtensor"},
    {"torch._utils", "_rebuild_sparse_tensor"},
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._utils", "_rebuild_tensor_v3"},
    {"torch._utils", "_rebuild_wrapper_subclass"},
    {"torch.nn.parameter", "Parameter"},
    {"torch.serialization", "_get_layout"},
    {"torch.storage", "TypedStorage"},
    {"torch.storage", "UntypedStorage"},
};

// "int4", "uint7", "bits2x4", "quint4x2": a word for integers, then digits.
bool IsPackedType(std::string_view name) {
  for (const std::string_view word : {"int", "uint", "bits", "qint", "quint"}) {
    if (!name.starts_with(word) || name.size() == word.size()) continue;
    const auto rest = name.substr(word.size());
    if (rest.find_first_not_of("0123456789x") == std::string_view::npos) return true;
  }
  return false;
}

// "FloatStorage", "HalfTensor".
bool IsStorageOrTensor(std::string_view name) {
  for (const std::string_view word : {"Storage", "Tensor"}) {
    if (!name.ends_with(word)) continue;
    const std::string kind(name.substr(0, name.size() - word.size()));
    if (TypeByStorage(kind + "Storage") != nullptr || kind.starts_with("QUInt")) return true;
  }
  return false;
}

bool IsAllowed(const Node& global) {
  const std::pair<std::string_view, std::string_view> both(global.text, global.name);
  if (std::find(std::begin(kAllowed), std::end(kAllowed), both) != std::end(kAllowed)) return true;
  if (global.text == "torch" && (TypeByName(global.name) != nullptr || IsPackedType(global.name)))
    return true;
  return (global.text == "torch" || global.text == "torch.cuda" || global.text == "torch.sparse" ||
          global.text == "torch.cuda.sparse") &&
         IsStorageOrTensor(global.name);
}

}  // namespace

NamedType TypeOfGlobal(const Node& global) {
  if (global.kind != Node::kGlobal) return {};
  if (IsGlobal(global, "torch.storage", "UntypedStorage") ||
      IsGlobal(global, "torch", "UntypedStorage")) {
    return {TypeByName("uint8"), true};
  }
  if (global.text != "torch" && global.text != "torch.cuda") return {};
  if (const ElementType* const type = TypeByStorage(global.name)) return {type, false};
  return {TypeByName(global.name), false};
}

bool IsGlobal(const Node& global, std::string_view module, std::string_view name) {
  return global.kind == Node::kGlobal && global.text == module && global.name == name;
}

std::vector<std::string> NotesOfImports(const Pickle& pickle) {
  std::set<std::string> names;
  for (const Node& node : pickle.nodes) {
    if (node.kind != Node::kGlobal || IsAllowed(node)) continue;
    names.insert(EscapeControl(node.text, 100) + "." + EscapeControl(node.name, 100));
    if (names.size() > 1000) break;
  }
  if (names.empty()) return {};
  std::vector<std::string> shown(names.begin(), names.end());
  const size_t left_out = shown.size() > kMostShown ? shown.size() - kMostShown : 0;
  shown.resize(shown.size() - left_out);
  return {"Python would import and may run, when it unpickles the file: " + Join(shown, ", ") +
          (left_out > 0 ? " and " + std::to_string(left_out) + " more" : "") +
          ". Nothing of it was run here."};
}

}  // namespace mpnanny::tensor_files
