#include "engines/check/facts/questions.h"

#include <cctype>
#include <optional>
#include <vector>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// Longer expressions are not worth remembering.
constexpr size_t kMaxKey = 200;

constexpr std::string_view kOn[] = {"amp",     "scaler", "fp16",      "mixed",      "autocast",
                                    "float16", "half",   "precision", "gradscaler", "useamp"};
constexpr std::string_view kNegates[] = {"no", "without", "disable", "disabled"};
// Values of a precision setting that mean that nothing is cast down.
constexpr std::string_view kOff[] = {"fp32", "float32", "32", "no", "none", "off", "full", "o0"};
// Functions that ask for a setting and answer alike every time.
constexpr std::string_view kAsks[] = {"is_enabled", "is_autocast_enabled",
                                      "getattr",    "hasattr",
                                      "isinstance", "bool",
                                      "str",        "int",
                                      "get",        "lower",
                                      "upper",      "startswith",
                                      "type",       "len",
                                      "strip",      "endswith",
                                      "issubclass"};

// Calls `visit(word)` for the words that names are made of ("use_amp" is use, amp), in lower case,
// and `visit("")` where a name ends.
template <typename Visit>
void ForWords(std::string_view text, Visit visit) {
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const unsigned char c = i < text.size() ? static_cast<unsigned char>(text[i]) : ' ';
    if (std::isalnum(c) != 0) {
      word += static_cast<char>(std::tolower(c));
      continue;
    }
    if (!word.empty()) visit(std::string_view(word));
    word.clear();
    if (c != '_') visit(std::string_view{});
  }
}

// Whether a text asks for FP16 mixed precision (true), for its absence (false: no_amp), or for
// neither.
std::optional<bool> AsksForMixedPrecision(std::string_view text) {
  bool bf16 = false;
  bool on = false;  // a name says so
  bool off = false;
  bool asks = false;  // the name that is read
  bool negated = false;
  std::string before;
  ForWords(text, [&](std::string_view word) {
    const bool scaling = word == "scaling" && (before == "grad" || before == "loss");
    before = word;
    asks = asks || scaling;
    if (word.empty()) {
      if (asks) (negated ? off : on) = true;
      asks = negated = false;
      return;
    }
    bf16 = bf16 || word == "bf16" || word == "bfloat16";
    asks = asks || IsOneOf(kOn, word);
    negated = negated || IsOneOf(kNegates, word);
    if (word == "noamp" || word == "nofp16") asks = negated = true;
  });
  if (bf16 || (!on && !off)) return std::nullopt;
  return on;
}

// True if a value that a setting is compared with means that mixed precision is off.
bool IsOff(std::string_view value) {
  bool off = false;
  bool on = false;
  ForWords(value, [&](std::string_view word) {
    off = off || IsOneOf(kOff, word);
    on = on || word == "16" || (word != "precision" && IsOneOf(kOn, word));
  });
  return off && !on;
}

// Every call in the condition only looks something up; `scaler.get_scale()` and
// `torch.isfinite(...)` answer something else each time.
bool OnlyLooksUp(const Bindings& bindings, NodeId id) {
  const Syntax& syntax = bindings.syntax();
  for (NodeId call = id; call < syntax[id].after; ++call) {
    if (!syntax.Is(call, Kind::kCall)) continue;
    std::string_view name = syntax.Text(syntax.Child(call, PythonFields().function));
    if (const std::string_view method = bindings.names().Method(call); !method.empty())
      name = method;
    if (!IsOneOf(kAsks, name) && !AsksForMixedPrecision(name)) return false;
  }
  return true;
}

bool HasCall(const Bindings& bindings, NodeId id) {
  const Syntax& syntax = bindings.syntax();
  for (NodeId call = id; call < syntax[id].after; ++call) {
    if (syntax.Is(call, Kind::kCall) &&
        syntax.Text(syntax.Child(call, PythonFields().function)) != "len")
      return true;
  }
  return false;
}

// The expression without spaces and with parentheses in the same places however it is written.
std::string Spelled(const Syntax& syntax, NodeId expression) {
  const Fields& f = PythonFields();
  const NodeId id = syntax.Unwrap(expression);
  const Kind kind = syntax.kind(id);
  if (kind == Kind::kNot) return "not(" + Spelled(syntax, syntax.Child(id, f.argument)) + ")";
  if (kind == Kind::kBinary || kind == Kind::kBoolean) {
    return "(" + Spelled(syntax, syntax.Child(id, f.left)) + " " +
           std::string(syntax.Text(syntax.Child(id, f.operator_))) + " " +
           Spelled(syntax, syntax.Child(id, f.right)) + ")";
  }
  if (const std::vector<NodeId> operands = syntax.Children(id);
      kind == Kind::kComparison && operands.size() == 2) {
    return "(" + Spelled(syntax, operands[0]) + " " +
           std::string(syntax.Text(syntax.Child(id, f.operators))) + " " +
           Spelled(syntax, operands[1]) + ")";
  }
  std::string text;
  if (id == kNoNode) return text;
  for (const char c : syntax.Text(id)) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) text += c;
  }
  return text;
}

