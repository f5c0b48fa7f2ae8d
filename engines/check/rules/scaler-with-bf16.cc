#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::scaler_with_bf16 {

namespace {

// How many names are looked through.
constexpr int kMaxDepth = 4;

// True if there is an autocast in that function (0: in the file), and all of them are BF16.
bool OnlyBf16(const FileFacts& facts, NodeId function) {
  bool found = false;
  for (const Autocast& autocast : facts.regions.all()) {
    const bool inside = autocast.node >= function && autocast.node < facts.syntax[function].after;
    if (!inside || autocast.enabled == Tri::kNo) continue;
    if (autocast.foreign || autocast.dtype != HalfType::kBf16) return false;
    found = true;
  }
  return found;
}

bool HasAutocast(const FileFacts& facts, NodeId function) {
  const std::vector<Autocast>& all = facts.regions.all();
  return std::any_of(all.begin(), all.end(), [&](const Autocast& autocast) {
    return autocast.node >= function && autocast.node < facts.syntax[function].after;
  });
}

// True if the scaler is a variable of the function that makes it, which scales with it, gives it to
// nobody, and calls no function of this file with an autocast of its own.
bool StaysIn(const FileFacts& facts, const ScalerMade& made, NodeId function) {
  const Syntax& syntax = facts.syntax;
  if (function == 0 || made.key.empty()) return false;
  for (NodeId id = function; id < syntax[function].after; ++id) {
    if (syntax.Is(id, Kind::kIdentifier) && syntax.Text(id) == made.key) {
      const NodeId parent = syntax[id].parent;
      if (!syntax.Is(parent, Kind::kAttribute) && !syntax.Is(parent, Kind::kAssignment))
        return false;
    }
    const Function* callee = syntax.Is(id, Kind::kCall) ? facts.bindings.Callee(id) : nullptr;
    if (callee != nullptr && HasAutocast(facts, callee->node)) return false;
  }
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
    return call.op == ScalerCall::Op::kScale && call.scaler == made.key &&
           syntax.FunctionOf(call.call) == function;
  });
}

bool HasBf16(std::string_view text) {
  const std::string lower = LowerCase(text);
  return lower.find("bf16") != std::string::npos || lower.find("bfloat16") != std::string::npos;
}

bool HasFp16(std::string_view text) {
  const std::string lower = LowerCase(text);
  for (const std::string_view word : {"float16", "fp16", "half"}) {
    for (size_t at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1)) {
      if (at == 0 || lower[at - 1] != 'b') return true;
    }
  }
  return false;
}

// True for a name of a dtype as a condition: that there is one does not say which.
bool IsDtypeName(const Syntax& syntax, NodeId id) {
  return (syntax.Is(id, Kind::kIdentifier) || syntax.Is(id, Kind::kAttribute)) &&
         LowerCase(syntax.Text(id)).ends_with("dtype") && !HasFp16(syntax.Text(id)) &&
         !HasBf16(syntax.Text(id));
}

// What a condition says of BF16: that it holds then, that it does not, nothing, or something that
// is not understood.
enum class Says { kNothing, kOn, kOff, kUnclear };

Says Not(Says says) { return says == Says::kOn ? Says::kOff : Says::kUnclear; }

Says OfText(std::string_view text) {
  if (HasBf16(text)) return Says::kOn;
  if (HasFp16(text)) return Says::kOff;
  const std::string lower = LowerCase(text);
  return lower.find("dtype") != std::string::npos ||
                 (lower.find("precision") != std::string::npos &&
                  lower.find("mixed_precision") == std::string::npos)
             ? Says::kUnclear
             : Says::kNothing;
}

