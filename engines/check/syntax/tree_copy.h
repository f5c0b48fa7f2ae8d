// From tree-sitter's tree to the flat array of nodes.
//
// Reads the tree's own structures: tree-sitter's cursor, which works out rows, columns and numbers
// of descendants at every step, takes three times as long. tree_copy_test.cc holds the copy
// against what the cursor says. Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_TREE_COPY_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_TREE_COPY_H_

#include <cstdint>
#include <vector>

#include "engines/check/syntax/syntax.h"
#include "engines/check/syntax/tree_sitter.h"

namespace mpnanny::check {

struct TreeCopy {
  int depth = 0;  // how deep the nodes are nested
  int64_t error =
      -1;  // the byte at which the first error or missing token begins; -1: there is none
};

// Appends the nodes of a tree of the Python grammar; `nodes` holds the one before the first.
TreeCopy CopyTree(const TSTree& tree, std::vector<Node>* nodes);

// The kind of what tree-sitter says a node is.
Kind KindOf(TSSymbol symbol);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_TREE_COPY_H_
