#include "engines/check/map/places.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "engines/check/facts/checkpoints.h"
#include "engines/check/facts/half_models.h"
#include "engines/check/facts/torch_calls.h"

namespace mpnanny::check {
namespace {

constexpr size_t kMostOfAText = 110;

const char* TypeName(HalfType type) {
  return type == HalfType::kFp16 ? "float16" : type == HalfType::kBf16 ? "bfloat16" : "";
}

const char* DeviceName(Device device) {
  return device == Device::kCuda  ? "cuda"
         : device == Device::kCpu ? "cpu"
                                  : "device not known here";
}

std::string AutocastText(const Autocast& autocast) {
  if (autocast.foreign) return "autocast of a framework or wrapper, settings not known here";
  std::string text = std::string("autocast, ") + DeviceName(autocast.device) + ", ";
  if (autocast.dtype != HalfType::kUnknown) {
    text += TypeName(autocast.dtype);
    if (!autocast.dtype_given) text += " (the default)";
  } else {
    text += "dtype not known here";
  }
  return text + (autocast.enabled == Tri::kNo        ? ", off"
                 : autocast.enabled == Tri::kUnknown ? ", on or off at run time"
                                                     : ", on");
}

const char* CallName(ScalerCall::Op op) {
  switch (op) {
    case ScalerCall::Op::kScale:
      return "scale";
    case ScalerCall::Op::kUnscale:
      return "unscale_";
    case ScalerCall::Op::kStep:
      return "step";
    case ScalerCall::Op::kUpdate:
      return "update";
    case ScalerCall::Op::kStateDict:
      return "state_dict";
    case ScalerCall::Op::kGetScale:
      break;
  }
  return "get_scale";
}

// A call of one of torch's losses: a function, or the module of it that is made.
bool IsLoss(std::string_view callee) {
  if (callee.starts_with("torch.nn.functional.")) {
    return callee.ends_with("_loss") || callee.ends_with("cross_entropy") ||
           callee.ends_with("cross_entropy_with_logits") || callee.ends_with("kl_div");
  }
  return callee.starts_with("torch.nn.") && callee.ends_with("Loss");
}

bool IsOptimizer(std::string_view callee) {
  constexpr std::string_view kModule = "torch.optim.";
  if (!callee.starts_with(kModule)) return false;
  const std::string_view name = callee.substr(kModule.size());
  return !name.empty() && name.find('.') == std::string_view::npos && name[0] >= 'A' &&
         name[0] <= 'Z';
}

class Finder {
 public:
  explicit Finder(const Unit& unit) : unit_(unit), facts_(*unit.facts) {}

  std::vector<MapPlace> All() {
    for (const Autocast& autocast : facts_.regions.all()) Region(autocast);
    ScalerPlaces();
    for (const WeightCast& cast : FindWeightCasts(facts_)) {
      if (cast.type == HalfType::kUnknown) continue;  // FP32, or any other assignment
      Add(MapPart::kCasts, cast.node,
          cast.model + (cast.loaded ? " loaded as " : " cast to ") + TypeName(cast.type));
    }
    for (const Call& call : facts_.names.calls()) OfCall(call);
    for (const SavedOptimizer& saved : FindSavedOptimizers(facts_)) {
      Add(MapPart::kCheckpoints, saved.state, "saves the state of an optimizer");
    }
    for (const NodeId state : ScalerStateCalls(facts_, "state_dict")) {
      Add(MapPart::kCheckpoints, state, "saves the state of a loss scaler");
    }
    for (const NodeId state : ScalerStateCalls(facts_, "load_state_dict")) {
      Add(MapPart::kCheckpoints, state, "restores the state of a loss scaler");
    }
    return std::move(places_);
  }

 private:
  void Add(MapPart part, NodeId node, std::string what) {
    int line = facts_.lines.LineAt(facts_.syntax[node].begin);
    std::string path = PathAt(unit_, line);
    places_.push_back({part, std::move(path), line, std::move(what)});
  }

  int LineOf(NodeId node) const { return facts_.lines.LineAt(facts_.syntax[node].begin); }

  // The node's text on one line, shortened.
  std::string Text(NodeId node) const {
    std::string text;
    for (const char c : facts_.syntax.Text(node)) {
      const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (space && (text.empty() || text.back() == ' ')) continue;
      text += space ? ' ' : c;
    }
    if (text.size() <= kMostOfAText) return text;
    size_t end = kMostOfAText;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end) + "…";
  }

  // " = nullcontext() if …" of a name that is assigned once; "" for others.
  std::string Meaning(NodeId name) const {
    if (!facts_.syntax.Is(name, Kind::kIdentifier)) return "";
    const auto assigned = facts_.bindings.AssignmentsOf(name);
    const bool once = assigned.size() == 1 && assigned.front().value != kNoNode;
    return once ? " = " + Text(assigned.front().value) : "";
  }

  // " in f", " in C.f"; "" in the module's own code.
  std::string In(NodeId node) const {
    const Function* const function = facts_.bindings.FunctionAt(facts_.syntax.FunctionOf(node));
    if (function == nullptr || function->name.empty()) return "";
    std::string owner;
    if (function->klass != kNoNode) {
      const NodeId name = facts_.syntax.Child(function->klass, PythonFields().name);
      owner = std::string(facts_.syntax.Text(name)) + ".";
    }
    return " in " + owner + function->name;
  }

