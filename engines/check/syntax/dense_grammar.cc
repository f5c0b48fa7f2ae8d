#include "engines/check/syntax/dense_grammar.h"

#include <tree_sitter/parser.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engines/check/syntax/tree_sitter.h"

namespace mpnanny::check {
namespace {

// The table of all states: for each of them what every symbol leads to, 0 for an error.
std::vector<uint16_t> DenseTable(const TSLanguage& grammar) {
  const size_t width = grammar.symbol_count;
  std::vector<uint16_t> table(grammar.state_count * width);
  std::copy_n(grammar.parse_table, grammar.large_state_count * width, table.begin());
  for (size_t state = grammar.large_state_count; state < grammar.state_count; ++state) {
    // A list is its number of groups; each group is what its symbols lead to, their number, and
    // they themselves.
    const uint16_t* at = grammar.small_parse_table +
                         grammar.small_parse_table_map[state - grammar.large_state_count];
    for (int groups = *at++; groups > 0; --groups) {
      const uint16_t leads_to = *at++;
      for (int symbols = *at++; symbols > 0; --symbols) table[state * width + *at++] = leads_to;
    }
  }
  return table;
}

}  // namespace

const TSLanguage* DenseGrammar() {
  static const std::vector<uint16_t> table = DenseTable(*tree_sitter_python());
  static const TSLanguage grammar = [] {
    TSLanguage dense = *tree_sitter_python();
    dense.parse_table = table.data();
    dense.large_state_count = dense.state_count;
    return dense;
  }();
  return &grammar;
}

}  // namespace mpnanny::check
