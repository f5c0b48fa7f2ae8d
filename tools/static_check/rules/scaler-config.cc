#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/precision_setup.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::scaler_config {
namespace {

struct Setting {
  const char* name;
  int position;  // in torch.cuda.amp.GradScaler; one more in torch.amp.GradScaler
};
constexpr Setting kInitScale = {"init_scale", 0};
constexpr Setting kGrowthFactor = {"growth_factor", 1};
constexpr Setting kBackoffFactor = {"backoff_factor", 2};
constexpr Setting kGrowthInterval = {"growth_interval", 3};
constexpr Setting kEnabled = {"enabled", 4};

class Reader {
 public:
  Reader(const FileFacts& facts, Sink& sink, NodeId call)
      : facts_(facts),
        sink_(sink),
        call_(call),
        // (device="cuda", init_scale=…) against (init_scale=…).
        shift_(facts.names.Callee(call).find("cuda.amp") == std::string::npos &&
                       facts.names.Callee(call).find("cpu.amp") == std::string::npos
                   ? 1
                   : 0) {}

  NodeId Argument(const Setting& setting) const {
    return facts_.names.Argument(call_, setting.position + shift_, setting.name);
  }

  void CheckNumber(const Setting& setting, bool (*wrong)(double), const char* better,
                   const char* what) {
    const NodeId argument = Argument(setting);
    const auto value = facts_.bindings.Number(argument);
    if (!value || !wrong(*value)) return;
    Add(argument, std::string(setting.name) + "=" + ShowNumber(*value) + ": " + what, better);
  }

  // Above it, gradients that are common overflow.
  void CheckInitialScale() {
    const NodeId argument = Argument(kInitScale);
    const auto value = facts_.bindings.Number(argument);
    if (!value || !(*value > kHighestInitialScale)) return;
    Add(argument,
        std::string(kInitScale.name) + "=" + ShowNumber(*value) + ": every gradient above " +
            ShowNumber(kFp16Max / *value) +
            " is inf in FP16; each halving on the way down costs a step.",
        "2.0**16")
        .form = "initial-scale";
  }

  void CheckSwitches() {
    const Syntax& syntax = facts_.syntax;
    const NodeId first = facts_.names.Argument(call_, shift_, "init_scale");
    const NodeId value = facts_.bindings.ValueOf(first);
    if (first != kNoNode && shift_ == 0 && !IsSwitch(value) && IsCalledSwitch(first)) {
      RawFinding& finding = sink_.Add(
          first, "By its name a switch, and this place is init_scale: True is a scale of 1.");
      MarkGuess(finding);
      if (syntax.Is(syntax[first].parent, Kind::kArgumentList))
        finding.edits.push_back({{syntax[first].begin, syntax[first].begin}, "enabled="});
    }
    // init_scale=… says what is meant, and the default of a parameter is not what it is given.
    const auto is = [&](NodeId node, std::initializer_list<Kind> kinds) {
      return node != kNoNode &&
             std::find(kinds.begin(), kinds.end(), syntax.kind(syntax[node].parent)) != kinds.end();
    };
    const bool given = is(first, {Kind::kArgumentList}) &&
                       !is(value, {Kind::kDefaultParameter, Kind::kTypedDefaultParameter});
    if (given && IsSwitch(value)) {
      const bool device = syntax.Is(value, Kind::kString);
      RawFinding& finding = sink_.Add(
          first, device ? "The first argument of this GradScaler is init_scale, not a device."
                        : "This switch lands in init_scale: True is a scale of 1, which never "
                          "helps, and the scaler is always on.");
      if (!device && facts_.syntax.Is(syntax[first].parent, Kind::kArgumentList))
        finding.edits.push_back({{syntax[first].begin, syntax[first].begin}, "enabled="});
    }
    const NodeId enabled = syntax.Unwrap(Argument(kEnabled));
    if (syntax.Is(enabled, Kind::kString)) {
      sink_.Add(enabled, "A string that is not empty counts as True: the scaler is always on.");
    }
  }

 private:
  bool IsSwitch(NodeId value) const {
    const Kind kind = facts_.syntax.kind(value);
    return kind == Kind::kTrue || kind == Kind::kFalse || kind == Kind::kString ||
           kind == Kind::kComparison || kind == Kind::kNot;
  }

  // args.fp16, use_amp: names of switches, not of numbers.
  bool IsCalledSwitch(NodeId argument) const {
    const Syntax& syntax = facts_.syntax;
    const std::string_view name =
        syntax.Is(argument, Kind::kAttribute)
            ? syntax.Text(syntax.Child(argument, PythonFields().attribute))
        : syntax.Is(argument, Kind::kIdentifier) ? syntax.Text(argument)
                                                 : std::string_view();
    if (name.find("scale") != std::string_view::npos) return false;
    for (const std::string_view word : {"fp16", "amp", "half", "mixed", "enable", "use_", "is_"}) {
      if (name == word || name.starts_with(word) || name.ends_with(word)) return true;
    }
    return false;
  }

