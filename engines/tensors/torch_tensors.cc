#include "engines/tensors/torch_tensors.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/tensors/extent.h"

namespace mpnanny::tensor_files {
namespace {

using Nodes = std::vector<NodeId>;

class Walk {
 public:
  Walk(const Pickle& pickle, bool big_endian, const FindStorage& find, Contents& contents)
      : pickle_(pickle),
        big_endian_(big_endian),
        find_(find),
        contents_(contents),
        on_path_(pickle.nodes.size()) {}

  void Visit(NodeId id, const std::string& path, int depth) {
    const Node& node = pickle_[id];
    const bool holds = !node.items.empty() || !node.pairs.empty() || node.state != kNoNode;
    if (!holds || node.kind == Node::kPersistent || full_) return;
    if (++visits_ > kMostVisits || contents_.entries.size() >= kMostEntries) {
      full_ = true;
      return;
    }
    if (depth > kMostDepth || path.size() > kLongestKey || on_path_[id]) {
      ++left_out_;
      return;
    }
    on_path_[id] = true;
    if (node.kind == Node::kObject) {
      VisitObject(node, path, depth);
    } else {
      for (size_t i = 0; i < node.items.size(); ++i)
        Visit(node.items[i], Below(path, std::to_string(i)), depth + 1);
      VisitPairs(node, path, depth);
    }
    on_path_[id] = false;
  }

  void Report() {
    if (left_out_ > 0) {
      contents_.notes.push_back(std::to_string(left_out_) +
                                " values that contain themselves or are nested too deep were left "
                                "out");
    }
    if (full_) contents_.notes.push_back("the file holds more than is listed");
  }

 private:
  static std::string Below(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : path + "." + std::string(name);
  }

  std::string KeyText(NodeId id, size_t position) const {
    const Node& key = pickle_[id];
    if (key.kind == Node::kText) return std::string(key.text.substr(0, kLongestKey + 1));
    if (key.kind == Node::kInteger && !key.wide) return std::to_string(key.integer);
    return "#" + std::to_string(position);  // an optimizer's own state has parameters for keys
  }

  void VisitPairs(const Node& node, const std::string& path, int depth) {
    const bool module = IsModuleState(node);
    for (size_t i = 0; i + 1 < node.pairs.size(); i += 2) {
      const NodeId value = node.pairs[i + 1];
      const Node& held = pickle_[value];
      if (held.items.empty() && held.pairs.empty() && held.state == kNoNode) continue;
      const std::string name = KeyText(node.pairs[i], i / 2);
      const bool inner =
          module && (name == "_parameters" || name == "_buffers" || name == "_modules");
      Visit(value, inner ? path : Below(path, name), depth + 1);
    }
  }

  // What a whole torch.nn.Module has as its state: its keys are those of state_dict() then.
  bool IsModuleState(const Node& node) const {
    int found = 0;
    for (size_t i = 0; i + 1 < node.pairs.size(); i += 2) {
      const Node& key = pickle_[node.pairs[i]];
      found += key.kind == Node::kText && (key.text == "_parameters" || key.text == "_modules");
    }
    return found == 2;
  }

  void VisitObject(const Node& node, const std::string& path, int depth) {
    NodeId callable = node.items[0];
    NodeId arguments = node.items[1];
    // (function, type, its arguments, state): a tensor with attributes, or of a subclass.
    if (Is(callable, "torch._tensor", "_rebuild_from_type_v2") && Count(arguments) >= 3) {
      callable = Argument(arguments, 0);
      arguments = Argument(arguments, 2);
    }
    const bool parameter = Is(callable, "torch._utils", "_rebuild_parameter") ||
                           Is(callable, "torch._utils", "_rebuild_parameter_with_state");
    if (parameter && Count(arguments) >= 1) return Visit(Argument(arguments, 0), path, depth + 1);
    if (Rebuilt(callable, arguments, path)) return;
    // Anything else: its elements, attributes and arguments.
    for (size_t i = 2; i < node.items.size(); ++i)
      Visit(node.items[i], Below(path, std::to_string(i - 2)), depth + 1);
    VisitPairs(node, path, depth);
    if (node.state != kNoNode) Visit(node.state, path, depth + 1);
    Visit(arguments, path, depth + 1);
  }

  bool Is(NodeId id, std::string_view module, std::string_view name) const {
    return IsGlobal(pickle_[id], module, name);
  }
  size_t Count(NodeId tuple) const { return pickle_[tuple].items.size(); }
  NodeId Argument(NodeId tuple, size_t i) const { return pickle_[tuple].items[i]; }

