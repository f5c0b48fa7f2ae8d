#include "engines/check/facts/regions.h"

#include <algorithm>
#include <string>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

bool ContainsAutocast(std::string_view text) {
  return text.find("autocast") != std::string_view::npos ||
         text.find("Autocast") != std::string_view::npos ||
         text.find("auto_cast") != std::string_view::npos;
}

}  // namespace

Regions::Regions(const Bindings& bindings)
    : bindings_(bindings), syntax_(bindings.syntax()), names_(bindings.names()) {
  const Fields& f = PythonFields();
  default_changed_ = Holds(syntax_.text(), "set_autocast_gpu_dtype") ||
                     Holds(syntax_.text(), "set_autocast_dtype");
  for (NodeId id = 0; id < syntax_.size(); ++id) {
    if (syntax_[id].kind == Kind::kWithItem) {
      NodeId value = syntax_.Child(id, f.value);
      if (value == kNoNode) value = syntax_[id].first_child;
      if (syntax_.Is(value, Kind::kAsPattern)) value = syntax_[value].first_child;
      AddContext(syntax_.Enclosing(id, Kind::kWith), value);
    } else if (syntax_[id].kind == Kind::kDecorator) {
      const NodeId function = syntax_.Child(syntax_[id].parent, f.definition);
      if (syntax_.Is(function, Kind::kFunction)) AddContext(function, syntax_[id].first_child);
    }
  }
}

void Regions::AddContext(NodeId owner, NodeId expression) {
  const std::string called = names_.Callee(expression);
  const std::string name = called.empty() ? names_.Resolve(expression) : called;
  if (name == "torch.no_grad" || name == "torch.inference_mode" ||
      name == "torch.autograd.no_grad") {
    no_grad_[owner] = true;
    return;
  }
  Autocast autocast;
  if (name.ends_with("amp.custom_fwd")) {
    // With cast_inputs the body runs without autocast, on what the inputs were cast to.
    const NodeId cast = names_.Argument(expression, -1, "cast_inputs");
    if (called.empty() || cast == kNoNode || syntax_.Is(cast, Kind::kNone)) return;
    autocast.device = Device::kCuda;
    autocast.enabled = Tri::kNo;
  } else if (!ReadContext(expression, 3, &autocast)) {
    return;
  }
  autocast.node = expression;
  autocast.owner = owner;
  by_owner_[owner].push_back(all_.size());
  all_.push_back(autocast);
}

std::vector<NodeId> Regions::ValuesOf(NodeId name) const {
  std::vector<NodeId> values;
  for (const Assignment& assignment : bindings_.AssignmentsOf(name)) {
    values.push_back(assignment.value);
  }
  return values;
}

template <typename Read>
bool Regions::ReadOneOf(const std::vector<NodeId>& values, Read read, Autocast* autocast) const {
  if (std::none_of(values.begin(), values.end(), read)) return false;
  if (values.size() > 1 && autocast->enabled == Tri::kYes) autocast->enabled = Tri::kUnknown;
  return true;
}

bool Regions::ReadContext(NodeId expression, int depth, Autocast* autocast) const {
  const NodeId id = syntax_.Unwrap(expression);
  if (id == kNoNode || depth == 0) return false;
  if (syntax_.Is(id, Kind::kCall)) {
    const std::string qualified = names_.Callee(id);
    if (IsAutocast(qualified)) {
      *autocast = ReadCall(id, qualified);
      return true;
    }
    const NodeId callable = syntax_.Child(id, PythonFields().function);
    if (ReadCallable(callable, id, depth, autocast)) return true;
    if (ContainsAutocast(syntax_.Text(callable))) {
      *autocast = {};
      autocast->enabled = Tri::kUnknown;
      autocast->foreign = true;
      return true;
    }
    return MakesRegion(id, autocast);
  }
  const auto read = [&](NodeId value) { return ReadContext(value, depth - 1, autocast); };
  if (syntax_.Is(id, Kind::kConditional)) return ReadOneOf(syntax_.Children(id), read, autocast);
  if (!syntax_.Is(id, Kind::kIdentifier) && !syntax_.Is(id, Kind::kAttribute)) return false;
  if (ReadOneOf(ValuesOf(id), read, autocast)) return true;
  if (!ContainsAutocast(syntax_.Text(id))) return false;
  *autocast = {};
  autocast->enabled = Tri::kUnknown;
  autocast->foreign = true;
  return true;
}

bool Regions::ReadCallable(NodeId callable, NodeId call, int depth, Autocast* autocast) const {
  const NodeId id = syntax_.Unwrap(callable);
  if (id == kNoNode || depth == 0) return false;
  if (syntax_.Is(id, Kind::kLambda)) {
    return ReadContext(syntax_.Child(id, PythonFields().body), depth, autocast);
  }
  const auto read = [&](NodeId value) { return ReadCallable(value, call, depth - 1, autocast); };
  if (syntax_.Is(id, Kind::kConditional)) return ReadOneOf(syntax_.Children(id), read, autocast);
  if (!syntax_.Is(id, Kind::kIdentifier) && !syntax_.Is(id, Kind::kAttribute)) return false;
  const std::string name = names_.Resolve(id);
  if (IsAutocast(name)) {
    *autocast = ReadCall(call, name);
    return true;
  }
  return ReadOneOf(ValuesOf(id), read, autocast);
}

