#include <optional>
#include <string_view>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

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
  return facts.syntax.Text(expression).find(".dtype") != std::string_view::npos;
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
// kUnknown where it has none, kNo for a small one and for the channels of a frequency table.
static Tri Passes(const FileFacts& facts, NodeId range, double limit) {
  const NodeId first = facts.names.Argument(range, 0, "end");
  if (first == kNoNode || facts.names.Argument(range, 2, "step") != kNoNode) return Tri::kNo;
  const NodeId second = facts.names.Argument(range, 1, "");
  const NodeId end = second == kNoNode ? first : second;
  // The last position is one less than the end.
  if (const auto value = facts.bindings.Number(end))
    return *value > limit + 1 ? Tri::kYes : Tri::kNo;
  const std::string_view text = facts.syntax.Text(end);
  // Half of something is a number of frequencies: arange(D // 2).
  if (Holds(text, "// 2") || Holds(text, "//2") || Holds(text, "// 4") || Holds(text, "//4"))
    return Tri::kNo;
  return HoldsAny(text, {"dim", "half", "channel", "freq", "head", "num_b", "class"})
             ? Tri::kNo
             : Tri::kUnknown;
}

// Names of integers that must not be rounded.
static bool NamesPositions(std::string_view name) {
  static constexpr std::string_view kNames[] = {"position_ids", "positions", "pos_ids",
                                                "input_ids",    "token_ids", "indices"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Steps of a diffusion process, 0 to 1000: FP16 holds them, BF16 does not.
static bool NamesSteps(std::string_view name) { return name == "timesteps" || name == "timestep"; }

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

// True if the function divides the variable, so that it holds no whole steps any more.
static bool IsDivided(const FileFacts& facts, NodeId node, std::string_view variable) {
  const std::string_view function = facts.syntax.Text(facts.syntax.FunctionOf(node));
  return function.find(std::string(variable) + " /") != std::string_view::npos ||
         function.find(std::string(variable) + ".div") != std::string_view::npos;
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("arange")) {
    if (call->callee == "torch.arange") CheckRange(facts, call->node, sink);
  }
  const std::string& text = facts.syntax.text();
  if (!Holds(text, "timestep") && !Holds(text, "_ids") && !Holds(text, "positions") &&
      !Holds(text, "indices"))
    return;
  for (const std::string_view name : {"half", "bfloat16", "to"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const std::string key = facts.names.Key(call->receiver);
      const std::string_view variable = LastComponent(key);
      const bool steps = NamesSteps(variable);
      if (!steps && !NamesPositions(variable)) continue;
      const HalfType type = CastTo(facts, call->node);
      if (type == HalfType::kUnknown || (steps && type == HalfType::kFp16)) continue;
      if (IsDivided(facts, call->node, variable)) continue;
      RawFinding& finding =
          sink.Add(call->node, std::string(variable) + " is rounded to 16 bits: " + Shown(type));
      finding.form = "how-many-unknown";
      finding.guess =
          steps || TakesTheType(facts, call->node);  // a model may be trained with rounded steps
    }
  }
}

}  // namespace mpnanny::check::positions_in_half