  // A tensor, if this call would make one.
  bool Rebuilt(NodeId callable, NodeId arguments, const std::string& path) {
    if (pickle_[callable].kind != Node::kGlobal || pickle_[callable].text != "torch._utils")
      return false;
    const std::string_view name = pickle_[callable].name;
    const bool v3 = name == "_rebuild_tensor_v3";
    const bool quantized = name == "_rebuild_qtensor";
    Entry entry;
    entry.key = path.empty() ? "tensor" : path;
    entry.big_endian = big_endian_;
    if (name == "_rebuild_meta_tensor_no_storage" && Count(arguments) >= 3) {
      entry.type = TypeOfGlobal(pickle_[Argument(arguments, 0)]).type;
      if (!Sizes(Argument(arguments, 1), entry.shape)) entry.shape.clear();
      entry.problem = "it was saved on the device 'meta', without elements";
      return Add(std::move(entry));
    }
    if (!v3 && !quantized && name != "_rebuild_tensor" && name != "_rebuild_tensor_v2")
      return false;
    if (Count(arguments) < (v3 ? 7 : 4)) return false;
    StorageId storage;
    if (!TakeStorageId(pickle_, Argument(arguments, 0), storage)) return false;
    const Node& first = pickle_[Argument(arguments, 1)];
    if (!Sizes(Argument(arguments, 2), entry.shape) ||
        !Sizes(Argument(arguments, 3), entry.strides) || first.kind != Node::kInteger ||
        first.wide) {
      entry.shape.clear();
      entry.strides.clear();
      entry.problem = "its shape, strides or offset are no numbers";
      return Add(std::move(entry));
    }
    entry.first = first.integer;
    entry.type = v3 ? TypeOfGlobal(pickle_[Argument(arguments, 6)]).type : storage.type.type;
    const size_t metadata = v3 ? 7 : 6;
    if (quantized) {
      entry.problem = "it is quantized";
    } else if (Count(arguments) > metadata && IsNegated(Argument(arguments, metadata))) {
      entry.problem = "its elements are marked as negated or conjugated";
    } else {
      Place(storage, entry);
    }
    return Add(std::move(entry));
  }

  bool Add(Entry entry) {
    key_bytes_ += entry.key.size();
    if (key_bytes_ > kMostKeyBytes) {
      full_ = true;
    } else {
      contents_.entries.push_back(std::move(entry));
    }
    return true;
  }

  bool Sizes(NodeId id, std::vector<int64_t>& sizes) const {
    const Node* node = &pickle_[id];
    if (node->kind == Node::kObject && Is(node->items[0], "torch", "Size") &&
        Count(node->items[1]) == 1) {
      node = &pickle_[Argument(node->items[1], 0)];
    }
    if (node->kind != Node::kTuple && node->kind != Node::kList) return false;
    if (node->items.size() > kMostDimensions) return false;
    for (const NodeId item : node->items) {
      if (pickle_[item].kind != Node::kInteger || pickle_[item].wide) return false;
      sizes.push_back(pickle_[item].integer);
    }
    return true;
  }

  bool IsNegated(NodeId metadata) const {
    const Nodes& pairs = pickle_[metadata].pairs;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view key = pickle_[pairs[i]].text;
      if ((key == "neg" || key == "conj") && pickle_[pairs[i + 1]].integer != 0) return true;
    }
    return false;
  }

  void Place(const StorageId& storage, Entry& entry) const {
    if (storage.type.type == nullptr) {
      entry.problem = "the type of its storage is not known";
      return;
    }
    const auto bytes = ByteCount(storage.elements, storage.type.type->bits);
    StoragePlace place = find_(storage);
    if (place.problem.empty() &&
        (!bytes || *bytes < 0 || static_cast<uint64_t>(*bytes) > place.size)) {
      place.problem = "its storage of " + std::to_string(storage.elements) + " elements has only " +
                      std::to_string(place.size) + " bytes in the file";
    }
    if (!place.problem.empty()) {
      entry.problem = place.problem;
      return;
    }
    entry.storage_bytes = static_cast<uint64_t>(*bytes);
    entry.deflated = place.deflated;
    entry.storage = place.deflated ? place.bytes : place.bytes.first(entry.storage_bytes);
    if (place.deflated) entry.storage_bytes = place.size;
  }

  const Pickle& pickle_;
  const bool big_endian_;
  const FindStorage& find_;
  Contents& contents_;
  std::vector<bool> on_path_;
  size_t visits_ = 0, left_out_ = 0, key_bytes_ = 0;
  bool full_ = false;
};

}  // namespace

bool TakeStorageId(const Pickle& pickle, NodeId id, StorageId& storage) {
  const Node& node = pickle[id];
  if (node.kind != Node::kPersistent) return false;
  const Nodes& fields = pickle[node.items[0]].items;
  if (fields.size() < 5 || pickle[fields[0]].text != "storage") return false;
  const Node& elements = pickle[fields[4]];
  if (pickle[fields[2]].kind != Node::kText || elements.kind != Node::kInteger || elements.wide)
    return false;
  storage = {TypeOfGlobal(pickle[fields[1]]), pickle[fields[2]].text, elements.integer};
  return true;
}

void CollectTensors(const Pickle& pickle, const std::string& prefix, bool big_endian,
                    const FindStorage& find, Contents& contents) {
  Walk walk(pickle, big_endian, find, contents);
  walk.Visit(pickle.root, prefix, 0);
  walk.Report();
}

}  // namespace mpnanny::tensor_files