// exists(x), as much code calls its own `x is not None`.
bool AsksWhetherItIs(const Syntax& syntax, NodeId call) {
  const std::string_view name = syntax.Text(syntax.Child(call, PythonFields().function));
  return (name == "exists" || name == "is_not_none" || name == "not_none" || name == "defined") &&
         syntax.Children(syntax.Child(call, PythonFields().arguments)).size() == 1;
}

thread_local QuestionMemo* memo = nullptr;

Question WorkOut(const Bindings& bindings, NodeId id) {
  const Syntax& syntax = bindings.syntax();
  const std::string_view text = syntax.Text(id);
  if (text.size() > kMaxKey) return {};
  bool relational = false;
  bool negated = false;
  std::string_view setting = text;
  std::string_view value;
  if (const std::vector<NodeId> operands = syntax.Children(id);
      syntax.Is(id, Kind::kComparison) && operands.size() == 2) {
    const std::string_view op = syntax.Text(syntax.Child(id, PythonFields().operators));
    relational = op.starts_with("<") || op.starts_with(">");
    negated = op == "!=" || op.starts_with("is not") || op.starts_with("not");
    const bool value_first = syntax.Is(operands[0], Kind::kString);
    setting = syntax.Text(operands[value_first ? 1 : 0]);
    value = syntax.Text(operands[value_first ? 0 : 1]);
  }
  const auto whole = AsksForMixedPrecision(text);
  if (whole && !relational && !syntax.Is(id, Kind::kBoolean) && OnlyLooksUp(bindings, id)) {
    Question question{std::string(kMixedPrecision), !negated};
    if (IsOff(value) != (AsksForMixedPrecision(setting) == false))
      question.positive = !question.positive;
    return question;
  }
  if (HasCall(bindings, id)) return {};
  return {Spelled(syntax, id), true};
}

}  // namespace

NodeId Core(const Bindings& bindings, NodeId condition, bool* positive) {
  const Syntax& syntax = bindings.syntax();
  NodeId id = syntax.Unwrap(condition);
  for (;;) {
    if (syntax.Is(id, Kind::kNot)) {
      *positive = !*positive;
      id = syntax.Unwrap(syntax.Child(id, PythonFields().argument));
      continue;
    }
    if (syntax.Is(id, Kind::kCall) && AsksWhetherItIs(syntax, id)) {
      id = syntax.Unwrap(syntax.Children(syntax.Child(id, PythonFields().arguments))[0]);
      continue;
    }
    if (!syntax.Is(id, Kind::kComparison)) return id;
    const std::vector<NodeId> operands = syntax.Children(id);
    if (operands.size() != 2) return id;
    const std::string_view op = syntax.Text(syntax.Child(id, PythonFields().operators));
    const bool equal = op == "==" || op == "is";
    const bool unequal = op == "!=" || op.starts_with("is not");
    const NodeId right = operands[1];
    const bool literal = syntax.Is(right, Kind::kInteger) || syntax.Is(right, Kind::kFloat);
    const bool zero = literal && bindings.Number(right) == 0.0;
    bool flips = equal;
    if (syntax.Is(right, Kind::kTrue) && (equal || unequal)) {
      flips = unequal;
    } else if (zero && (op == ">" || op == "<=")) {
      flips = op == "<=";
    } else if (!(equal || unequal) ||
               !(zero || syntax.Is(right, Kind::kNone) || syntax.Is(right, Kind::kFalse))) {
      return id;
    }
    if (flips) *positive = !*positive;
    id = syntax.Unwrap(operands[0]);
  }
}

QuestionMemo::QuestionMemo() { memo = this; }
QuestionMemo::~QuestionMemo() { memo = nullptr; }

Question Ask(const Bindings& bindings, NodeId condition) {
  if (memo == nullptr) return WorkOut(bindings, condition);
  const auto [it, first] = memo->known_.try_emplace({&bindings, condition});
  if (first) it->second = WorkOut(bindings, condition);
  return it->second;
}

Question AskOfName(std::string_view name) {
  const auto mixed = AsksForMixedPrecision(name);
  return mixed ? Question{std::string(kMixedPrecision), *mixed} : Question{std::string(name), true};
}

NodeId Meaning(const Bindings& bindings, NodeId name) {
  const Syntax& syntax = bindings.syntax();
  if (!syntax.Is(name, Kind::kIdentifier)) return kNoNode;
  const std::vector<Assignment> bound = bindings.AssignmentsOf(name);
  if (bound.size() != 1 || bound[0].value == kNoNode) return kNoNode;
  const NodeId value = syntax.Unwrap(bound[0].value);
  const Kind kind = syntax.kind(value);
  if (kind != Kind::kComparison && kind != Kind::kBoolean && kind != Kind::kNot) return kNoNode;
  for (NodeId part = value; part < syntax[value].after; ++part) {
    if (!syntax.Is(part, Kind::kIdentifier) && !syntax.Is(part, Kind::kAttribute)) continue;
    if (syntax.Text(part) == syntax.Text(name)) return kNoNode;
    for (const Assignment& assignment : bindings.AssignmentsOf(part)) {
      if (assignment.function == bound[0].function && assignment.target > value) return kNoNode;
    }
  }
  return value;
}

}  // namespace mpnanny::check
