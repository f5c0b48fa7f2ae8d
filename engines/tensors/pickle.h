// A pickle machine that executes nothing: what Python would import is a name, what it would call is
// an Object with that name and its arguments.
//
// What is read borrows the pickle's bytes, and is owned by its reader. Nodes refer to each other by
// number, so lists that contain themselves are no trouble; whoever walks them must bound the depth
// and the number of visits (a node may be reached by 2^n ways).
#ifndef MPNANNY_ENGINES_TENSORS_PICKLE_H_
#define MPNANNY_ENGINES_TENSORS_PICKLE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny::tensor_files {

inline constexpr uint64_t kMostPickleBytes = uint64_t{64} << 20;
inline constexpr size_t kMostPickleNodes = 4'000'000;
inline constexpr size_t kMostGlobalBytes = 1'000;  // of a module's or a class's name

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

struct Node {
  enum Kind : uint8_t {
    kNone,
    kBool,
    kInteger,  // beyond int64: `wide`, without a value
    kReal,
    kText,  // str, and bytes; escapes of protocol 0 stay as they are
    kTuple,
    kList,
    kDict,
    kSet,
    kGlobal,      // `text`: the module, `name`: what is taken from it
    kObject,      // callable(*arguments), with what was set on it afterwards
    kPersistent,  // of items[0]
  };
  Kind kind = kNone;
  bool wide = false;
  NodeId state = kNoNode;  // of an object: what BUILD gave it
  int64_t integer = 0;
  double real = 0;
  std::string_view text = {};
  std::string_view name = {};
  std::vector<NodeId> items = {};  // elements; of an object {callable, arguments}
  std::vector<NodeId> pairs = {};  // key, value, key, value …; of a dict or an object
};

struct Pickle {
  std::vector<Node> nodes;
  NodeId root = kNoNode;
  size_t bytes = 0;  // up to and with STOP: another pickle may follow

  const Node& operator[](NodeId id) const { return nodes[id]; }
};

Result<Pickle> ReadPickle(std::span<const uint8_t> bytes);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_PICKLE_H_