Says OfCondition(const FileFacts& facts, NodeId expression, int depth) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const NodeId id = syntax.Unwrap(expression);
  if (id == kNoNode || depth == 0) return Says::kNothing;
  switch (syntax.kind(id)) {
    case Kind::kNot: {
      const Says inner = OfCondition(facts, syntax.Child(id, f.argument), depth - 1);
      return inner == Says::kNothing ? inner : Not(inner);
    }
    case Kind::kBoolean: {
      const Says left = OfCondition(facts, syntax.Child(id, f.left), depth - 1);
      const Says right = OfCondition(facts, syntax.Child(id, f.right), depth - 1);
      const bool is_and = syntax.Text(syntax.Child(id, f.operator_)) == "and";
      const Says decides = is_and ? Says::kOff : Says::kOn;
      if (left == decides || right == decides) return decides;
      if (left == Says::kNothing) return is_and ? right : left;
      if (right == Says::kNothing) return is_and ? left : right;
      return left == right ? left : Says::kUnclear;
    }
    case Kind::kComparison: {
      const std::vector<NodeId> operands = syntax.Children(id);
      if (operands.size() != 2) return Says::kUnclear;
      const std::string_view op = syntax.Text(syntax.Child(id, f.operators));
      const bool negative = op == "!=" || op.starts_with("not") || op.starts_with("is not");
      const Says value = OfText(syntax.Text(operands[1]));
      if (value == Says::kOn || value == Says::kOff) return negative ? Not(value) : value;
      // dtype != "float32" holds for BF16, too.
      const std::string other = LowerCase(syntax.Text(operands[1]));
      if (other.find("float32") != std::string::npos || other.find("fp32") != std::string::npos ||
          other == "\"no\"" || other == "'no'")
        return negative ? Says::kNothing : Says::kOff;
      if (syntax.Is(operands[1], Kind::kNone) && IsDtypeName(syntax, operands[0]))
        return negative ? Says::kNothing : Says::kOff;
      const Says left = OfCondition(facts, operands[0], depth - 1);
      // `args.precision == "amp"` is not asked for BF16, `loss_scale > 0` says nothing.
      if (left == Says::kNothing) return left;
      if (syntax.Is(operands[1], Kind::kNone)) return negative ? left : Not(left);
      return Says::kUnclear;
    }
    default:
      break;
  }
  if (IsDtypeName(syntax, id)) return Says::kNothing;
  if (const Says own = OfText(syntax.Text(id)); own != Says::kNothing) return own;
  const NodeId value = facts.bindings.ValueOf(id, 1);
  return value == kNoNode || value == id ? Says::kNothing : OfCondition(facts, value, depth - 1);
}

// What the conditions under which the node is reached say together, with `enabled=` of a scaler.
Says OfPlace(const FileFacts& facts, NodeId node) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  Says all = Says::kNothing;
  const auto add = [&](Says says) {
    if (says == Says::kOff || (says != Says::kNothing && all != Says::kOff)) all = says;
  };
  if (syntax.Is(node, Kind::kCall))
    add(OfCondition(facts, facts.names.Argument(node, -1, "enabled"), kMaxDepth));
  for (NodeId part = node; part > 0; part = syntax[part].parent) {
    const NodeId up = syntax[part].parent;
    if (syntax.Is(up, Kind::kFunction)) break;
    if (syntax.Is(up, Kind::kConditional)) {
      const std::vector<NodeId> parts = syntax.Children(up);
      if (parts.size() != 3 || part == parts[1]) continue;
      const Says says = OfCondition(facts, parts[1], kMaxDepth);
      if (part == parts[0]) {
        add(says);
      } else if (says == Says::kOn) {
        add(Says::kOff);
      }
    } else if (syntax.Is(up, Kind::kIf) || syntax.Is(up, Kind::kElif)) {
      const NodeId condition = syntax.Child(up, f.condition);
      if (part == condition) continue;
      const bool holds = syntax[part].field == f.consequence;
      const Says says = OfCondition(facts, condition, kMaxDepth);
      // That it is not FP16 does not say what it is.
      if (holds) {
        add(says);
      } else if (says == Says::kOn) {
        add(Says::kOff);
      }
    }
  }
  return all;
}

// True if the value may be torch.bfloat16, as far as the text tells: one of its assignments says
// so.
bool MayBeBf16(const FileFacts& facts, NodeId expression, int depth) {
  const Syntax& syntax = facts.syntax;
  const NodeId id = syntax.Unwrap(expression);
  if (id == kNoNode || depth == 0) return false;
  if (HasBf16(syntax.Text(id))) return true;
  for (NodeId part = id; part < syntax[id].after; ++part) {
    const Kind kind = syntax.kind(part);
    if (kind == Kind::kCall) {
      const Definition made = facts.Callee(part);
      if (made.function != nullptr && made.function->node != 0 &&
          HasBf16((*facts.files)[made.module]->syntax.Text(made.function->node)))
        return true;
    }
    if (kind != Kind::kIdentifier && kind != Kind::kAttribute) continue;
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(part)) {
      if (assignment.value != kNoNode && assignment.value != id &&
          MayBeBf16(facts, assignment.value, depth - 1))
        return true;
    }
    // args.amp_dtype, in a program that knows the option "bfloat16".
    const std::string_view text = syntax.Text(part);
    if (kind == Kind::kAttribute && Holds(text, "dtype") &&
        (text.starts_with("args.") || text.starts_with("cfg.") || text.starts_with("config.") ||
         text.starts_with("opt.") || text.starts_with("self.")) &&
        (Holds(syntax.text(), "\"bf") || Holds(syntax.text(), "'bf")))
      return true;
  }
  return false;
}

