#include <algorithm>
#include <initializer_list>
#include <string>

#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_config {
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

// The form of what torch takes and what makes the scaler useless.
constexpr std::string_view kAllowed = "allowed";

class Reader {
 public:
  Reader(const FileFacts& facts, Sink& sink, NodeId call)
      : facts_(facts),
        sink_(sink),
        call_(call),
        // (device="cuda", init_scale=…) against (init_scale=…).
        shift_(facts.names.Callee(call).starts_with("torch.cuda.") ||
                       facts.names.Callee(call).starts_with("torch.cpu.")
                   ? 0
                   : 1) {}

  NodeId Argument(const Setting& setting) const {
    return facts_.names.Argument(call_, setting.position + shift_, setting.name);
  }

  // `form`: "" where the constructor refuses the value.
  void CheckNumber(const Setting& setting, bool (*wrong)(double), std::string_view form,
                   const char* better, const char* what) {
    const NodeId argument = Argument(setting);
    const auto value = facts_.bindings.Number(argument);
    if (!value || !wrong(*value)) return;
    Add(argument, std::string(setting.name) + "=" + ShowNumber(*value) + ": " + what, better).form =
        form;
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
          first,
          device
              ? "The first argument of this GradScaler is init_scale, not a device: scale() raises "
                "TypeError."
              : "This switch lands in init_scale: True is a scale of 1, which never "
                "helps, and the scaler is always on.");
      if (!device) finding.form = kAllowed;  // a text is a TypeError in scale()
      if (!device && facts_.syntax.Is(syntax[first].parent, Kind::kArgumentList))
        finding.edits.push_back({{syntax[first].begin, syntax[first].begin}, "enabled="});
    }
    const NodeId enabled = syntax.Unwrap(Argument(kEnabled));
    if (syntax.Is(enabled, Kind::kString)) {
      sink_.Add(enabled, "A string that is not empty counts as True: the scaler is always on.")
          .form = kAllowed;
    }
  }

 private:
  bool IsSwitch(NodeId value) const {
    const Kind kind = facts_.syntax.kind(value);
    return kind == Kind::kTrue || kind == Kind::kFalse || kind == Kind::kString ||
           kind == Kind::kComparison || kind == Kind::kNot;
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

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false) continue;
    Reader reader(facts, sink, made.call);
    reader.CheckNumber(
        kInitScale, [](double v) { return v <= 0; }, kAllowed, "2.0**16",
        "gradients are multiplied by this and divided by it again, so it must be positive.");
    reader.CheckInitialScale();
    reader.CheckNumber(
        kGrowthFactor, [](double v) { return v <= 1.0; }, "", "2.0",
        "the constructor asserts that it is above 1: AssertionError.");
    reader.CheckNumber(
        kBackoffFactor, [](double v) { return v >= 1.0; }, "", "0.5",
        "the constructor asserts that it is below 1: AssertionError.");
    reader.CheckNumber(
        kBackoffFactor, [](double v) { return v <= 0.0; }, kAllowed, "0.5",
        "after an overflow the scale is zero or negative, and gradients with it.");
    reader.CheckNumber(
        kGrowthInterval, [](double v) { return v <= 4.0; }, kAllowed, "2000",
        "the scale doubles after so few good steps and overflows again: a large part of all "
        "steps is skipped.");
    if (!HasSeveralImports(facts, facts.syntax.Child(made.call, PythonFields().function)))
      reader.CheckSwitches();
  }
}

}  // namespace mpnanny::check::scaler_config
