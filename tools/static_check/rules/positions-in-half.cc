#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::positions_in_half {

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

// True if the range is one of positions that may pass `limit`: not a small literal, and not the
// channels of a frequency table.
static bool MayPass(const FileFacts& facts, NodeId range, double limit) {
  const NodeId first = facts.names.Argument(range, 0, "end");
  if (first == kNoNode || facts.names.Argument(range, 2, "step") != kNoNode) return false;
  const NodeId second = facts.names.Argument(range, 1, "");
  const NodeId end = second == kNoNode ? first : second;
  if (const std::optional<double> value = facts.bindings.Number(end)) return *value > limit;
  const std::string_view text = facts.syntax.Text(end);
  // Half of something is a number of frequencies: arange(D // 2).
  if (Holds(text, "// 2") || Holds(text, "//2") || Holds(text, "// 4") || Holds(text, "//4"))
    return false;
  return !HoldsAny(text, {"dim", "half", "channel", "freq", "head", "num_b", "class"});
}

// Names of integers that must not be rounded.
static bool NamesPositions(std::string_view name) {
  static constexpr std::string_view kNames[] = {"position_ids", "positions", "pos_ids",
                                                "input_ids",    "token_ids", "indices"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Steps of a diffusion process, 0 to 1000: FP16 holds them, BF16 does not.
static bool NamesSteps(std::string_view name) { return name == "timesteps" || name == "timestep"; }

// A type that the caller gives, which may be 16-bit: dtype, weight_dtype, x.dtype.
static bool IsGivenType(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  const std::string_view text = facts.syntax.Text(id);
  if (!text.ends_with("dtype") || text.size() > 60) return false;
  if (HoldsAny(text, {"inv_freq", "ids", "pos", "index", "idx", "float", "int"})) return false;
  if (facts.syntax.Is(id, Kind::kAttribute)) {
    const NodeId of = facts.syntax.Child(id, PythonFields().object);
    const Value value = facts.dtypes->Of(of);
    const HalfGuess guess(facts, id);
    return value.type != Type::kFp32 && value.type != Type::kIndex &&
           (facts.syntax.Text(of) == "self" || guess.MayBeHalf(of));
  }
  const NodeId value = facts.bindings.ValueOf(id);
  const std::string_view made = value == kNoNode ? "" : facts.syntax.Text(value);
  return facts.syntax.Is(id, Kind::kIdentifier) && made.find("float32") == std::string_view::npos;
}

// latent_image_ids.to(device=device, dtype=dtype)
static void GuessIds(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("to")) {
    const std::string key = facts.names.Key(call->receiver);
    const std::string_view name = LastComponent(key);
    const bool positions = name.ends_with("img_ids") || name.ends_with("image_ids") ||
                           name.ends_with("txt_ids") || name.ends_with("text_ids") ||
                           name.ends_with("pos_ids") || name.ends_with("position_ids") ||
                           name.ends_with("positions") || name == "pos" || name == "grid_ids";
    if (!positions || CastTo(facts, call->node) != HalfType::kUnknown) continue;
    bool given = false;
    for (const NodeId argument : facts.names.Arguments(call->node))
      given = given || IsGivenType(facts, argument);
    if (given)
      MarkGuess(sink.Add(call->node, std::string(name) +
                                         " takes the type that is given: in BF16 it holds integers "
                                         "only up to 256, in FP16 up to 2048."));
  }
}

// arange(n, dtype=x.dtype), arange(n).to(x.dtype), arange(n).type_as(x)
static void GuessRange(const FileFacts& facts, NodeId range, NodeId place, NodeId dtype,
                       bool type_as, Sink& sink) {
  const bool given = type_as ? HalfGuess(facts, range).MayBeHalf(dtype) &&
                                   facts.dtypes->Of(dtype).type != Type::kIndex
                             : IsGivenType(facts, dtype);
  const std::string_view text = facts.syntax.Text(dtype);
  if (!given || Holds(text, "inv_freq") || !MayPass(facts, range, ExactUpTo(HalfType::kBf16)))
    return;
  MarkGuess(sink.Add(place,
                     "Positions take the type that is given: in BF16 they are exact only up to "
                     "256, in FP16 up to 2048."));
}

static void CheckRange(const FileFacts& facts, NodeId range, Sink& sink) {
  const NodeId dtype = facts.names.Argument(range, -1, "dtype");
  HalfType type = Named(facts, dtype);
  if (type == HalfType::kUnknown && dtype != kNoNode && facts.project.sixteen_bit)
    GuessRange(facts, range, range, dtype, false, sink);
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
    const NodeId to = facts.names.Argument(call, 0, "dtype");
    if (type == HalfType::kUnknown && to != kNoNode && facts.project.sixteen_bit &&
        (method == "type_as" || method == "to" || method == "type"))
      GuessRange(facts, range, call, to, method == "type_as", sink);
  }
  if (type != HalfType::kUnknown && MayPass(facts, range, ExactUpTo(type)))
    sink.Add(place, std::string("Positions are made in 16 bits: ") + Shown(type)).guess =
        TakesTheType(facts, place) || TakesTheType(facts, dtype);
}

