#include <optional>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::positions_in_half {

// The largest integer up to which the type holds all integers.
static double ExactUpTo(HalfType type) { return type == HalfType::kFp16 ? 2048 : 256; }
static const char* Shown(HalfType type) {
  return type == HalfType::kFp16 ? "FP16 holds all integers only up to 2048."
                                 : "BF16 holds all integers only up to 256.";
}

static HalfType TypeOf(const Value& value) {
  return value.type == Type::kFp16   ? HalfType::kFp16
         : value.type == Type::kBf16 ? HalfType::kBf16
                                     : HalfType::kUnknown;
}

// The 16-bit type that an expression names: torch.bfloat16, x.dtype of a 16-bit x.
static HalfType Named(const FileFacts& facts, NodeId expression) {
  if (expression == kNoNode) return HalfType::kUnknown;
  const HalfType type = facts.regions.ReadHalfType(expression);
  const NodeId id = facts.syntax.Unwrap(expression);
  if (type != HalfType::kUnknown || !facts.syntax.Is(id, Kind::kAttribute)) return type;
  const Fields& f = PythonFields();
  if (facts.syntax.Text(facts.syntax.Child(id, f.attribute)) != "dtype") return type;
  return TypeOf(facts.dtypes->Of(facts.syntax.Child(id, f.object)));
}

// True if the type is that of another value (dtype=x.dtype): how far the positions go is not known
// where that is.
static bool TakesTheType(const FileFacts& facts, NodeId expression) {
  if (expression == kNoNode) return false;
  for (NodeId id = expression; id < facts.syntax[expression].after; ++id) {
    if (facts.syntax.Is(id, Kind::kAttribute) &&
        facts.syntax.Text(facts.syntax.Child(id, PythonFields().attribute)) == "dtype")
      return true;
  }
  return false;
}

// The type that the call at `id` casts its receiver to.
static HalfType CastTo(const FileFacts& facts, NodeId id) {
  const Call* call = facts.names.CallAt(id);
  if (call == nullptr || call->receiver == kNoNode) return HalfType::kUnknown;
  if (call->method == "half") return HalfType::kFp16;
  if (call->method == "bfloat16") return HalfType::kBf16;
  if (call->method == "type_as") {
    return TypeOf(facts.dtypes->Of(facts.names.Argument(id, 0, "other")));
  }
  if (call->method != "to" && call->method != "type") return HalfType::kUnknown;
  for (const NodeId argument : facts.names.Arguments(id)) {
    if (const HalfType type = Named(facts, argument); type != HalfType::kUnknown) return type;
  }
  return HalfType::kUnknown;
}

// Whether the range is one of positions that pass `limit`: kYes where the text has the number,
// kUnknown where it has none, kNo for a small one and for half of something.
static Tri Passes(const FileFacts& facts, NodeId range, double limit) {
  const NodeId first = facts.names.Argument(range, 0, "end");
  if (first == kNoNode || facts.names.Argument(range, 2, "step") != kNoNode) return Tri::kNo;
  const NodeId second = facts.names.Argument(range, 1, "");
  const NodeId end = second == kNoNode ? first : second;
  // The last position is one less than the end.
  if (const auto value = facts.bindings.Number(end))
    return *value > limit + 1 ? Tri::kYes : Tri::kNo;
  // Half of something is a number of frequencies: arange(D // 2).
  return OperatorOf(facts, facts.syntax.Unwrap(end)) == "//" ? Tri::kNo : Tri::kUnknown;
}

static void CheckRange(const FileFacts& facts, NodeId range, Sink& sink) {
  const NodeId dtype = facts.names.Argument(range, -1, "dtype");
  HalfType type = Named(facts, dtype);
  NodeId place = range;
  // arange(…).to(torch.bfloat16), also further along the chain.
  for (NodeId up = range; type == HalfType::kUnknown && dtype == kNoNode;) {
    const NodeId attribute = facts.syntax[up].parent;
    if (!facts.syntax.Is(attribute, Kind::kAttribute)) break;
    const NodeId call = facts.syntax[attribute].parent;
    if (!facts.syntax.Is(call, Kind::kCall)) break;
    const std::string_view method = facts.names.Method(call);
    if (method == "float" || method == "double" || method == "long") return;
    type = CastTo(facts, call);
    place = up = call;
  }
  if (type == HalfType::kUnknown) return;
  const Tri passes = Passes(facts, range, ExactUpTo(type));
  if (passes == Tri::kNo) return;
  RawFinding& finding =
      sink.Add(place, std::string("Positions are made in 16 bits: ") + Shown(type));
  finding.guess = TakesTheType(facts, place) || TakesTheType(facts, dtype);
  if (passes == Tri::kUnknown) finding.form = "how-many-unknown";
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("arange")) {
    if (call->callee == "torch.arange") CheckRange(facts, call->node, sink);
  }
}

}  // namespace mpnanny::check::positions_in_half
