// A parsed Python file as one flat array of nodes: parents, children and fields are an index away.
//
// tree-sitter's own tree answers "parent?" and "field?" by searching; the analyses ask that
// constantly, so the tree is walked once and copied. Node 0 is the module. A Syntax owns its copy
// of the text; immutable after Parse(), movable, safe to read from any thread.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_SYNTAX_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_SYNTAX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/check/syntax/parse_arena.h"
#include "engines/check/syntax/tree_sitter.h"

namespace mpnanny::check {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

// The node types that the analyses tell apart.
enum class Kind : uint8_t {
  kOther,
  kModule,
  kIdentifier,
  kAttribute,
  kCall,
  kArgumentList,
  kKeywordArgument,
  kAssignment,
  kAugmentedAssignment,
  kNamedExpression,
  kExpressionStatement,
  kBlock,
  kFunction,
  kClass,
  kDecorated,
  kDecorator,
  kLambda,
  kIf,
  kElif,
  kElse,
  kFor,
  kWhile,
  kTry,
  kExcept,
  kFinally,
  kWith,
  kWithItem,
  kAsPattern,
  kMatch,
  kCaseClause,
  kReturn,
  kRaise,
  kBreak,
  kContinue,
  kImport,
  kImportFrom,
  kAliasedImport,
  kDottedName,
  kRelativeImport,
  kParameters,
  kDefaultParameter,
  kTypedParameter,
  kTypedDefaultParameter,
  kBinary,
  kUnary,
  kBoolean,
  kNot,
  kComparison,
  kConditional,
  kSubscript,
  kParenthesized,
  kInteger,
  kFloat,
  kString,
  kTrue,
  kFalse,
  kNone,
  kTuple,
  kPatternList,
  kExpressionList,
  kList,
  kDictionary,
  kPair,
  kComment,
  kError,
  kGlobal,
  kDelete,
  kListSplat,
  kDictSplat,
  kAwait,
  kOperator,
};

struct Node {
  Kind kind = Kind::kOther;
  uint16_t field = 0;           // tree-sitter's field id within the parent; 0 for none
  uint32_t begin = 0, end = 0;  // bytes
  NodeId parent = kNoNode, first_child = kNoNode, next_sibling = kNoNode;
  NodeId after = kNoNode;  // one past the last node of this subtree (nodes are in pre-order)
};

// The fields of the grammar that the analyses use.
struct Fields {
  uint16_t object, attribute, function, arguments, name, value, left, right, operator_, body,
      condition, consequence, alternative, parameters, definition, subscript, argument, module_name,
      operators, type, alias;
};
const Fields& PythonFields();

class Syntax;

// The children of a node, without a copy of them: a range that also counts and picks by position
// (both walk the list; lists are short).
class ChildList {
 public:
  class Iterator {
   public:
    Iterator(const Syntax* syntax, NodeId at) : syntax_(syntax), at_(at) { SkipOthers(); }
    NodeId operator*() const { return at_; }
    inline Iterator& operator++();
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    inline void SkipOthers();
    const Syntax* syntax_;
    NodeId at_;
  };
  ChildList(const Syntax* syntax, NodeId first) : syntax_(syntax), first_(first) {}
  Iterator begin() const { return {syntax_, first_}; }
  Iterator end() const { return {syntax_, kNoNode}; }
  bool empty() const { return begin() == end(); }
  inline size_t size() const;
  NodeId front() const { return *begin(); }
  inline NodeId operator[](size_t index) const;  // kNoNode beyond the last one
  // A copy, for where several are picked by position.
  operator std::vector<NodeId>() const {  // NOLINT(google-explicit-constructor)
    std::vector<NodeId> copy;
    for (const NodeId child : *this) copy.push_back(child);
    return copy;
  }

 private:
  const Syntax* syntax_;
  NodeId first_;
};

class Syntax {
 public:
  // Fails when cancelled and when parsing takes longer than a few seconds. Syntax errors do not
  // fail: see has_error().
  static Result<Syntax> Parse(std::string text, const CancelToken& cancel);

  // kNoNode gives a node without text, parent and children.
  const Node& operator[](NodeId id) const { return nodes_[Index(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()) - 1; }
  Kind kind(NodeId id) const { return id == kNoNode ? Kind::kOther : (*this)[id].kind; }
  bool Is(NodeId id, Kind kind) const { return id != kNoNode && (*this)[id].kind == kind; }
  std::string_view Text(NodeId id) const;
  const std::string& text() const { return *text_; }

  // The first child in that field, or kNoNode.
  NodeId Child(NodeId id, uint16_t field) const;
  // Children that are no comments and no operators, in order. Borrows this Syntax.
  ChildList Children(NodeId id) const;
  // Looks through parentheses and `await`.
  NodeId Unwrap(NodeId id) const;
  // The innermost node that holds the byte, or kNoNode.
  NodeId At(uint32_t byte) const;
  // The nearest ancestor (not `id` itself) of that kind, or kNoNode.
  NodeId Enclosing(NodeId id, Kind kind) const;
  // Innermost function or lambda-free module that `id` belongs to: a kFunction node or 0.
  NodeId FunctionOf(NodeId id) const;
  // The statement that `id` is part of: the ancestor (or itself) whose parent is a block or the
  // module.
  NodeId StatementOf(NodeId id) const;

  bool has_error() const { return error_line_ > 0; }
  int error_line() const {
    return error_line_;
  }  // 1-based line of the first syntax error, 0 for none
  int depth() const { return depth_; }

 private:
  static size_t Index(NodeId id) { return static_cast<size_t>(id + 1); }

  std::unique_ptr<std::string> text_;  // on the heap: views into it survive a move
  // The first one is kNoNode's: broken code lacks what rules look for.
  std::vector<Node> nodes_ = std::vector<Node>(1);
  int error_line_ = 0;
  int depth_ = 0;
};

inline void ChildList::Iterator::SkipOthers() {
  while (at_ != kNoNode &&
         ((*syntax_)[at_].kind == Kind::kComment || (*syntax_)[at_].kind == Kind::kOperator)) {
    at_ = (*syntax_)[at_].next_sibling;
  }
}

inline ChildList::Iterator& ChildList::Iterator::operator++() {
  at_ = (*syntax_)[at_].next_sibling;
  SkipOthers();
  return *this;
}

inline size_t ChildList::size() const {
  size_t count = 0;
  for (Iterator it = begin(); it != end(); ++it) ++count;
  return count;
}

inline NodeId ChildList::operator[](size_t index) const {
  Iterator it = begin();
  for (; index > 0 && it != end(); --index) ++it;
  return *it;
}

inline ChildList Syntax::Children(NodeId id) const {
  return {this, id == kNoNode ? kNoNode : (*this)[id].first_child};
}

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_SYNTAX_H_
