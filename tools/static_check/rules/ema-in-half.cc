#include <algorithm>
#include <cctype>
#include <string>

#include "tools/static_check/rule_support.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::ema_in_half {
namespace {

bool NamesAverage(std::string_view key) {
  std::string text(key);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.find("shadow") != std::string::npos || text.find("averaged") != std::string::npos ||
      text.find("swa_model") != std::string::npos)
    return true;
  // "ema" as a word of its own: not schema, nor remap.
  for (size_t at = text.find("ema"); at != std::string::npos; at = text.find("ema", at + 1)) {
    const bool begins = at == 0 || !std::isalpha(static_cast<unsigned char>(text[at - 1]));
    const bool ends =
        at + 3 == text.size() || !std::isalpha(static_cast<unsigned char>(text[at + 3]));
    if (begins && ends) return true;
  }
  return false;
}

bool IsCast(const FileFacts& facts, const Call& call) {
  if (call.method == "half" || call.method == "bfloat16")
    return facts.names.Arguments(call.node).empty();
  for (const NodeId argument : facts.names.Arguments(call.node)) {
    if (facts.regions.ReadHalfType(argument) != HalfType::kUnknown) return true;
  }
  return false;
}

// The average is made, not only looked at, in this file.
bool Updates(const FileFacts& facts) {
  const std::string& text = facts.syntax.text();
  return text.find("decay") != std::string::npos || text.find("lerp_") != std::string::npos ||
         text.find("update_parameters") != std::string::npos ||
         text.find("ema.update") != std::string::npos || text.find("ema.step") != std::string::npos;
}

bool IsSavedOrLoaded(const FileFacts& facts, NodeId node) {
  for (NodeId up = facts.syntax[node].parent; up != kNoNode; up = facts.syntax[up].parent) {
    const Kind kind = facts.syntax[up].kind;
    if (kind == Kind::kFunction) break;
    if (kind == Kind::kDictionary || kind == Kind::kPair) return true;
    if (const Call* call = facts.names.CallAt(up);
        call != nullptr && (call->name == "save" || call->name == "export"))
      return true;
  }
  const std::string_view name =
      facts.syntax.Text(facts.syntax.Child(facts.syntax.FunctionOf(node), PythonFields().name));
  return name.find("save") != std::string_view::npos ||
         name.find("load") != std::string_view::npos ||
         name.find("state_dict") != std::string_view::npos;
}

// The variable or attribute to which the value at `node` goes, or on which a statement works.
std::string Destination(const FileFacts& facts, const Call& call) {
  const Fields& f = PythonFields();
  NodeId id = call.node;
  for (NodeId up = facts.syntax[id].parent; up != kNoNode; up = facts.syntax[up].parent) {
    switch (facts.syntax.kind(up)) {
      case Kind::kAssignment: {
        const NodeId left = facts.syntax.Child(up, f.left);
        const NodeId array =
            facts.syntax.Is(left, Kind::kSubscript) ? facts.syntax.Child(left, f.value) : left;
        return facts.names.Key(array);
      }
      case Kind::kExpressionStatement: {
        NodeId root = call.node;
        while (facts.syntax.Is(root, Kind::kCall)) root = facts.names.Receiver(root);
        return root == kNoNode ? "" : facts.names.Key(root);
      }
      case Kind::kAttribute:
      case Kind::kCall:
      case Kind::kParenthesized:
        break;
      default:
        return "";
    }
  }
  return "";
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit || !Updates(facts)) return;
  for (const std::string_view name : {"half", "bfloat16", "to"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->receiver == kNoNode || !IsCast(facts, *call)) continue;
      // Evaluation runs it in 16 bits and may; so may a copy that is saved.
      const NodeId function = facts.syntax.FunctionOf(call->node);
      if (IsSavedOrLoaded(facts, call->node) ||
          !MayTrain(facts,
                    function == 0 ? call->node : facts.syntax.Child(function, PythonFields().body)))
        continue;
      if (!NamesAverage(Destination(facts, *call))) continue;
      sink.Add(call->node);
    }
  }
  for (const std::string_view name : {"AveragedModel", "ModelEMA", "ModelEma", "ModelEmaV2",
                                      "EMAModel", "EMA", "ExponentialMovingAverage"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const auto cast = TorchCallAt(facts, facts.names.Argument(call->node, 0, "model"));
      if (!cast || !cast->is_method) continue;
      const Call* inner = facts.names.CallAt(cast->node);
      if ((cast->name == "half" || cast->name == "bfloat16" || cast->name == "to") &&
          IsCast(facts, *inner))
        sink.Add(call->node);
    }
  }
}

}  // namespace mpnanny::static_check::ema_in_half