  // ", under autocast (float16)"; "" outside of it.
  std::string Under(NodeId node) const {
    const Autocast* const region = facts_.regions.At(node);
    if (region == nullptr) return "";
    if (region->enabled == Tri::kNo) return ", autocast off";
    const char* const type = TypeName(region->dtype);
    return std::string(", under autocast") + (*type ? std::string(" (") + type + ")" : "");
  }

  void Region(const Autocast& autocast) {
    const NodeId node = autocast.node;
    if (autocast.enabled == Tri::kNo) {
      Add(MapPart::kBoundaries, node, "autocast off" + In(node));
    } else {
      const bool told = autocast.dtype != HalfType::kUnknown &&
                        autocast.device != Device::kUnknown && autocast.enabled != Tri::kUnknown;
      Add(MapPart::kAutocast, node,
          AutocastText(autocast) + In(node) + (told ? "" : ": " + Text(node) + Meaning(node)));
    }
  }

  void ScalerPlaces() {
    for (const ScalerMade& made : facts_.scalers.made()) {
      Add(MapPart::kScalers, made.call,
          (made.key.empty() ? "" : made.key + " = ") + Text(made.call) +
              (made.enabled_false   ? ", off"
               : made.enabled_given ? ", on or off at run time"
                                    : ""));
    }
    for (const ScalerMade& made : facts_.scalers.wrappers()) {
      Add(MapPart::kScalers, made.call, Text(made.call) + ", wraps a GradScaler");
    }
    // The order of the calls, function by function.
    std::map<std::pair<NodeId, std::string>, std::vector<const ScalerCall*>> by_function;
    for (const ScalerCall& call : facts_.scalers.calls()) {
      if (call.op == ScalerCall::Op::kStateDict) continue;
      by_function[{facts_.syntax.FunctionOf(call.call), call.scaler}].push_back(&call);
    }
    for (const auto& [place, calls] : by_function) {
      std::string what = place.second + ":";
      for (const ScalerCall* call : calls) {
        what += std::string(" ") + CallName(call->op) + "@" + std::to_string(LineOf(call->call));
      }
      Add(MapPart::kScalers, calls.front()->call, what + In(calls.front()->call));
    }
  }

  void OfCall(const Call& call) {
    const NodeId node = call.node;
    if (call.receiver != kNoNode && call.name == "backward" && call.callee.empty()) {
      Add(MapPart::kEntryPoints, node, Text(node) + In(node) + Under(node));
    } else if (IsLoss(call.callee)) {
      Add(MapPart::kLosses, node, Text(node) + Under(node));
    } else if (IsOptimizer(call.callee)) {
      Add(MapPart::kOptimizers, node, Text(node));
    } else if (call.callee == "torch.optim.swa_utils.AveragedModel") {
      Add(MapPart::kAverages, node, Text(node));
    } else if (call.callee == "torch.save" || call.callee == "torch.load") {
      Add(MapPart::kCheckpoints, node, Text(node));
    } else if (const auto torch = ReadTorchCall(facts_, call)) {
      TensorCast(*torch);
    }
  }

  // x.float() and x.to(torch.float32) under autocast, x.half() and the like anywhere.
  void TensorCast(const TorchCall& call) {
    if (!call.is_method) return;
    const auto is = [&](std::string_view name) { return call.name == name; };
    NodeId type = kNoNode;
    if (is("to") || is("type")) type = ArgumentOf(facts_, call, 0, "dtype");
    const std::string named = type == kNoNode ? "" : facts_.names.Resolve(type);
    const bool wide = is("float") || is("double") || named == "torch.float32" ||
                      named == "torch.float" || named == "torch.float64";
    const bool narrow =
        is("half") || is("bfloat16") ||
        (type != kNoNode && facts_.regions.ReadHalfType(type) != HalfType::kUnknown);
    if (narrow || (wide && facts_.regions.MaybeOn(call.node))) {
      Add(MapPart::kBoundaries, call.node, Text(call.node) + Under(call.node));
    }
  }

  const Unit& unit_;
  const FileFacts& facts_;
  std::vector<MapPlace> places_;
};

std::vector<MapPlace> OfSettings(const Unit& unit, const std::vector<Settings>& all) {
  std::vector<MapPlace> places;
  const TextIndex lines(unit.Text());
  for (const Settings& settings : all) {
    if (settings.list.empty()) continue;
    std::string what = std::string(FrameworkName(settings.framework)) + ":";
    for (const Setting& setting : settings.list) {
      what += " " + setting.name + (setting.text.empty() ? "" : "=" + setting.text);
    }
    int line = lines.LineAt(settings.list.front().where.begin);
    std::string path = PathAt(unit, line);
    places.push_back({MapPart::kSettings, std::move(path), line, std::move(what)});
  }
  return places;
}

}  // namespace

std::vector<MapPlace> FindPlaces(const Unit& unit, const std::vector<Settings>& settings) {
  std::vector<MapPlace> places = OfSettings(unit, settings);
  if (!unit.facts) return places;
  for (MapPlace& place : Finder(unit).All()) places.push_back(std::move(place));
  return places;
}

}  // namespace mpnanny::check
