// Ownership for tree-sitter's C handles, and nothing more.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_TREE_SITTER_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_TREE_SITTER_H_

#include <tree_sitter/api.h>

#include <memory>

extern "C" const TSLanguage* tree_sitter_python(void);

namespace mpnanny::check {

template <auto kDelete>
struct HandleDeleter {
  template <typename T>
  void operator()(T* handle) const {
    kDelete(handle);
  }
};

using TsParser = std::unique_ptr<TSParser, HandleDeleter<ts_parser_delete>>;
using TsTree = std::unique_ptr<TSTree, HandleDeleter<ts_tree_delete>>;

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_TREE_SITTER_H_