  RawFinding& Add(NodeId argument, std::string message, const char* better) {
    RawFinding& finding = sink_.Add(argument, std::move(message));
    const Node& node = facts_.syntax[argument];
    finding.edits.push_back({{node.begin, node.end}, better});
    return finding;
  }

  const FileFacts& facts_;
  Sink& sink_;
  const NodeId call_;
  const int shift_;
};

// True if the dict sets up a dynamic loss scale.
bool SetsLossScale(const FileFacts& facts, NodeId dict) {
  for (const NodeId pair : facts.syntax.Children(dict)) {
    const std::string_view key = Literal(facts, facts.syntax[pair].first_child);
    for (const std::string_view setting : {"loss_scale_window", "initial_scale_power", "hysteresis",
                                           "min_loss_scale", "loss_scale"}) {
      if (key == setting) return true;
    }
  }
  return false;
}

// A section for BF16 with settings of a loss scale: "bf16": {…, "loss_scale": 0}, or one that is
// put under whatever type the run asks for.
void CheckSections(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  const std::string& text = syntax.text();
  if (!Holds(text, "initial_scale_power") && !Holds(text, "loss_scale_window")) return;
  const Fields& f = PythonFields();
  for (NodeId id = 0; id < syntax.size(); ++id) {
    if (!syntax.Is(id, Kind::kDictionary) || !SetsLossScale(facts, id)) continue;
    const NodeId up = syntax[id].parent;
    if (syntax.Is(up, Kind::kPair)) {
      const std::string_view key = Literal(facts, syntax[up].first_child);
      if (key == "bf16" || key == "bfloat16")
        MarkGuess(sink.Add(id,
                           "A loss scale for BF16, which has the range of FP32 and takes none: "
                           "these settings belong to fp16."));
    } else if (syntax.Is(up, Kind::kAssignment)) {
      const NodeId name = syntax.Child(up, f.left);
      if (!syntax.Is(name, Kind::kIdentifier) || facts.bindings.AssignmentsOf(name).size() != 1)
        continue;
      for (const NodeId use : facts.assignments) {
        const NodeId left = syntax.Child(use, f.left);
        const NodeId right = syntax.Child(use, f.right);
        if (use < up || !syntax.Is(left, Kind::kSubscript) ||
            syntax.Text(right) != syntax.Text(name) ||
            syntax.FunctionOf(use) != syntax.FunctionOf(up) ||
            syntax.Is(facts.bindings.ValueOf(syntax.Child(left, f.subscript)), Kind::kString))
          continue;
        MarkGuess(sink.Add(use,
                           "Settings of a loss scale under a type that is chosen at run time: "
                           "where it is BF16 they do not belong."));
      }
    }
  }
}

// What GradScaler takes.
bool IsKeyword(std::string_view name) {
  for (const std::string_view known : {"device", "init_scale", "growth_factor", "backoff_factor",
                                       "growth_interval", "enabled", "process_group"}) {
    if (name == known) return true;
  }
  return false;
}

void GuessKeywords(const FileFacts& facts, const ScalerMade& made, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  if (!IsGradScaler(facts.names.Callee(made.call))) return;
  const NodeId arguments = syntax.Child(made.call, PythonFields().arguments);
  for (const NodeId argument : syntax.Children(arguments)) {
    const NodeId name = syntax.Child(argument, PythonFields().name);
    if (name == kNoNode || !syntax.Is(argument, Kind::kKeywordArgument) ||
        IsKeyword(syntax.Text(name)))
      continue;
    MarkGuess(sink.Add(argument, "torch's GradScaler takes no " + std::string(syntax.Text(name)) +
                                     "=: this raises TypeError."));
  }
}

// use_amp, args.fp16, cfg.enable_amp, config["amp"]: what the file calls its switch; "" for none.
std::string_view SwitchOf(const FileFacts& facts) {
  const std::string_view text = facts.syntax.text();
  for (const std::string_view name :
       {"use_amp",      "enable_amp", "amp_enabled", "use_fp16",  "with_amp",
        "args.amp",     "args.fp16",  "cfg.amp",     "cfg.fp16",  "config.amp",
        "config.fp16",  "opt.amp",    "self.amp",    "self.fp16", "use_mixed_precision",
        "'enable_amp'", "\"amp\"",    "'amp'",       "fp16_run",  "args.mixed_precision"}) {
    if (Holds(text, name)) return name;
  }
  return {};
}

// A scaler that nothing switches, in a file that has a switch for mixed precision.
void GuessAlwaysOn(const FileFacts& facts, const ScalerMade& made, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  if (made.enabled_given || HasSplat(facts, made.call)) return;
  for (const ScalerMade& other : facts.scalers.made()) {
    if (other.enabled_given) return;
  }
  for (NodeId up = syntax[made.call].parent; up != kNoNode && up != 0; up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kConditional) || syntax.Is(up, Kind::kIf) ||
        syntax.Is(up, Kind::kElif) || syntax.Is(up, Kind::kBoolean))
      return;
  }
  const std::string_view name = SwitchOf(facts);
  if (name.empty()) return;
  MarkGuess(sink.Add(made.call, "This scaler is always on, and " + std::string(name) +
                                    " does not switch it: enabled= ties the two."));
}

