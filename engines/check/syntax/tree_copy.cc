#include "engines/check/syntax/tree_copy.h"

#include <src/language.h>
#include <src/tree.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace mpnanny::check {
namespace {

constexpr std::pair<std::string_view, Kind> kKinds[] = {
    {"module", Kind::kModule},
    {"identifier", Kind::kIdentifier},
    {"attribute", Kind::kAttribute},
    {"call", Kind::kCall},
    {"argument_list", Kind::kArgumentList},
    {"keyword_argument", Kind::kKeywordArgument},
    {"assignment", Kind::kAssignment},
    {"augmented_assignment", Kind::kAugmentedAssignment},
    {"named_expression", Kind::kNamedExpression},
    {"expression_statement", Kind::kExpressionStatement},
    {"block", Kind::kBlock},
    {"function_definition", Kind::kFunction},
    {"class_definition", Kind::kClass},
    {"decorated_definition", Kind::kDecorated},
    {"decorator", Kind::kDecorator},
    {"lambda", Kind::kLambda},
    {"if_statement", Kind::kIf},
    {"elif_clause", Kind::kElif},
    {"else_clause", Kind::kElse},
    {"for_statement", Kind::kFor},
    {"while_statement", Kind::kWhile},
    {"try_statement", Kind::kTry},
    {"except_clause", Kind::kExcept},
    {"except_group_clause", Kind::kExcept},
    {"finally_clause", Kind::kFinally},
    {"with_statement", Kind::kWith},
    {"with_item", Kind::kWithItem},
    {"as_pattern", Kind::kAsPattern},
    {"match_statement", Kind::kMatch},
    {"case_clause", Kind::kCaseClause},
    {"return_statement", Kind::kReturn},
    {"raise_statement", Kind::kRaise},
    {"break_statement", Kind::kBreak},
    {"continue_statement", Kind::kContinue},
    {"import_statement", Kind::kImport},
    {"import_from_statement", Kind::kImportFrom},
    {"aliased_import", Kind::kAliasedImport},
    {"dotted_name", Kind::kDottedName},
    {"relative_import", Kind::kRelativeImport},
    {"parameters", Kind::kParameters},
    {"default_parameter", Kind::kDefaultParameter},
    {"typed_parameter", Kind::kTypedParameter},
    {"typed_default_parameter", Kind::kTypedDefaultParameter},
    {"binary_operator", Kind::kBinary},
    {"unary_operator", Kind::kUnary},
    {"boolean_operator", Kind::kBoolean},
    {"not_operator", Kind::kNot},
    {"comparison_operator", Kind::kComparison},
    {"conditional_expression", Kind::kConditional},
    {"subscript", Kind::kSubscript},
    {"parenthesized_expression", Kind::kParenthesized},
    {"integer", Kind::kInteger},
    {"float", Kind::kFloat},
    {"string", Kind::kString},
    {"true", Kind::kTrue},
    {"false", Kind::kFalse},
    {"none", Kind::kNone},
    {"tuple", Kind::kTuple},
    {"pattern_list", Kind::kPatternList},
    {"tuple_pattern", Kind::kPatternList},
    {"list_pattern", Kind::kPatternList},
    {"expression_list", Kind::kExpressionList},
    {"list", Kind::kList},
    {"dictionary", Kind::kDictionary},
    {"pair", Kind::kPair},
    {"comment", Kind::kComment},
    {"ERROR", Kind::kError},
    {"global_statement", Kind::kGlobal},
    {"nonlocal_statement", Kind::kGlobal},
    {"delete_statement", Kind::kDelete},
    {"list_splat", Kind::kListSplat},
    {"dictionary_splat", Kind::kDictSplat},
    {"await", Kind::kAwait},
};

// What the copy needs to know of a symbol of the grammar.
struct SymbolInfo {
  Kind kind = Kind::kOther;
  bool named = false;
  bool kept = false;  // named, or a token that may be an operator: the others carry no field
};

const std::vector<SymbolInfo>& Symbols() {
  static const std::vector<SymbolInfo> symbols = [] {
    const TSLanguage* language = tree_sitter_python();
    std::vector<SymbolInfo> table(ts_language_symbol_count(language));
    for (size_t symbol = 0; symbol < table.size(); ++symbol) {
      const auto id = static_cast<TSSymbol>(symbol);
      SymbolInfo& info = table[symbol];
      const std::string_view name = ts_language_symbol_name(language, id);
      info.named = ts_language_symbol_type(language, id) == TSSymbolTypeRegular;
      info.kept = info.named || name.find_first_of("+-*/%@&|^~<>!") != std::string_view::npos ||
                  name == "and" || name == "or" || name == "not" || name == "in" || name == "is" ||
                  name == "not in" || name == "is not" || name == "==";
      if (!info.named) {
        info.kind = Kind::kOperator;
        continue;
      }
      for (const auto& [text, kind] : kKinds) {
        if (text == name) info.kind = kind;
      }
    }
    return table;
  }();
  return symbols;
}

SymbolInfo InfoOf(const std::vector<SymbolInfo>& symbols, TSSymbol symbol) {
  // The symbol of an error is beyond the table.
  return symbol < symbols.size() ? symbols[symbol] : SymbolInfo{Kind::kError, true, true};
}

// The children of one subtree that are still to come. A subtree that is no node of its own (the
// grammar's hidden rules) lends its children to the node around it.
struct Level {
  const Subtree* next = nullptr;
  const Subtree* end = nullptr;
  uint32_t byte = 0;                  // at which the last child ended
  uint32_t structural = 0;            // number of the next child that is no comment
  const TSSymbol* aliases = nullptr;  // by that number: the name that the rule gives a child
  const TSFieldMapEntry* fields = nullptr;
  const TSFieldMapEntry* fields_end = nullptr;
  uint16_t outer = 0;  // the field of a hidden subtree, which is that of its children too
  bool is_node = false;
};

Level LevelOf(const TSLanguage& grammar, Subtree subtree, uint32_t begin, uint16_t outer,
              bool is_node) {
  Level level;
  level.next = ts_subtree_children(subtree);
  level.end = level.next + subtree.ptr->child_count;
  level.byte = begin - ts_subtree_padding(*level.next).bytes;  // the first child's space is before
  const uint32_t production = subtree.ptr->production_id;
  level.aliases = ts_language_alias_sequence(&grammar, production);
  ts_language_field_map(&grammar, production, &level.fields, &level.fields_end);
  level.outer = outer;
  level.is_node = is_node;
  return level;
}

uint16_t FieldOf(const Level& level, uint32_t structural) {
  for (const TSFieldMapEntry* entry = level.fields; entry < level.fields_end; ++entry) {
    if (!entry->inherited && entry->child_index == structural) return entry->field_id;
  }
  return level.outer;
}

}  // namespace

