#include "engines/check/facts/conditions.h"

#include <cctype>
#include <utility>
#include <vector>

#include "engines/check/facts/questions.h"

namespace mpnanny::check {
namespace {

// How many names that stand for expressions are looked through.
constexpr int kMaxNames = 3;
// How many parts of conditions one question may look at: names that stand for long `and`s of names
// of their own multiply.
constexpr int kMaxParts = 100;

Tri Not(Tri value) {
  return value == Tri::kYes ? Tri::kNo : value == Tri::kNo ? Tri::kYes : Tri::kUnknown;
}

bool IsAnd(const Syntax& syntax, NodeId boolean) {
  return syntax.Text(syntax.Child(boolean, PythonFields().operator_)) == "and";
}

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Calls `visit(begin, end)` for the names in the question that are no attributes.
template <typename Visit>
void ForNames(std::string_view question, Visit visit) {
  for (size_t begin = 0; begin < question.size();) {
    size_t end = begin;
    while (end < question.size() && IsNameCharacter(question[end])) ++end;
    const bool attribute = begin > 0 && question[begin - 1] == '.';
    if (end > begin && !attribute && std::isdigit(static_cast<unsigned char>(question[begin])) == 0)
      visit(begin, end);
    begin = end + 1;
  }
}

// The question with `to` for `from`, if every name in it is an attribute of that object: for "self"
// and "amp", "self.on" becomes "amp.on". "" if there is another name, or none.
std::string OfObject(std::string_view question, std::string_view from, std::string_view to) {
  std::string renamed;
  size_t copied = 0;
  bool found = false;
  bool others = false;
  ForNames(question, [&](size_t begin, size_t end) {
    const std::string_view word = question.substr(begin, end - begin);
    const size_t after = begin + from.size();
    if (begin < copied) return;  // a part of `from`
    if (question.substr(begin, from.size()) == from && after < question.size() &&
        question[after] == '.') {
      found = true;
      renamed.append(question.substr(copied, begin - copied)).append(to);
      copied = after;
    } else if (word != "not" && word != "and" && word != "or" && word != "is" && word != "None") {
      others = true;
    }
  });
  return found && !others ? renamed.append(question.substr(copied)) : "";
}

bool MentionsOwn(std::string_view question, const Conditions::IsOwn& own) {
  bool mentions = false;
  if (question == kMixedPrecision) return false;
  ForNames(question, [&](size_t begin, size_t end) {
    mentions = mentions || own(question.substr(begin, end - begin));
  });
  return mentions;
}

}  // namespace

Tri Conditions::Known(std::string_view question) const {
  const auto it = known_.find(question);
  if (it == known_.end()) return Tri::kUnknown;
  return it->second ? Tri::kYes : Tri::kNo;
}

Tri Conditions::Evaluate(const Bindings& bindings, NodeId condition) const {
  int parts = kMaxParts;
  return Evaluate(bindings, condition, kMaxNames, parts);
}

Tri Conditions::Evaluate(const Bindings& bindings, NodeId condition, int depth, int& parts) const {
  if (--parts < 0) return Tri::kUnknown;
  if (const auto value = values_.Evaluate(bindings, condition))
    return value->IsTrue() ? Tri::kYes : Tri::kNo;
  const Fields& f = PythonFields();
  const Syntax& syntax = bindings.syntax();
  bool positive = true;
  const NodeId id = Core(bindings, condition, &positive);
  const auto answer = [&](Tri value) { return positive ? value : Not(value); };
  if (id == kNoNode) return Tri::kUnknown;
  switch (syntax.kind(id)) {
    case Kind::kTrue:
      return answer(Tri::kYes);
    case Kind::kFalse:
    case Kind::kNone:
      return answer(Tri::kNo);
    case Kind::kBoolean: {
      const Tri left = Evaluate(bindings, syntax.Child(id, f.left), depth, parts);
      const Tri right = Evaluate(bindings, syntax.Child(id, f.right), depth, parts);
      const Tri decides = IsAnd(syntax, id) ? Tri::kNo : Tri::kYes;
      if (left == decides || right == decides) return answer(decides);
      if (left != Tri::kUnknown && right != Tri::kUnknown) return answer(Not(decides));
      break;
    }
    default:
      break;
  }
  const Question question = Ask(bindings, id);
  if (const Tri known = question.key.empty() ? Tri::kUnknown : Known(question.key);
      known != Tri::kUnknown)
    return answer(question.positive ? known : Not(known));
  const NodeId meaning =
      depth > 0 && question.key != kMixedPrecision ? Meaning(bindings, id) : kNoNode;
  return meaning == kNoNode ? Tri::kUnknown : answer(Evaluate(bindings, meaning, depth - 1, parts));
}

void Conditions::Assume(const Bindings& bindings, NodeId condition, bool value) {
  int parts = kMaxParts;
  Assume(bindings, condition, value, kMaxNames, parts);
}

void Conditions::Assume(const Bindings& bindings, NodeId condition, bool wanted, int depth,
                        int& parts) {
  if (--parts < 0) return;
  const Fields& f = PythonFields();
  const Syntax& syntax = bindings.syntax();
  bool positive = true;
  const NodeId id = Core(bindings, condition, &positive);
  const bool value = wanted == positive;
  if (id == kNoNode) return;
  const Question question = Ask(bindings, id);
  if (!question.key.empty()) known_[question.key] = question.positive == value;
  if (syntax.Is(id, Kind::kComparison)) LearnEqual(bindings, id, value);
  if (syntax.Is(id, Kind::kBoolean)) {
    const NodeId left = syntax.Child(id, f.left);
    const NodeId right = syntax.Child(id, f.right);
    if (IsAnd(syntax, id) == value) {
      Assume(bindings, left, value, depth, parts);
      Assume(bindings, right, value, depth, parts);
      return;
    }
    // Of an `and` that fails one side is known to fail only if the other is known to hold.
    const Tri other = value ? Tri::kNo : Tri::kYes;
    if (Evaluate(bindings, left, depth, parts) == other) {
      Assume(bindings, right, value, depth, parts);
    } else if (Evaluate(bindings, right, depth, parts) == other) {
      Assume(bindings, left, value, depth, parts);
    }
    return;
  }
  if (depth == 0 || question.key == kMixedPrecision) return;
  if (const NodeId meaning = Meaning(bindings, id); meaning != kNoNode)
    Assume(bindings, meaning, value, depth - 1, parts);
}

void Conditions::LearnEqual(const Bindings& bindings, NodeId comparison, bool holds) {
  const Syntax& syntax = bindings.syntax();
  const std::vector<NodeId> operands = syntax.Children(comparison);
  if (operands.size() != 2 || !syntax.Is(operands[1], Kind::kString) ||
      syntax.Text(syntax.Child(comparison, PythonFields().operators)) != (holds ? "==" : "!="))
    return;
  const std::string variable = bindings.names().Key(operands[0]);
  const auto value = values_.Evaluate(bindings, operands[1]);
  // A method may change what self has.
  if (!variable.empty() && !variable.starts_with("self.") && value) values_.Set(variable, *value);
}

void Conditions::Learn(std::string_view question, bool answer) {
  known_.insert_or_assign(std::string(question), answer);
}

void Conditions::Drop(std::string_view question) {
  if (const auto it = known_.find(question); it != known_.end()) known_.erase(it);
}

Conditions Conditions::Inside(std::string_view self) const {
  Conditions inside;
  for (const auto& [question, answer] : known_) {
    if (question == kMixedPrecision) inside.known_.emplace(question, answer);
    if (self.empty()) continue;
    if (std::string same = OfObject(question, self, "self"); !same.empty())
      inside.known_.emplace(std::move(same), answer);
  }
  return inside;
}

void Conditions::Return(const Conditions& inside, std::string_view self) {
  for (const auto& [question, answer] : inside.known_) {
    if (question == kMixedPrecision) known_.insert_or_assign(question, answer);
    if (self.empty()) continue;
    if (std::string same = OfObject(question, "self", self); !same.empty())
      known_.insert_or_assign(std::move(same), answer);
  }
}

Conditions Conditions::InClosure(const IsOwn& own) const {
  Conditions inside = *this;
  std::erase_if(inside.known_, [&](const auto& one) { return MentionsOwn(one.first, own); });
  inside.values_.ForgetIf([&](std::string_view name) { return MentionsOwn(name, own); });
  return inside;
}

void Conditions::Adopt(const Conditions& other) {
  for (const auto& [question, answer] : other.known_) known_.insert_or_assign(question, answer);
}

bool Conditions::AssumeMixedPrecision() {
  return known_.emplace(kMixedPrecision, true).first->second;
}

void Conditions::Forget(std::string_view variable) {
  if (variable.empty()) return;
  values_.Forget(variable);
  for (auto it = known_.begin(); it != known_.end();) {
    const std::string& key = it->first;
    bool mentions = false;
    for (size_t at = key.find(variable); at != std::string::npos && !mentions;
         at = key.find(variable, at + 1)) {
      const size_t end = at + variable.size();
      mentions = key != kMixedPrecision &&
                 (at == 0 || (!IsNameCharacter(key[at - 1]) && key[at - 1] != '.')) &&
                 (end == key.size() || !IsNameCharacter(key[end]));
    }
    it = mentions ? known_.erase(it) : std::next(it);
  }
}

}  // namespace mpnanny::check
