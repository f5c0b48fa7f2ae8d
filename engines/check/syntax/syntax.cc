#include "engines/check/syntax/syntax.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "engines/check/syntax/dense_grammar.h"
#include "engines/check/syntax/tree_copy.h"
#include "engines/check/syntax/work.h"

namespace mpnanny::check {
namespace {

constinit thread_local int64_t node_visits = 0;

// A file this slow to parse is no program that somebody wrote.
constexpr std::chrono::seconds kParseLimit{5};

struct ParseState {
  const CancelToken* cancel;
  std::chrono::steady_clock::time_point limit;
};

bool ShouldStop(TSParseState* state) {
  const auto* own = static_cast<const ParseState*>(state->payload);
  return own->cancel->stop_requested() || std::chrono::steady_clock::now() > own->limit;
}

const char* ReadText(void* payload, uint32_t byte, TSPoint, uint32_t* bytes_read) {
  const auto* text = static_cast<const std::string*>(payload);
  *bytes_read = byte < text->size() ? static_cast<uint32_t>(text->size()) - byte : 0;
  return *bytes_read == 0 ? "" : text->data() + byte;
}

}  // namespace

const Fields& PythonFields() {
  static const Fields fields = [] {
    const auto id = [](std::string_view name) {
      return ts_language_field_id_for_name(tree_sitter_python(), name.data(),
                                           static_cast<uint32_t>(name.size()));
    };
    return Fields{id("object"),      id("attribute"),   id("function"),   id("arguments"),
                  id("name"),        id("value"),       id("left"),       id("right"),
                  id("operator"),    id("body"),        id("condition"),  id("consequence"),
                  id("alternative"), id("parameters"),  id("definition"), id("subscript"),
                  id("argument"),    id("module_name"), id("operators"),  id("type"),
                  id("alias")};
  }();
  return fields;
}

Result<Syntax> Syntax::Parse(std::string text, const CancelToken& cancel) {
  ParseArena::Install();
  Syntax syntax;
  syntax.text_ = std::make_unique<std::string>(std::move(text));
  // The trees of all files together would take most of the memory, and its pages most of the time
  // of getting it.
  ParseArena arena;
  const TSTree* tree = nullptr;
  {
    const ParseArena::Scope scope(&arena);
    const TsParser parser(ts_parser_new());
    if (!ts_parser_set_language(parser.get(), DenseGrammar())) {
      return Internal("The Python grammar does not fit the tree-sitter library.");
    }
    ParseState state{&cancel, std::chrono::steady_clock::now() + kParseLimit};
    const TSInput input{syntax.text_.get(), ReadText, TSInputEncodingUTF8, nullptr};
    tree = ts_parser_parse_with_options(parser.get(), nullptr, input, {&state, ShouldStop});
  }
  MPN_TRY(cancel.Check());
  if (tree == nullptr) return InvalidInput("it takes longer than 5 s to parse");

  syntax.nodes_.reserve(syntax.text_->size() / 4 + 16);
  const TreeCopy copy = CopyTree(*tree, &syntax.nodes_);
  syntax.depth_ = copy.depth;
  if (copy.error >= 0) {
    const std::string& all = *syntax.text_;
    syntax.error_line_ =
        1 + static_cast<int>(std::count(all.begin(), all.begin() + copy.error, '\n'));
  }
  return syntax;
}

std::string_view Syntax::Text(NodeId id) const {
  if (id == kNoNode) return {};
  const Node& node = (*this)[id];
  return std::string_view(*text_).substr(node.begin, node.end - node.begin);
}

int64_t NodeVisits() { return node_visits; }

NodeId Syntax::Child(NodeId id, uint16_t field) const {
  ++node_visits;
  if (id == kNoNode) return kNoNode;
  for (NodeId child = (*this)[id].first_child; child != kNoNode;
       child = (*this)[child].next_sibling) {
    if ((*this)[child].field == field) return child;
  }
  return kNoNode;
}

NodeId Syntax::Unwrap(NodeId id) const {
  ++node_visits;
  while (id != kNoNode &&
         ((*this)[id].kind == Kind::kParenthesized || (*this)[id].kind == Kind::kAwait)) {
    NodeId inner = (*this)[id].first_child;
    while (Is(inner, Kind::kComment)) inner = (*this)[inner].next_sibling;
    if (inner == kNoNode) return id;
    id = inner;
  }
  return id;
}

NodeId Syntax::At(uint32_t byte) const {
  const auto after =
      std::upper_bound(nodes_.begin() + 1, nodes_.end(), byte,
                       [](uint32_t value, const Node& a) { return value < a.begin; });
  NodeId id = static_cast<NodeId>(after - nodes_.begin()) - 2;
  while (id != kNoNode && (*this)[id].end <= byte) id = (*this)[id].parent;
  return id;
}

NodeId Syntax::Enclosing(NodeId id, Kind kind) const {
  for (NodeId up = (*this)[id].parent; up != kNoNode; up = (*this)[up].parent) {
    if ((*this)[up].kind == kind) return up;
  }
  return kNoNode;
}

NodeId Syntax::FunctionOf(NodeId id) const {
  const NodeId function = Enclosing(id, Kind::kFunction);
  return function == kNoNode ? 0 : function;
}

NodeId Syntax::StatementOf(NodeId id) const {
  while (id != kNoNode) {
    const NodeId up = (*this)[id].parent;
    if (up == kNoNode || (*this)[up].kind == Kind::kBlock || (*this)[up].kind == Kind::kModule)
      return id;
    id = up;
  }
  return id;
}

}  // namespace mpnanny::check