// The frequencies, distances and slopes of position embeddings, and times.
static bool NamesDistances(std::string_view name) {
  static constexpr std::string_view kWords[] = {"freq",     "alibi",   "slope",    "position",
                                                "distance", "rel_pos", "theta",    "omega",
                                                "coord",    "grid",    "timestep", "sigmas"};
  return HoldsAny(name, kWords) &&
         !HoldsAny(name, {"embed", "emb", "cos", "sin", "bias_table", "_enc", "cis"});
}

// True if the function divides the variable, so that it holds no whole steps any more.
static bool IsDivided(const FileFacts& facts, NodeId node, std::string_view variable) {
  const std::string_view function = facts.syntax.Text(facts.syntax.FunctionOf(node));
  return function.find(std::string(variable) + " /") != std::string_view::npos ||
         function.find(std::string(variable) + ".div") != std::string_view::npos;
}

// inv_freq.to(x.dtype): rounded before it is multiplied by the position.
static void GuessFrequencies(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"to", "type_as", "type", "half", "bfloat16"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const std::string_view what =
          call->receiver == kNoNode ? "" : facts.syntax.Text(call->receiver);
      if (what.empty() || what.size() > 60 || !NamesDistances(what) || !call->callee.empty() ||
          Holds(what, "(") || !MayTrain(facts, call->node))
        continue;
      // FP16 holds the steps of a diffusion process, and fractions are no positions.
      if (Holds(what, "timestep") &&
          (CastTo(facts, call->node) != HalfType::kUnknown || IsDivided(facts, call->node, what)))
        continue;
      bool given =
          name == "half" || name == "bfloat16" ||
          (name == "type_as" && !HoldsAny(facts.syntax.Text(call->node), {"freq)", "inv"}));
      for (const NodeId argument : facts.names.Arguments(call->node))
        given = given || facts.regions.ReadHalfType(argument) != HalfType::kUnknown ||
                (name != "type_as" && IsGivenType(facts, argument));
      if (given)
        MarkGuess(sink.Add(call->node,
                           "Takes the type that is given: rounded to 16 bits, its product with a "
                           "position of 2000 is off by up to 1 in FP16 and 8 in BF16."));
    }
  }
}

// self.attn_bias(device, dtype=x.dtype), build_alibi(n, dtype=dtype)
static void GuessTables(const FileFacts& facts, Sink& sink) {
  for (const Call& call : facts.names.calls()) {
    if (!HoldsAny(call.name, {"bias", "alibi", "rope", "rotary", "sinusoid", "pos_emb", "position",
                              "grid", "coords", "anchors", "points", "freqs", "timestep_emb"}) ||
        facts.syntax.FunctionOf(call.node) == 0)
      continue;
    const NodeId dtype = facts.names.Argument(call.node, -1, "dtype");
    if (dtype == kNoNode || !MayTrain(facts, call.node)) continue;
    if (facts.regions.ReadHalfType(dtype) == HalfType::kUnknown && !IsGivenType(facts, dtype))
      continue;
    MarkGuess(sink.Add(call.node,
                       "A table of positions or distances in the type that is given: in BF16 they "
                       "are exact only up to 256, in FP16 up to 2048."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.HasHalfChoice()) {
    GuessFrequencies(facts, sink);
    GuessTables(facts, sink);
  }
  for (const Call* call : facts.names.CallsNamed("arange")) {
    if (call->callee == "torch.arange") CheckRange(facts, call->node, sink);
  }
  if (facts.project.sixteen_bit) GuessIds(facts, sink);
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
      sink.Add(call->node, std::string(variable) + " is rounded to 16 bits: " + Shown(type)).guess =
          steps || TakesTheType(facts, call->node);  // a model may be trained with rounded steps
    }
  }
}

}  // namespace mpnanny::static_check::positions_in_half
