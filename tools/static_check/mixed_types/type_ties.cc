#include "tools/static_check/mixed_types/type_ties.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/model_parts.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {

std::vector<NodeId> ValuesOf(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  std::vector<NodeId> values = {id};
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return values;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
    if (assignment.value != kNoNode && facts.syntax[assignment.value].after <= id)
      values.push_back(assignment.value);
  }
  return values;
}

bool TakesTypeOf(std::string_view text) {
  const size_t at = text.find(".to(");
  if (at == std::string_view::npos) return false;
  const std::string_view argument = text.substr(at + 4, text.find(')', at) - at - 4);
  return !HoldsAny(argument, {"dev", "cuda", "cpu", "rank", "gpu"});
}

bool IsTied(const FileFacts& facts, NodeId expression) {
  const auto named = [&](NodeId value) {
    return HoldsAny(facts.syntax.Text(value), {"dtype", ".half()", "bfloat16", "_like(", ".new_"});
  };
  const auto cast = [&](NodeId value) {
    const std::string_view text = facts.syntax.Text(value);
    return HoldsAny(text, {"type_as", ".type("}) || TakesTypeOf(text);
  };
  // A cast on one branch minds the types; where a type is only named, all branches must.
  const std::vector<NodeId> values = ValuesOf(facts, expression);
  if (named(values.front()) || std::any_of(values.begin(), values.end(), cast)) return true;
  return values.size() > 1 && std::all_of(values.begin() + 1, values.end(), named);
}

bool IsMadeFp32(const FileFacts& facts, NodeId expression) {
  const std::vector<NodeId> values = ValuesOf(facts, expression);
  const std::string_view name = facts.syntax.Text(values.front());
  for (size_t i = values.size(); i-- > (values.size() > 1 ? 1 : 0);) {
    const std::string_view text = facts.syntax.Text(values[i]);
    if (text.size() > 300) return false;
    if (HoldsAny(text, {".float()", "torch.float32"})) return true;
    const auto call = TorchCallAt(facts, values[i]);
    if (call && !call->is_method && !Holds(text, "dtype") &&
        HoldsAny(call->name, {"zeros", "ones", "empty", "rand", "eye", "linspace"}) &&
        !call->name.ends_with("_like"))
      return true;
    // x = x / x.sum() goes on with what x was.
    if (i == 0 || !Holds(text, name) || HoldsAny(text, {"dtype", ".to(", "type_as"})) return false;
  }
  return false;
}

bool MayRunHalf(const FileFacts& facts, NodeId node) {
  return facts.syntax.FunctionOf(node) != 0 && HalfGuess::Anywhere(facts, node).any();
}

NodeId RootOf(const FileFacts& facts, NodeId expression) {
  const Fields& f = PythonFields();
  NodeId id = facts.syntax.Unwrap(expression);
  for (int depth = 0; depth < 6; ++depth) {
    if (const Call* call = facts.names.CallAt(id);
        call != nullptr && call->receiver != kNoNode &&
        HoldsAny(call->method, {"t", "view", "shape", "permute", "contig", "squeeze", "detach"})) {
      id = call->receiver;
    } else if (facts.syntax.Is(id, Kind::kSubscript)) {
      id = facts.syntax.Unwrap(facts.syntax.Child(id, f.value));
    } else if (facts.syntax.Is(id, Kind::kAttribute) &&
               facts.syntax.Text(facts.syntax.Child(id, f.attribute)).ends_with("T")) {
      id = facts.syntax.Unwrap(facts.syntax.Child(id, f.object));
    } else {
      break;
    }
  }
  return id;
}

std::string_view NameOf(const FileFacts& facts, NodeId expression) {
  const std::string_view text = facts.syntax.Text(RootOf(facts, expression));
  return text.size() < 40 ? text : std::string_view();
}

namespace {

constexpr int kMostAssignments = 150;  // of one function that IsTiedLater() follows

bool IsInName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Visits what follows the word wherever it stands by itself; stops when `visit` returns true.
template <typename Visit>
bool AnyAfterWord(std::string_view text, std::string_view word, const Visit& visit) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || (!IsInName(text[at - 1]) && text[at - 1] != '.')) &&
        (end == text.size() || !IsInName(text[end])) && visit(text.substr(end)))
      return true;
  }
  return false;
}

// What stands between the parenthesis at the start and its partner.
std::string_view Parenthesized(std::string_view text) {
  int depth = 0;
  for (size_t at = 0; at < text.size() && at < 300; ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return text.substr(0, at);
  }
  return text.substr(0, 300);
}

