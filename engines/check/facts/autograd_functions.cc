#include "engines/check/facts/autograd_functions.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

bool DerivesFromFunction(const FileFacts& facts, NodeId klass) {
  for (const NodeId child : facts.syntax.Children(klass)) {
    if (!facts.syntax.Is(child, Kind::kArgumentList)) continue;
    for (const NodeId base : facts.syntax.Children(child)) {
      const std::string name = facts.names.Resolve(base);
      if (name == "torch.autograd.Function" || name == "torch.autograd.function.Function")
        return true;
    }
  }
  return false;
}

bool DecoratedWith(const FileFacts& facts, NodeId function, std::string_view name) {
  const NodeId decorated = facts.syntax[function].parent;
  if (!facts.syntax.Is(decorated, Kind::kDecorated)) return false;
  for (const NodeId child : facts.syntax.Children(decorated)) {
    if (facts.syntax.Is(child, Kind::kDecorator) &&
        facts.syntax.Text(child).find(name) != std::string_view::npos)
      return true;
  }
  return false;
}

constexpr std::string_view kCastFunctions[] = {"matmul",
                                               "mm",
                                               "bmm",
                                               "addmm",
                                               "baddbmm",
                                               "addbmm",
                                               "mv",
                                               "einsum",
                                               "linear",
                                               "conv1d",
                                               "conv2d",
                                               "conv3d",
                                               "conv_transpose1d",
                                               "conv_transpose2d",
                                               "conv_transpose3d"};

bool IsCastFunction(std::string_view name) {
  return std::find(std::begin(kCastFunctions), std::end(kCastFunctions), name) !=
         std::end(kCastFunctions);
}

}  // namespace

std::vector<AutogradFunction> FindAutogradFunctions(const FileFacts& facts) {
  std::vector<AutogradFunction> found;
  if (!Holds(facts.syntax.text(), "def backward")) return found;
  for (const Function& function : facts.bindings.functions()) {
    const bool forward = function.name == "forward";
    if (function.klass == kNoNode || (!forward && function.name != "backward")) continue;
    auto entry = std::find_if(found.begin(), found.end(), [&](const AutogradFunction& one) {
      return one.klass == function.klass;
    });
    if (entry == found.end()) {
      if (!DerivesFromFunction(facts, function.klass)) continue;
      found.push_back({function.klass, kNoNode, kNoNode, false, false});
      entry = std::prev(found.end());
    }
    (forward ? entry->forward : entry->backward) = function.node;
    if (forward) {
      entry->custom_fwd = DecoratedWith(facts, function.node, "custom_fwd");
    } else {
      // custom_fwd(cast_inputs=…) on backward casts as well.
      entry->custom_bwd = DecoratedWith(facts, function.node, "custom_bwd") ||
                          DecoratedWith(facts, function.node, "custom_fwd");
    }
  }
  std::erase_if(found, [](const AutogradFunction& one) {
    return one.forward == kNoNode || one.backward == kNoNode;
  });
  return found;
}

bool IsCastOperation(const FileFacts& facts, NodeId id) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  if (syntax[id].kind == Kind::kBinary) return syntax.Text(syntax.Child(id, f.operator_)) == "@";
  const Call* call = facts.names.CallAt(id);
  if (call == nullptr) return false;
  return IsCastFunction(call->callee.empty() ? call->method : TorchFunction(call->callee));
}

NodeId FirstCastOperation(const FileFacts& facts, NodeId root) {
  for (NodeId id = root; id < facts.syntax[root].after; ++id) {
    if (IsCastOperation(facts, id)) return id;
  }
  return kNoNode;
}

bool NamesAny(const FileFacts& facts, NodeId root, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    const std::vector<NodeId> uses = facts.names.Uses(word);
    return std::any_of(uses.begin(), uses.end(),
                       [&](NodeId use) { return use >= root && use < facts.syntax[root].after; });
  });
}

}  // namespace mpnanny::check