bool Regions::MakesRegion(NodeId call, Autocast* autocast) const {
  const auto makes = [&](NodeId value) {
    const NodeId id = syntax_.Unwrap(value);
    if (!syntax_.Is(id, Kind::kCall)) return false;
    const std::string& callee = names_.Callee(id);
    return IsAutocast(callee) || (callee == "functools.partial" &&
                                  IsAutocast(names_.Resolve(names_.Argument(id, 0, "func"))));
  };
  bool found = false;
  const Function* function = bindings_.Callee(call);
  if (function != nullptr && function->node != 0) {
    for (NodeId id = function->body; id < syntax_[function->node].after && !found; ++id)
      found = syntax_.Is(id, Kind::kReturn) && makes(syntax_.Children(id)[0]);
  } else {
    const NodeId callable = syntax_.Child(call, PythonFields().function);
    for (const Assignment& assignment : bindings_.AssignmentsOf(callable)) {
      const NodeId value = syntax_.Unwrap(assignment.value);
      found = found || (names_.Callee(value) == "functools.partial" && makes(value));
    }
  }
  if (!found) return false;
  // Its settings are those of another place.
  *autocast = {};
  autocast->enabled = Tri::kUnknown;
  autocast->foreign = true;
  return true;
}

Autocast Regions::ReadCall(NodeId call, const std::string& qualified) const {
  Autocast autocast;
  autocast.node = call;
  NodeId dtype = kNoNode;
  NodeId enabled = kNoNode;
  if (qualified == "torch.cuda.amp.autocast" || qualified == "torch.cpu.amp.autocast") {
    autocast.device = qualified == "torch.cpu.amp.autocast" ? Device::kCpu : Device::kCuda;
    enabled = names_.Argument(call, 0, "enabled");
    dtype = names_.Argument(call, 1, "dtype");
  } else {
    const NodeId device = bindings_.ValueOf(names_.Argument(call, 0, "device_type"));
    dtype = names_.Argument(call, 1, "dtype");
    enabled = names_.Argument(call, 2, "enabled");
    if (syntax_.Is(device, Kind::kString)) {
      const std::string_view text = syntax_.Text(device);
      autocast.device = text.find("cuda") != std::string_view::npos  ? Device::kCuda
                        : text.find("cpu") != std::string_view::npos ? Device::kCpu
                                                                     : Device::kOther;
    }
  }
  autocast.dtype_given = dtype != kNoNode && !syntax_.Is(dtype, Kind::kNone);
  if (autocast.dtype_given) {
    autocast.dtype = ReadHalfType(dtype);
  } else if (!default_changed_) {
    autocast.dtype = autocast.device == Device::kCuda  ? HalfType::kFp16
                     : autocast.device == Device::kCpu ? HalfType::kBf16
                                                       : HalfType::kUnknown;
  }
  autocast.enabled = enabled == kNoNode ? Tri::kYes : ReadTri(enabled);
  autocast.caches = !syntax_.Is(names_.Argument(call, -1, "cache_enabled"), Kind::kFalse);
  return autocast;
}

Tri Regions::ReadTri(NodeId expression) const {
  const NodeId value = bindings_.ValueOf(expression);
  // A name that is bound to a constant is a switch that somebody may flip; only a literal in the
  // call is final.
  if (value != syntax_.Unwrap(expression)) return Tri::kUnknown;
  return syntax_.Is(value, Kind::kFalse)  ? Tri::kNo
         : syntax_.Is(value, Kind::kTrue) ? Tri::kYes
                                          : Tri::kUnknown;
}

HalfType Regions::ReadHalfType(NodeId expression) const {
  const NodeId value = bindings_.ValueOf(expression);
  if (value == kNoNode) return HalfType::kUnknown;
  const std::string name = names_.Resolve(value);
  if (name == "torch.float16" || name == "torch.half") return HalfType::kFp16;
  return name == "torch.bfloat16" ? HalfType::kBf16 : HalfType::kUnknown;
}

const Autocast* Regions::At(NodeId node) const {
  NodeId below = node;
  for (NodeId up = syntax_[node].parent; up != kNoNode; below = up, up = syntax_[up].parent) {
    const Kind kind = syntax_[up].kind;
    if (kind == Kind::kLambda) return nullptr;
    if (kind != Kind::kWith && kind != Kind::kFunction) continue;
    if (syntax_[below].field == PythonFields().body) {
      const auto it = by_owner_.find(up);
      if (it != by_owner_.end()) return &all_[it->second.back()];
    }
    if (kind == Kind::kFunction) return nullptr;
  }
  return nullptr;
}

bool Regions::NoGradAt(NodeId node) const {
  for (NodeId up = node; up != kNoNode; up = syntax_[up].parent) {
    if (no_grad_.contains(up)) return true;
    if (syntax_[up].kind == Kind::kFunction) return false;
  }
  return false;
}

bool Regions::MaybeOn(NodeId node) const {
  const Autocast* autocast = At(node);
  return autocast != nullptr && autocast->enabled != Tri::kNo;
}

}  // namespace mpnanny::check
