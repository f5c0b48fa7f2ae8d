#include "tools/static_check/conditions.h"

#include <cctype>
#include <optional>

namespace mpnanny::static_check {
namespace {

constexpr std::string_view kMixedPrecision = "<mixed precision is on>";

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// True if one of the words that names are made of ("use_amp" is use, amp) tells of FP16 mixed
// precision.
bool AsksForMixedPrecision(std::string_view text) {
  bool found = false;
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && IsWordCharacter(text[i])) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
      continue;
    }
    if (word == "bf16" || word == "bfloat16") return false;
    found = found || word == "amp" || word == "scaler" || word == "fp16" || word == "mixed" ||
            word == "autocast" || word == "float16" || word == "half" || word == "precision" ||
            word == "gradscaler" || word == "useamp";
    word.clear();
  }
  return found;
}

struct Atom {
  std::string key;
  bool positive = true;
};

// Splits a condition without and/or/not into what it asks and which answer it wants.
std::optional<Atom> ReadAtom(const Syntax& syntax, NodeId id) {
  std::string_view text = syntax.Text(id);
  Atom atom;
  if (syntax.Is(id, Kind::kComparison)) {
    const std::vector<NodeId> operands = syntax.Children(id);
    const std::string_view op = syntax.Text(syntax.Child(id, PythonFields().operators));
    if (operands.size() == 2) {
      const bool negated = op == "!=" || op.starts_with("is not") || op == "not in";
      if (syntax.Is(operands[1], Kind::kNone)) {
        atom.positive = negated;  // `x is not None` asks for x
        text = syntax.Text(operands[0]);
      } else if (syntax.Is(operands[1], Kind::kTrue)) {
        atom.positive = !negated;
        text = syntax.Text(operands[0]);
      } else if (syntax.Is(operands[1], Kind::kFalse)) {
        atom.positive = negated;
        text = syntax.Text(operands[0]);
      } else if (negated && AsksForMixedPrecision(text)) {
        atom.positive = false;
      }
    }
  }
  if (text.size() > 200) return std::nullopt;
  if (AsksForMixedPrecision(text)) {
    atom.key = kMixedPrecision;
    return atom;
  }
  if (text.find('(') != std::string_view::npos)
    return std::nullopt;  // a call may answer differently next time
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) atom.key += c;
  }
  return atom;
}

Tri Not(Tri value) {
  return value == Tri::kYes ? Tri::kNo : value == Tri::kNo ? Tri::kYes : Tri::kUnknown;
}

bool IsAnd(const Syntax& syntax, NodeId boolean) {
  return syntax.Text(syntax.Child(boolean, PythonFields().operator_)) == "and";
}

}  // namespace

Tri Conditions::Evaluate(const Syntax& syntax, NodeId condition) const {
  const Fields& f = PythonFields();
  const NodeId id = syntax.Unwrap(condition);
  switch (syntax.kind(id)) {
    case Kind::kTrue:
      return Tri::kYes;
    case Kind::kFalse:
    case Kind::kNone:
      return Tri::kNo;
    case Kind::kNot:
      return Not(Evaluate(syntax, syntax.Child(id, f.argument)));
    case Kind::kBoolean: {
      const Tri left = Evaluate(syntax, syntax.Child(id, f.left));
      const Tri right = Evaluate(syntax, syntax.Child(id, f.right));
      const Tri decides = IsAnd(syntax, id) ? Tri::kNo : Tri::kYes;
      if (left == decides || right == decides) return decides;
      return left == Tri::kUnknown || right == Tri::kUnknown ? Tri::kUnknown : Not(decides);
    }
    default: {
      if (id == kNoNode) return Tri::kUnknown;
      const auto atom = ReadAtom(syntax, id);
      if (!atom) return Tri::kUnknown;
      const auto it = known_.find(atom->key);
      if (it == known_.end()) return Tri::kUnknown;
      return it->second == atom->positive ? Tri::kYes : Tri::kNo;
    }
  }
}

void Conditions::Assume(const Syntax& syntax, NodeId condition, bool value) {
  const Fields& f = PythonFields();
  const NodeId id = syntax.Unwrap(condition);
  if (id == kNoNode) return;
  if (syntax.Is(id, Kind::kNot)) return Assume(syntax, syntax.Child(id, f.argument), !value);
  if (syntax.Is(id, Kind::kBoolean)) {
    const NodeId left = syntax.Child(id, f.left);
    const NodeId right = syntax.Child(id, f.right);
    if (IsAnd(syntax, id) == value) {
      Assume(syntax, left, value);
      Assume(syntax, right, value);
      return;
    }
    // Of an `and` that fails one side is known to fail only if the other is known to hold.
    const Tri other = value ? Tri::kNo : Tri::kYes;
    if (Evaluate(syntax, left) == other) {
      Assume(syntax, right, value);
    } else if (Evaluate(syntax, right) == other) {
      Assume(syntax, left, value);
    }
    return;
  }
  if (const auto atom = ReadAtom(syntax, id)) known_[atom->key] = atom->positive == value;
}

bool Conditions::AssumeMixedPrecision() {
  return known_.emplace(kMixedPrecision, true).first->second;
}

void Conditions::Forget(std::string_view variable) {
  if (variable.empty()) return;
  for (auto it = known_.begin(); it != known_.end();) {
    const std::string& key = it->first;
    bool mentions = false;
    for (size_t at = key.find(variable); at != std::string::npos && !mentions;
         at = key.find(variable, at + 1)) {
      const auto is_name = [](char c) { return IsWordCharacter(c) || c == '_'; };
      const size_t end = at + variable.size();
      mentions = key != kMixedPrecision &&
                 (at == 0 || (!is_name(key[at - 1]) && key[at - 1] != '.')) &&
                 (end == key.size() || !is_name(key[end]));
    }
    it = mentions ? known_.erase(it) : std::next(it);
  }
}

}  // namespace mpnanny::static_check
