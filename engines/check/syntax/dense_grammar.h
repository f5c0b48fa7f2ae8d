// tree-sitter-python with one flat parse table instead of most of its states as lists.
//
// The grammar comes with lists for the states in which few symbols may follow (2,619 of 2,809), and
// the parser searches them symbol by symbol; in a table it looks once. Costs 1.5 MB, makes parsing
// about a tenth faster (bench/static_check_speed.cc measures), changes no tree. Static lifetime;
// any thread.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_DENSE_GRAMMAR_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_DENSE_GRAMMAR_H_

#include <tree_sitter/api.h>

namespace mpnanny::check {

// To parse with.
const TSLanguage* DenseGrammar();

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_DENSE_GRAMMAR_H_
