#include <map>
#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::autocast_literal_beside_config {
namespace {

// The dtype that a region is given; kNoNode where it has none of its own.
NodeId GivenDtype(const FileFacts& facts, const Autocast& autocast) {
  const Call* call = facts.names.CallAt(facts.bindings.ValueOf(autocast.node));
  if (call == nullptr || !IsAutocast(call->callee) || HasSplat(facts, call->node)) return kNoNode;
  return facts.names.Argument(call->node, 1, "dtype");
}

bool IsLiteral(const FileFacts& facts, NodeId dtype) {
  const std::string name = facts.names.Resolve(dtype);
  return name == "torch.float16" || name == "torch.half" || name == "torch.bfloat16";
}

// Chosen when the program starts: self.dtype, args.dtype, a parameter, a choice.
bool IsConfigured(const FileFacts& facts, NodeId dtype) {
  if (dtype == kNoNode || IsLiteral(facts, dtype)) return false;
  // autocast("cuda", True): no dtype at all.
  if (facts.syntax.Is(dtype, Kind::kTrue) || facts.syntax.Is(dtype, Kind::kFalse)) return false;
  return facts.regions.ReadHalfType(dtype) == HalfType::kUnknown &&
         !facts.names.Resolve(dtype).starts_with("torch.");
}

// The outermost class or function around a node: what stands in two of them need not be two parts
// of one step.
NodeId OutermostScope(const FileFacts& facts, NodeId node) {
  NodeId outermost = kNoNode;
  for (NodeId up = facts.syntax[node].parent; up != kNoNode; up = facts.syntax[up].parent) {
    if (facts.syntax.Is(up, Kind::kClass) || facts.syntax.Is(up, Kind::kFunction)) outermost = up;
  }
  return outermost;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  std::map<NodeId, std::string>
      configured;  // scope -> the text of a dtype that is configured there
  for (const Autocast& autocast : facts.regions.all()) {
    const NodeId dtype = GivenDtype(facts, autocast);
    if (IsConfigured(facts, dtype))
      configured[OutermostScope(facts, autocast.node)] = facts.syntax.Text(dtype).substr(0, 60);
  }
  for (const Autocast& autocast : facts.regions.all()) {
    const auto beside = configured.find(OutermostScope(facts, autocast.node));
    const NodeId dtype = GivenDtype(facts, autocast);
    if (beside == configured.end() || dtype == kNoNode || !IsLiteral(facts, dtype) ||
        autocast.enabled == Tri::kNo || autocast.device == Device::kCpu ||
        !MayTrain(facts, autocast.node))
      continue;
    sink.Add(facts.bindings.ValueOf(autocast.node),
             "This region names " + std::string(facts.syntax.Text(dtype)) +
                 ", whereas another one beside it takes " + beside->second +
                 ": with the other format configured a step runs in both.");
  }
}

}  // namespace mpnanny::check::autocast_literal_beside_config
