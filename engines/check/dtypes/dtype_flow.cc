#include "engines/check/dtypes/dtype_flow.h"

#include <algorithm>
#include <iterator>

namespace mpnanny::check {

bool GivesPositions(std::string_view function) {
  return function == "max" || function == "min" || function == "topk" || function == "sort" ||
         function == "median" || function == "mode" || function == "kthvalue";
}

void DtypeFlow::Run() {
  if (const Entry* entry = d_.EntryOf(function_.node)) {
    const size_t known = std::min(entry->parameters.size(), function_.parameters.size());
    for (size_t i = 0; i < known; ++i) {
      Value value = entry->parameters[i];
      if (!value.is_16bit()) continue;
      value.origin = kNoNode;  // a node of the caller's file
      value.passed = function_.node;
      env_[function_.parameters[i]] = value;
    }
  }
  Block(function_.body);
}

void DtypeFlow::Block(NodeId block) {
  if (block == kNoNode || cancel_.stop_requested()) return;
  for (NodeId child = syntax_[block].first_child; child != kNoNode;
       child = syntax_[child].next_sibling) {
    Statement(child);
  }
}

void DtypeFlow::Merge(Env& into, const Env& other) {
  for (auto it = into.begin(); it != into.end();) {
    const auto found = other.find(it->first);
    it->second = found == other.end() ? Value{Type::kUnknown, false, kNoNode}
                                      : JoinValues(it->second, found->second);
    it = it->second.type == Type::kUnknown ? into.erase(it) : std::next(it);
  }
}

void DtypeFlow::Statement(NodeId id) {
  const Fields& f = PythonFields();
  switch (syntax_[id].kind) {
    case Kind::kFunction:
    case Kind::kClass:
    case Kind::kDecorated:
    case Kind::kImport:
    case Kind::kImportFrom:
      return;
    case Kind::kIf: {
      Eval(syntax_.Child(id, f.condition));
      Env before = env_;
      Block(syntax_.Child(id, f.consequence));
      Env joined = env_;
      bool has_else = false;
      for (const NodeId part : syntax_.Children(id)) {
        if (syntax_[part].field != f.alternative) continue;
        env_ = before;
        if (syntax_.Is(part, Kind::kElif)) Eval(syntax_.Child(part, f.condition));
        has_else = has_else || syntax_.Is(part, Kind::kElse);
        Block(syntax_.Child(part, syntax_.Is(part, Kind::kElif) ? f.consequence : f.body));
        Merge(joined, env_);
      }
      if (!has_else) Merge(joined, before);
      env_ = std::move(joined);
      return;
    }
    case Kind::kFor:
    case Kind::kWhile: {
      Eval(syntax_.Child(id, syntax_[id].kind == Kind::kFor ? f.right : f.condition));
      // Twice, so that what the body leaves is seen at its top; deeply nested loops once, or the
      // work doubles at each.
      const int rounds = ++loops_ > kLoopsRunTwice ? 1 : 2;
      for (int round = 0; round < rounds; ++round) {
        const Env before = env_;
        if (syntax_[id].kind == Kind::kFor)
          Assign(syntax_.Child(id, f.left), kNoNode, {Type::kUnknown, false, kNoNode});
        Block(syntax_.Child(id, f.body));
        Merge(env_, before);
      }
      --loops_;
      Block(syntax_.Child(syntax_.Child(id, f.alternative), f.body));
      return;
    }
    case Kind::kTry: {
      const Env before = env_;
      Block(syntax_.Child(id, f.body));
      Merge(env_, before);
      for (const NodeId part : syntax_.Children(id)) {
        if (syntax_[part].field == f.body) continue;
        for (const NodeId inner : syntax_.Children(part)) {
          if (syntax_.Is(inner, Kind::kBlock)) Block(inner);
        }
        Merge(env_, before);
      }
      return;
    }
    case Kind::kWith:
      Block(syntax_.Child(id, f.body));
      return;
    case Kind::kAugmentedAssignment: {
      const NodeId left = syntax_.Child(id, f.left);
      const Value value = Eval(left);
      Record(id, Promote({value, Eval(syntax_.Child(id, f.right))}));
      // In place: the tensor keeps its dtype, whatever is added.
      if (!value.is_16bit()) Assign(left, kNoNode, {Type::kUnknown, false, kNoNode});
      return;
    }
    default:
      Generic(id);
  }
}

void DtypeFlow::Generic(NodeId id) {
  for (const NodeId child : syntax_.Children(id)) {
    const Kind kind = syntax_[child].kind;
    if (kind == Kind::kAssignment) {
      AssignStatement(child);
    } else if (kind == Kind::kBlock || kind == Kind::kCaseClause) {
      Env before = env_;
      kind == Kind::kBlock ? Block(child) : Generic(child);
      Merge(env_, before);
    } else {
      Eval(child);
    }
  }
}

Value DtypeFlow::AssignStatement(NodeId id) {
  const Fields& f = PythonFields();
  const NodeId right = syntax_.Child(id, f.right);
  if (right == kNoNode) return {Type::kUnknown, false, kNoNode};
  const Value value = syntax_.Is(right, Kind::kAssignment) ? AssignStatement(right) : Eval(right);
  Assign(syntax_.Child(id, f.left), right, value);
  return value;
}

void DtypeFlow::Assign(NodeId target, NodeId right, Value value) {
  const Kind kind = syntax_.kind(target);
  if (kind == Kind::kPatternList || kind == Kind::kTuple || kind == Kind::kList) {
    const std::vector<NodeId> targets = syntax_.Children(target);
    std::vector<NodeId> parts;
    if (syntax_.Is(right, Kind::kExpressionList) || syntax_.Is(right, Kind::kTuple))
      parts = syntax_.Children(right);
    const bool with_positions = GivesPositions(names_.Method(right));
    for (size_t i = 0; i < targets.size(); ++i) {
      if (with_positions && i > 0) value = {Type::kIndex, false, kNoNode};
      const bool paired = parts.size() == targets.size();
      Assign(targets[i], paired ? parts[i] : kNoNode, paired ? d_.Of(parts[i]) : value);
    }
    return;
  }
  if (kind == Kind::kSubscript) {
    Eval(target);
    return;  // writes into a tensor, which keeps its dtype
  }
  const std::string key = names_.Key(target);
  if (key.empty()) return;
  Record(target, value);
  if (value.type == Type::kUnknown || value.type == Type::kUnseen) {
    env_.erase(key);
  } else {
    env_[key] = value;
  }
}

}  // namespace mpnanny::check