Kind KindOf(TSSymbol symbol) { return InfoOf(Symbols(), symbol).kind; }

TreeCopy CopyTree(const TSTree& tree, std::vector<Node>* nodes) {
  const std::vector<SymbolInfo>& symbols = Symbols();
  const TSLanguage& grammar = *tree.language;
  TreeCopy copy;
  struct Open {
    NodeId id;
    NodeId last;  // its last child so far
  };
  std::vector<Open> open;
  std::vector<Level> levels;
  const auto size = [&] { return static_cast<NodeId>(nodes->size()) - 1; };
  const auto at = [&](NodeId id) -> Node& { return (*nodes)[static_cast<size_t>(id + 1)]; };
  const auto add = [&](Subtree subtree, TSSymbol symbol, uint16_t field, uint32_t begin) {
    if (copy.error < 0 && (symbol == ts_builtin_sym_error || ts_subtree_missing(subtree)))
      copy.error = begin;
    const SymbolInfo info = InfoOf(symbols, symbol);
    if (!info.named && (!info.kept || field == 0)) return;
    const NodeId id = size();
    Node& node = nodes->emplace_back();
    node.kind = info.kind;
    node.field = info.kept ? field : 0;
    node.begin = begin;
    node.end = begin + ts_subtree_size(subtree).bytes;
    if (!open.empty()) {
      Open& above = open.back();
      node.parent = above.id;
      (above.last == kNoNode ? at(above.id).first_child : at(above.last).next_sibling) = id;
      above.last = id;
    }
    if (ts_subtree_visible_child_count(subtree) == 0) {
      node.after = id + 1;
      return;
    }
    open.push_back({id, kNoNode});
    copy.depth = std::max(copy.depth, static_cast<int>(open.size()));
    levels.push_back(LevelOf(grammar, subtree, begin, 0, true));
  };
  add(tree.root, ts_language_public_symbol(&grammar, ts_subtree_symbol(tree.root)), 0,
      ts_subtree_padding(tree.root).bytes);
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.end) {
      if (level.is_node) {
        at(open.back().id).after = size();
        open.pop_back();
      }
      levels.pop_back();
      continue;
    }
    const Subtree child = *level.next++;
    const uint32_t begin = level.byte + ts_subtree_padding(child).bytes;
    level.byte = begin + ts_subtree_size(child).bytes;
    TSSymbol alias = 0;
    uint16_t field = 0;
    if (!ts_subtree_extra(child)) {
      if (level.aliases != nullptr) alias = level.aliases[level.structural];
      field = FieldOf(level, level.structural++);
    }
    if (alias != 0 || ts_subtree_visible(child)) {
      const TSSymbol symbol = alias != 0 ? alias : ts_subtree_symbol(child);
      add(child, ts_language_public_symbol(&grammar, symbol), field, begin);
    } else if (ts_subtree_visible_child_count(child) > 0) {
      levels.push_back(LevelOf(grammar, child, begin, field, false));
    }
  }
  return copy;
}

}  // namespace mpnanny::check
