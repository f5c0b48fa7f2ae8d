#include <set>
#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::autocast_always_on {
namespace {

constexpr std::string_view kSwitches[] = {"use_amp",
                                          "enable_amp",
                                          "amp_enabled",
                                          "use_fp16",
                                          "with_amp",
                                          "enable_fp16",
                                          "args.amp",
                                          "args.fp16",
                                          "cfg.amp",
                                          "cfg.fp16",
                                          "config.amp",
                                          "config.fp16",
                                          "opt.amp",
                                          "self.amp",
                                          "self.fp16",
                                          "fp16_run",
                                          "use_mixed_precision",
                                          "mixed_precision"};

// The switch that the file has for mixed precision; "" for none.
std::string_view SwitchOf(std::string_view text) {
  for (const std::string_view name : kSwitches) {
    if (Holds(text, name)) return name;
  }
  return {};
}

// True if a condition that names the switch, or any other one, decides on the region.
bool IsDecided(const FileFacts& facts, NodeId region) {
  const Syntax& syntax = facts.syntax;
  const NodeId function = syntax.FunctionOf(region);
  for (NodeId up = syntax[region].parent; up > function; up = syntax[up].parent) {
    const Kind kind = syntax.kind(up);
    if (kind == Kind::kConditional) return true;
    if ((kind == Kind::kIf || kind == Kind::kElif || kind == Kind::kElse) &&
        HoldsAny(syntax.Text(syntax.Child(up, PythonFields().condition)),
                 {"amp", "16", "half", "precision", "scaler", "autocast", "dtype"}))
      return true;
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.regions.all().empty()) return;
  const std::string_view name = SwitchOf(facts.syntax.text());
  if (name.empty()) return;
  std::set<NodeId> told;  // functions
  for (const Autocast& region : facts.regions.all()) {
    const Call* call = facts.names.CallAt(region.node);
    if (call == nullptr || !IsAutocast(call->callee) || region.enabled != Tri::kYes ||
        region.foreign || HasSplat(facts, call->node) ||
        facts.names.Argument(call->node, -1, "enabled") != kNoNode ||
        !MayTrain(facts, call->node) || IsDecided(facts, call->node))
      continue;
    const NodeId dtype = facts.names.Argument(call->node, 1, "dtype");
    // Of a type that a setting chooses, FP32 among them.
    if (dtype != kNoNode && region.dtype == HalfType::kUnknown) continue;
    if (!told.insert(facts.syntax.FunctionOf(call->node)).second) continue;
    sink.Add(call->node, "This region is always on, and " + std::string(name) +
                             " does not switch it: enabled= does.");
  }
}

}  // namespace mpnanny::check::autocast_always_on