// True for options.amp_dtype, in a project that names bfloat16 somewhere.
bool IsOptionOfProject(const FileFacts& facts, NodeId expression) {
  const Syntax& syntax = facts.syntax;
  const NodeId id = syntax.Unwrap(expression);
  if (!syntax.Is(id, Kind::kAttribute) || !IsDtypeName(syntax, id)) return false;
  return std::any_of(facts.files->begin(), facts.files->end(),
                     [](const FileFacts* file) { return Holds(file->syntax.text(), "bfloat16"); });
}

// What the autocasts of a file may be.
struct Dtypes16 {
  bool bf16 = false;    // one is
  bool maybe = false;   // one may be BF16 and something else
  bool option = false;  // one is an option of a project that knows BF16
  bool other = false;   // one is FP16, or not known
};

Dtypes16 AutocastsOf(const FileFacts& facts) {
  Dtypes16 found;
  for (const struct Call& call : facts.names.calls()) {
    const bool partial = call.callee == "functools.partial";
    const bool autocast =
        IsAutocast(call.callee) ||
        (partial && IsAutocast(facts.names.Resolve(facts.names.Argument(call.node, 0, "func"))));
    if (!autocast || facts.syntax.Is(facts.names.Argument(call.node, -1, "enabled"), Kind::kFalse))
      continue;
    const NodeId dtype = facts.names.Argument(call.node, partial ? -1 : 1, "dtype");
    const HalfType type = dtype == kNoNode ? HalfType::kFp16 : facts.regions.ReadHalfType(dtype);
    if (type == HalfType::kBf16) {
      found.bf16 = true;
    } else if (type == HalfType::kUnknown && MayBeBf16(facts, dtype, kMaxDepth)) {
      found.maybe = true;
    } else if (type == HalfType::kUnknown && IsOptionOfProject(facts, dtype)) {
      found.option = true;
    } else {
      found.other = true;
    }
  }
  return found;
}

// True if the scaler is taken away, or is scaled with, only where the dtype is asked for.
bool IsLeftOut(const FileFacts& facts, const ScalerMade& made) {
  const auto it = facts.bindings.all().find(made.key);
  if (it != facts.bindings.all().end()) {
    for (const Assignment& assignment : it->second) {
      if (facts.syntax.Is(assignment.value, Kind::kNone) &&
          OfPlace(facts, assignment.target) != Says::kNothing)
        return true;
    }
  }
  for (const ScalerCall& call : facts.scalers.calls()) {
    const Says says = OfPlace(facts, call.call);
    if (call.op == ScalerCall::Op::kScale &&
        LastComponent(call.scaler) == LastComponent(made.key) &&
        (says == Says::kOff || says == Says::kUnclear))
      return true;
  }
  return false;
}

void CheckMade(const FileFacts& facts, const ScalerMade& made, const Dtypes16& here, Sink& sink) {
  if (made.enabled_false) return;
  const Says says = OfPlace(facts, made.call);
  if (says == Says::kOff || says == Says::kUnclear || IsLeftOut(facts, made)) return;
  if (says == Says::kOn) {
    sink.Add(made.call, "This GradScaler is made for BF16, which needs none.");
    return;
  }
  const NodeId function = facts.syntax.FunctionOf(made.call);
  const bool only = OnlyBf16(facts, 0) && !here.other && !here.maybe && !here.option;
  if (only ||
      (!made.enabled_given && StaysIn(facts, made, function) && OnlyBf16(facts, function))) {
    sink.Add(made.call);
  } else if (here.maybe) {
    sink.Add(made.call,
             "This GradScaler is on with BF16 as well: autocast's dtype may be bfloat16, and "
             "nothing here asks for it.")
        .guess = true;
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.scalers.made().empty() && facts.scalers.wrappers().empty()) return;
  Dtypes16 dtypes = AutocastsOf(facts);
  const bool none = !dtypes.bf16 && !dtypes.maybe && !dtypes.other && !dtypes.option;
  if (none && !HasAutocast(facts, 0)) {
    // Autocast stands in other files.
    for (const FileFacts* file : *facts.files) {
      const Dtypes16 there = AutocastsOf(*file);
      dtypes.maybe = dtypes.maybe || there.maybe || there.bf16;
      dtypes.other = dtypes.other || there.other;
    }
    if (dtypes.other) dtypes.maybe = false;
  }
  for (const ScalerMade& made : facts.scalers.made()) CheckMade(facts, made, dtypes, sink);
  for (const ScalerMade& made : facts.scalers.wrappers()) {
    // apex's own scaler does not run under autocast.
    if (facts.names.CallAt(made.call)->name.find("Apex") == std::string_view::npos)
      CheckMade(facts, made, dtypes, sink);
  }
}

}  // namespace mpnanny::check::scaler_with_bf16