// .to(x), .to(device, x.dtype): not .to(device), .to(torch.float32).
bool ToOtherType(std::string_view argument) {
  if (HoldsAny(argument, {"float32", "torch.float)"}) || argument.ends_with("torch.float"))
    return false;
  return Holds(argument, "type") ||
         !HoldsAny(argument, {"dev", "cuda", "cpu", "rank", "gpu", "\"", "'"});
}

}  // namespace

bool CastsAway(std::string_view text) {
  if (HoldsAny(text, {"type_as", ".type(", "_like(", ".new_", ".half()", "bfloat16", ".long()",
                      ".int()", ".bool()", ".byte()", ".dtype", "float16", "dtype=dtype",
                      "dtype=torch.long", "dtype=torch.int", "dtype=torch.bool"}))
    return true;
  for (size_t at = text.find(".to("); at != std::string_view::npos;
       at = text.find(".to(", at + 1)) {
    if (ToOtherType(Parenthesized(text.substr(at + 3)))) return true;
  }
  const size_t named = text.find("dtype=");
  return named != std::string_view::npos && !Holds(text.substr(named, 24), "torch.float");
}

bool IsTiedLater(const FileFacts& facts, NodeId node) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  const NodeId statement = syntax.StatementOf(node);
  if (statement == kNoNode) return false;
  const std::string_view own = syntax.Text(statement);
  const bool simple = own.size() < 600;
  if (simple && CastsAway(own)) return true;
  const NodeId function = syntax.FunctionOf(node);
  std::vector<std::string_view> names;
  const auto take = [&](NodeId assignment) {
    const NodeId target = syntax.Child(assignment, f.left);
    if (syntax.Is(target, Kind::kIdentifier) || syntax.Is(target, Kind::kAttribute)) {
      names.push_back(syntax.Text(target));
    } else if (syntax.Is(target, Kind::kPatternList) || syntax.Is(target, Kind::kTuple)) {
      for (const NodeId part : syntax.Children(target)) names.push_back(syntax.Text(part));
    } else if (syntax.Is(target, Kind::kSubscript)) {
      names.push_back(NameOf(facts, target));
    }
  };
  // How the text goes on with one of the names: y.type(m.dtype) converts y, not m.
  const auto casts = [&](std::string_view text, bool* uses) {
    bool towards = false;
    for (const std::string_view name : names) {
      if (name.empty() || !AnyAfterWord(text, name, [](std::string_view) { return true; }))
        continue;
      *uses = true;
      const std::string itself(name);
      towards = towards || HoldsAny(text, {itself + ".dtype", "type_as(" + itself + ")",
                                           ".to(" + itself + ")"});
    }
    return *uses && !towards && CastsAway(text);
  };
  auto it = std::lower_bound(facts.assignments.begin(), facts.assignments.end(), statement);
  for (int count = 0; it != facts.assignments.end() && *it < syntax[function].after; ++it) {
    if (++count > kMostAssignments) return true;  // nobody can tell
    if (*it < syntax[statement].after) {
      take(*it);
      continue;
    }
    if (names.empty()) break;
    const std::string_view value = syntax.Text(syntax.Child(*it, f.right));
    bool uses = false;
    if (value.size() > 400) continue;
    if (casts(value, &uses)) return true;
    if (uses) take(*it);
  }
  // Where it is handed on: f(m.to(x)), return m.type_as(x).
  std::string_view rest =
      std::string_view(syntax.text())
          .substr(syntax[statement].end, syntax[function].end - syntax[statement].end);
  while (!rest.empty() && !names.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    bool uses = false;
    if (casts(line, &uses)) return true;
  }
  return false;
}

bool IsModelCode(const FileFacts& facts, NodeId node) {
  const NodeId function = facts.syntax.FunctionOf(node);
  if (function == 0 || !MayRunHalf(facts, node)) return false;
  const std::string name =
      LowerCase(facts.syntax.Text(facts.syntax.Child(function, PythonFields().name)));
  if (name.starts_with("__init") || name.starts_with("setup") ||
      HoldsAny(name, {"init_", "reset_", "_init", "collate", "load_", "save_", "convert", "parse"}))
    return false;
  const NodeId klass = facts.syntax.Enclosing(function, Kind::kClass);
  if (klass != kNoNode) return IsPartOfModel(facts, klass);
  if (HoldsAny(facts.path, {"data", "script", "preproc", "tools/", "bench", "test", "optim",
                            "transforms", "schedul", "setup.py", "eval"}))
    return false;
  return NamesPart(name) ||
         HoldsAny(name, {"anchor", "rotary", "rope", "position", "mask", "embed", "grid"}) ||
         HoldsAny(facts.path, {"model", "layer", "module", "loss", "nets/", "attention"});
}

}  // namespace mpnanny::static_check
