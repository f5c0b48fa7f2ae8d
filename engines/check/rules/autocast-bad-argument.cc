#include <string>

#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::autocast_bad_argument {

static bool IsDtype(const FileFacts& facts, NodeId expression) {
  const std::string name = facts.names.Resolve(facts.bindings.ValueOf(expression));
  return name == "torch.float16" || name == "torch.half" || name == "torch.bfloat16" ||
         name == "torch.float32" || name == "torch.float";
}

static bool IsBool(const FileFacts& facts, NodeId expression) {
  const NodeId value = facts.bindings.ValueOf(expression);
  const Kind kind = facts.syntax.kind(value);
  return kind == Kind::kTrue || kind == Kind::kFalse || kind == Kind::kNot ||
         kind == Kind::kComparison;
}

// Replaces the argument itself.
static void Replace(const FileFacts& facts, NodeId argument, std::string text,
                    RawFinding& finding) {
  const Node& node = facts.syntax[argument];
  finding.edits.push_back({{node.begin, node.end}, std::move(text)});
}

static void CheckGeneric(const FileFacts& facts, NodeId call, Sink& sink) {
  const NodeId device = facts.names.Argument(call, 0, "device_type");
  if (device == kNoNode) {
    if (!HasSplat(facts, call))
      sink.Add(call, "torch.autocast has no default for device_type: this raises TypeError.");
    return;
  }
  const NodeId value = facts.bindings.ValueOf(device);
  if (IsDtype(facts, device)) {
    RawFinding& finding =
        sink.Add(call, "The first argument of torch.autocast is the device type, not the dtype.");
    if (facts.names.Argument(call, 1, "dtype") == kNoNode &&
        facts.names.Argument(call, -1, "device_type") == kNoNode)
      Replace(facts, device, "\"cuda\", dtype=" + std::string(facts.syntax.Text(device)), finding);
  } else if (IsBool(facts, device)) {
    RawFinding& finding =
        sink.Add(call, "The first argument of torch.autocast is the device type, not `enabled`.");
    if (facts.names.Argument(call, -1, "device_type") == kNoNode)
      Replace(facts, device, "\"cuda\", enabled=" + std::string(facts.syntax.Text(device)),
              finding);
  } else if (facts.names.Callee(value) == "torch.device") {
    RawFinding& finding =
        sink.Add(call, "torch.autocast takes the type of a device (a string), not the device.");
    if (value == facts.syntax.Unwrap(device) || facts.syntax.Is(device, Kind::kIdentifier))
      Replace(facts, device, std::string(facts.syntax.Text(device)) + ".type", finding);
  }
  const NodeId second = facts.names.Argument(call, 1, "dtype");
  if (second != kNoNode && IsBool(facts, second)) {
    RawFinding& finding = sink.Add(
        call, "The second argument of torch.autocast is the dtype; `enabled` comes after it.");
    if (facts.names.Argument(call, -1, "dtype") == kNoNode)
      Replace(facts, second, "enabled=" + std::string(facts.syntax.Text(second)), finding);
  }
}

static void CheckDevice(const FileFacts& facts, NodeId call, Sink& sink) {
  if (facts.names.Argument(call, -1, "device_type") != kNoNode) {
    sink.Add(call, "This autocast is of one device and takes no device_type: it raises TypeError.");
    return;
  }
  const NodeId enabled = facts.names.Argument(call, 0, "enabled");
  if (enabled == kNoNode) return;
  // FP16 is what it takes by itself, and any text is true.
  const std::string type = facts.names.Resolve(facts.bindings.ValueOf(enabled));
  if (IsDtype(facts, enabled) && type != "torch.float16" && type != "torch.half") {
    RawFinding& finding =
        sink.Add(call, "The first argument of this autocast is `enabled`: the dtype is not taken.");
    if (facts.names.Argument(call, -1, "enabled") == kNoNode &&
        facts.names.Argument(call, 1, "dtype") == kNoNode)
      Replace(facts, enabled, "dtype=" + std::string(facts.syntax.Text(enabled)), finding);
  }
}

// @torch.amp.custom_fwd(cast_inputs=…): device_type is a keyword without a default.
static void CheckCustom(const FileFacts& facts, NodeId call, Sink& sink) {
  const std::string name = facts.names.Callee(call);
  if (name != "torch.amp.custom_fwd" && name != "torch.amp.custom_bwd") return;
  if (facts.names.Argument(call, -1, "device_type") != kNoNode || HasSplat(facts, call) ||
      HasSeveralImports(facts, facts.syntax.Child(call, PythonFields().function)))
    return;
  RawFinding& finding =
      sink.Add(call, name +
                         " has no default for device_type: this raises TypeError where the "
                         "class is made.");
  const NodeId arguments = facts.syntax.Child(call, PythonFields().arguments);
  const uint32_t begin = facts.syntax[arguments].begin + 1;
  const bool more = !facts.syntax.Children(arguments).empty();
  // Positional arguments come before keywords: none of these takes one beside the function.
  if (more && facts.names.Argument(call, 0, "") != kNoNode) return;
  finding.edits.push_back(
      {{begin, begin}, more ? "device_type=\"cuda\", " : "device_type=\"cuda\""});
}

static void CheckDecorator(const FileFacts& facts, NodeId decorator, Sink& sink) {
  const NodeId expression = facts.syntax.Unwrap(facts.syntax[decorator].first_child);
  if (facts.syntax.Is(expression, Kind::kCall)) {
    CheckCustom(facts, expression, sink);
    return;
  }
  const std::string name = facts.names.Resolve(expression);
  const bool autocast = IsAutocast(name);
  if (!autocast && name != "torch.amp.custom_fwd" && name != "torch.amp.custom_bwd") return;
  if (HasSeveralImports(facts, expression)) return;
  const bool generic = !name.starts_with("torch.cuda.") && !name.starts_with("torch.cpu.");
  RawFinding& finding =
      sink.Add(decorator, autocast ? "A decorator without parentheses hands the function to " +
                                         name + " as its first argument."
                                   : name +
                                         " has no default for device_type: this raises "
                                         "TypeError where the class is made.");
  const uint32_t end = facts.syntax[expression].end;
  finding.edits.push_back({{end, end},
                           !autocast ? "(device_type=\"cuda\")"
                           : generic ? "(\"cuda\")"
                                     : "()"});
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("autocast")) {
    if (!IsAutocast(call->callee) ||
        HasSeveralImports(facts, facts.syntax.Child(call->node, PythonFields().function)))
      continue;
    if (call->callee == "torch.autocast" || call->callee == "torch.amp.autocast") {
      CheckGeneric(facts, call->node, sink);
    } else {
      CheckDevice(facts, call->node, sink);
    }
  }
  for (const Function& function : facts.bindings.functions()) {
    const NodeId decorated = function.node == 0 ? kNoNode : facts.syntax[function.node].parent;
    if (!facts.syntax.Is(decorated, Kind::kDecorated)) continue;
    for (NodeId child = facts.syntax[decorated].first_child; child != kNoNode;
         child = facts.syntax[child].next_sibling) {
      if (facts.syntax.Is(child, Kind::kDecorator)) CheckDecorator(facts, child, sink);
    }
  }
}

}  // namespace mpnanny::check::autocast_bad_argument
