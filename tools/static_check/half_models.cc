#include "tools/static_check/half_models.h"

namespace mpnanny::static_check {
namespace {

// True for x.half() and x.to(torch.float16), also with more calls behind it (x.half().cuda()).
bool MakesFp16(const FileFacts& facts, NodeId id) {
  for (int depth = 0; depth < 6 && facts.syntax.Is(id, Kind::kCall); ++depth) {
    const std::string_view method = facts.names.Method(id);
    if (method == "half" && facts.names.Arguments(id).empty()) return true;
    if (method == "float" || method == "bfloat16") return false;
    if (method == "to") {
      for (const NodeId argument : facts.names.Arguments(id)) {
        if (facts.regions.ReadHalfType(argument) == HalfType::kFp16) return true;
      }
    }
    id = facts.names.Receiver(id);
    if (id == kNoNode) return false;
  }
  return false;
}

// The variable that a call casts in place or whose assignment casts it: `m.half()`, `m =
// Net().half()`; "" for neither.
std::string CastVariable(const FileFacts& facts, NodeId call) {
  const NodeId parent = facts.syntax[call].parent;
  if (facts.syntax.Is(parent, Kind::kAssignment))
    return facts.names.Key(facts.syntax.Child(parent, PythonFields().left));
  if (!facts.syntax.Is(parent, Kind::kExpressionStatement)) return "";
  NodeId root = call;
  while (facts.syntax.Is(root, Kind::kCall)) root = facts.names.Receiver(root);
  return root == kNoNode ? "" : facts.names.Key(root);
}

// The call of parameters() that the expression is, or picks from with filter(…) or a
// comprehension; kNoNode for others.
NodeId Parameters(const FileFacts& facts, NodeId id) {
  if (id == kNoNode) return kNoNode;
  const Syntax& syntax = facts.syntax;
  if (facts.names.Method(id) == "parameters") return id;
  const bool picks =
      syntax.Is(id, Kind::kCall)
          ? syntax.Text(syntax.Child(id, PythonFields().function)) == "filter"
          : syntax.Is(id, Kind::kOther) && syntax.Text(id).find(" for ") != std::string_view::npos;
  NodeId found = kNoNode;
  for (NodeId call = id; picks && call < syntax[id].after; ++call) {
    const std::string_view method = facts.names.Method(call);
    if (method != "parameters" && method != "named_parameters") continue;
    if (found != kNoNode) return kNoNode;  // of two models
    found = call;
  }
  return found;
}

}  // namespace

std::vector<HalfOptimizer> FindHalfOptimizers(const FileFacts& facts) {
  std::vector<HalfOptimizer> found;
  if (facts.syntax.text().find(".backward(") == std::string::npos) return found;
  struct Cast {
    std::string model;
    NodeId node;
    bool half;
  };
  std::vector<Cast> casts;
  for (NodeId id = 0; id < facts.syntax.size(); ++id) {
    if (facts.syntax[id].kind != Kind::kCall) continue;
    const bool half = MakesFp16(facts, id);
    if (half || facts.names.Method(id) == "float" ||
        facts.syntax.Is(facts.syntax[id].parent, Kind::kAssignment)) {
      if (std::string model = CastVariable(facts, id); !model.empty())
        casts.push_back({std::move(model), id, half});
    }
    const std::string callee = facts.names.Callee(id);
    if (!callee.starts_with("torch.optim.") || callee.find("lr_scheduler") != std::string::npos)
      continue;
    const NodeId parameters = Parameters(facts, facts.names.Argument(id, 0, "params"));
    if (parameters == kNoNode) continue;
    const bool some = parameters != facts.names.Argument(id, 0, "params");
    // Those that are picked may be the ones (adapters, a head) that were cast back.
    if (some && (facts.syntax.text().find("float()") != std::string::npos ||
                 facts.syntax.text().find("float32") != std::string::npos))
      continue;
    const std::string model = facts.names.Key(facts.names.Receiver(parameters));
    const Cast* last = nullptr;
    for (const Cast& cast : casts) {
      const bool same =
          cast.model == model && facts.syntax.FunctionOf(cast.node) == facts.syntax.FunctionOf(id);
      if (same) last = &cast;
    }
    if (!model.empty() && last != nullptr && last->half)
      found.push_back({id, last->node, model, some});
  }
  return found;
}

}  // namespace mpnanny::static_check
