// The flat copy of a syntax tree says what tree-sitter's own cursor says, node by node: the copy
// reads structures that tree-sitter does not promise to keep.
#include "engines/check/syntax/tree_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "engines/check/syntax/dense_grammar.h"
#include "engines/check/syntax/tree_sitter.h"

namespace mpnanny::check {
namespace {

// Kind, field, bytes and parent of a node.
using Row = std::tuple<Kind, uint16_t, uint32_t, uint32_t, NodeId>;

struct Walk {
  std::vector<Row> rows;
  uint32_t error_row = 0;  // 1-based; 0: no error
};

void Visit(TSTreeCursor* cursor, NodeId parent, Walk* walk) {
  do {
    const TSNode node = ts_tree_cursor_current_node(cursor);
    if (walk->error_row == 0 && (ts_node_is_error(node) || ts_node_is_missing(node)))
      walk->error_row = ts_node_start_point(node).row + 1;
    const Kind kind = KindOf(ts_node_symbol(node));
    const bool named = ts_node_is_named(node);
    const std::string_view type = ts_node_type(node);
    // Of the tokens only operators are kept; the names of fields stand at other tokens too.
    const bool word = type == "and" || type == "or" || type == "not" || type == "in" ||
                      type == "is" || type == "not in" || type == "is not" || type == "==";
    const bool sign = type.find_first_of("+-*/%@&|^~<>!") != std::string_view::npos;
    const uint16_t field =
        named || word || sign ? ts_tree_cursor_current_field_id(cursor) : uint16_t{0};
    if (!named && field == 0) continue;
    const auto id = static_cast<NodeId>(walk->rows.size());
    walk->rows.emplace_back(kind, field, ts_node_start_byte(node), ts_node_end_byte(node), parent);
    if (!ts_tree_cursor_goto_first_child(cursor)) continue;
    Visit(cursor, id, walk);
    ts_tree_cursor_goto_parent(cursor);
  } while (ts_tree_cursor_goto_next_sibling(cursor));
}

void ExpectAlike(const std::string& text) {
  const auto syntax = Syntax::Parse(text, {});
  ASSERT_TRUE(syntax);
  const TsParser parser(ts_parser_new());
  ASSERT_TRUE(ts_parser_set_language(parser.get(), DenseGrammar()));
  const TsTree tree(ts_parser_parse_string(parser.get(), nullptr, text.data(),
                                           static_cast<uint32_t>(text.size())));
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree.get()));
  Walk walk;
  Visit(&cursor, kNoNode, &walk);
  ts_tree_cursor_delete(&cursor);
  std::vector<Row> rows;
  for (NodeId id = 0; id < syntax->size(); ++id) {
    const Node& node = (*syntax)[id];
    rows.emplace_back(node.kind, node.field, node.begin, node.end, node.parent);
    NodeId last = id + 1;  // where the subtree ends, by what the children say
    for (NodeId child = node.first_child; child != kNoNode; child = (*syntax)[child].next_sibling) {
      EXPECT_EQ((*syntax)[child].parent, id);
      EXPECT_EQ(child, last);
      last = (*syntax)[child].after;
    }
    EXPECT_EQ(node.after, last);
  }
  EXPECT_TRUE(rows == walk.rows) << text;
  EXPECT_EQ(syntax->error_line(), static_cast<int>(walk.error_row)) << text;
}

constexpr std::string_view kEverything = R"(# what the grammar hides, renames and gives fields
import a.b as c, d
from .x import (y as z, w)
@decorated(1)
class K(Base, metaclass=M):
    """Text."""
    def f(self, a: int = 1, *args, b=(2, 3), **kw) -> Dict[str, int]:
        x, *y = a if b else not c
        x += -y ** 2 @ z[1:2, ...] // 3
        for i, (j, k) in enumerate(v): pass
        else: print(f"{x!r:>{width}} {y}", *a, end='')
        while (n := next(it)) is not None and n not in s or n <= 3 < m:
            break
        try:
            async with open(p) as g, h: await g
        except* (E, F) as e: raise G from e
        finally: del x, y[0]
        match x:
            case {"a": [1, *rest]} if rest: return
            case P(q=1) | None: yield x
        return lambda t, *u: [i async for i in t if i], {**a, 'b': 1}, {1, 2}
type T[U] = list[U]
global q; nonlocal r; assert x, "no"; exec "old"; print >>f, x
)";

TEST(TreeCopy, SaysWhatTheCursorSays) {
  ExpectAlike("");
  ExpectAlike("\n\n  # only a comment\n");
  ExpectAlike("\t\xC3\xA4\xE2\x82\xAC = '\xF0\x9F\x98\x80'  # wide\r\nb = 2\r\n");
  ExpectAlike(std::string(kEverything));
}

TEST(TreeCopy, AlsoOfBrokenCode) {
  // Cut off, and with a piece left out: errors, missing tokens, skipped text.
  for (size_t end = 1; end < kEverything.size(); end += 7) {
    ExpectAlike(std::string(kEverything.substr(0, end)));
    ExpectAlike(std::string(kEverything.substr(0, end)) +
                std::string(kEverything.substr(std::min(end + 5, kEverything.size()))));
  }
}

TEST(TreeCopy, OfCodeThatPeopleWrite) {
  int files = 0;
  const std::filesystem::path folder = std::filesystem::path(MPNANNY_SOURCE_DIR) / "bench";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".py") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    ExpectAlike(
        std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()));
    ++files;
  }
  EXPECT_GT(files, 3);
}

}  // namespace
}  // namespace mpnanny::check