// What switches the scaler on, against what switches autocast on.
// True if something was told, or a condition decides.
bool GuessSwitch(const FileFacts& facts, const ScalerMade& made, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  const NodeId enabled = syntax.Unwrap(facts.names.Argument(made.call, -1, "enabled"));
  if (syntax.Is(enabled, Kind::kComparison)) {
    const std::vector<NodeId> sides = syntax.Children(enabled);
    if (sides.size() >= 2 && SameText(facts, sides.front(), sides.back()))
      MarkGuess(sink.Add(enabled,
                         "This compares a value with itself: the scaler is always on, also where "
                         "nothing runs in FP16."));
    return true;
  }
  if (enabled != kNoNode && !syntax.Is(enabled, Kind::kTrue)) return false;
  // Made under a condition, it is tied by that.
  for (NodeId up = syntax[made.call].parent; up != kNoNode && up != 0; up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kConditional) || syntax.Is(up, Kind::kIf)) return true;
  }
  for (const Autocast& region : facts.regions.all()) {
    if (region.foreign || region.device == Device::kCpu) continue;
    const bool chosen = region.enabled == Tri::kUnknown;
    const bool type = region.dtype_given && region.dtype == HalfType::kUnknown;
    if (!chosen && !type) continue;
    MarkGuess(
        sink.Add(made.call,
                 std::string("This scaler is always on, while ") +
                     (chosen ? "autocast is switched by an argument: without it, FP32 gradients "
                               "are scaled by 65536 for nothing."
                             : "the type of autocast is chosen at run time: BF16 needs no scale.") +
                     " enabled= ties the two."));
    return true;
  }
  return false;
}

// scaler.update(512): the scale is set again at every update, so an overflow never lowers it.
void GuessFixedScale(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  for (const ScalerCall& update : calls) {
    const NodeId scale = facts.names.Argument(update.call, 0, "new_scale");
    const auto value = update.op == ScalerCall::Op::kUpdate && scale != kNoNode
                           ? facts.bindings.Number(scale)
                           : std::nullopt;
    if (!value) continue;
    // A floor or a new start beside the update that lets the scale move.
    const bool moves = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& other) {
      return other.op == ScalerCall::Op::kUpdate && other.scaler == update.scaler &&
             facts.names.Arguments(other.call).empty();
    });
    if (moves) continue;
    MarkGuess(sink.Add(update.call, "Every update sets the scale to " + ShowNumber(*value) +
                                        ": an overflow does not lower it, and no good steps raise "
                                        "it. update() without an argument lets it adapt."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  CheckSections(facts, sink);
  GuessFixedScale(facts, sink);
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false) continue;
    Reader reader(facts, sink, made.call);
    reader.CheckNumber(
        kInitScale, [](double v) { return v <= 0; }, "2.0**16",
        "gradients are multiplied by this and divided by it again, so it must be positive.");
    reader.CheckInitialScale();
    reader.CheckNumber(
        kGrowthFactor, [](double v) { return v <= 1.0; }, "2.0",
        "the constructor asserts that it is above 1.");
    reader.CheckNumber(
        kBackoffFactor, [](double v) { return v >= 1.0 || v <= 0.0; }, "0.5",
        "the scale must fall after an overflow; the constructor asserts that it is below 1.");
    reader.CheckNumber(
        kGrowthInterval, [](double v) { return v <= 4.0; }, "2000",
        "the scale doubles after so few good steps and overflows again: a large part of all "
        "steps is skipped.");
    if (!HasSeveralImports(facts, facts.syntax.Child(made.call, PythonFields().function)))
      reader.CheckSwitches();
    GuessKeywords(facts, made, sink);
    if (!GuessSwitch(facts, made, sink)) GuessAlwaysOn(facts, made, sink);
  }
  for (const ScalerMade& made : facts.scalers.wrappers()) {
    if (facts.names.Arguments(made.call).empty()) GuessSwitch(facts, made, sink);
  }
}

}  // namespace mpnanny::static_check::scaler_config
