#include "engines/check/dtypes/dtypes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "engines/check/dtypes/dtype_flow.h"
#include "engines/check/facts/switched_off.h"

namespace mpnanny::check {

Value JoinValues(Value a, Value b) {
  if (a.type == Type::kUnseen) return b;
  if (b.type == Type::kUnseen) return a;
  a.assumed = a.assumed || b.assumed;
  if (a.passed == kNoNode) a.passed = b.passed;
  if (a.type == b.type) return a;
  if (a.is_16bit() && b.is_16bit()) {
    a.type = Type::kHalf;
    return a;
  }
  return {Type::kUnknown, false, kNoNode};
}

Value Promote(const std::vector<Value>& values) {
  Value result{Type::kNumber, false, kNoNode};
  for (const Value& value : values) {
    if (value.type == Type::kUnknown || value.type == Type::kUnseen)
      return {Type::kUnknown, false, kNoNode};
    if (value.type == Type::kNumber || value.type == result.type) continue;
    if (result.type == Type::kNumber || result.type == Type::kIndex) {
      result = value.type == Type::kIndex && result.type != Type::kNumber ? result : value;
    } else if (value.type != Type::kIndex) {
      const bool vague = (value.type == Type::kHalf || result.type == Type::kHalf) &&
                         value.type != Type::kFp32 && result.type != Type::kFp32;
      result = {vague ? Type::kUnknown : Type::kFp32, false, kNoNode};
    }
  }
  return result;
}

Dtypes::Dtypes(const Bindings& bindings, const Regions& regions, const OpTable& ops,
               bool assume_fp16)
    : bindings_(bindings), regions_(regions), ops_(ops), assume_fp16_(assume_fp16) {}

bool Dtypes::MayHold16Bit(const Function& function) const {
  if (assume_fp16_ && function.klass != kNoNode && bindings_.IsModuleClass(function.klass))
    return true;
  // Under a decorator or an enclosing function's settings the words stand outside of it.
  if (regions_.At(function.body) != nullptr) return true;
  // The words of one function lie together, and none reaches across a function's border.
  const Node& node = bindings_.syntax()[function.node];
  const auto first = std::lower_bound(words_.begin(), words_.end(), node.begin);
  return first != words_.end() && *first < node.end;
}

void Dtypes::FindWords() {
  // What would make a value 16-bit by itself names one of these, with a letter of each that is rare
  // in text.
  constexpr std::array<std::pair<std::string_view, size_t>, 4> kWords = {
      {{"half", 3}, {"float16", 6}, {"autocast", 1}, {"type", 1}}};
  const std::string_view text = bindings_.syntax().text();
  for (const auto& [word, rare] : kWords) {
    for (size_t at = text.find(word[rare]); at != std::string_view::npos;
         at = text.find(word[rare], at + 1)) {
      if (at >= rare && text.substr(at - rare, word.size()) == word)
        words_.push_back(static_cast<uint32_t>(at - rare));
    }
  }
  std::sort(words_.begin(), words_.end());
}

void Dtypes::RunAll(const CancelToken& cancel) {
  FindWords();
  for (const Function& function : bindings_.functions()) {
    if (!MayHold16Bit(function)) continue;
    values_.resize(static_cast<size_t>(bindings_.syntax().size()));
    DtypeFlow(*this, function, cancel).Run();
  }
  FindAttributes();
}

void Dtypes::Rerun(const Function& function, Entry entry, const Results& results,
                   const CancelToken& cancel) {
  entries_[function.node] = std::move(entry);
  // What was found without the entry is forgotten; functions inside keep theirs.
  const Syntax& syntax = bindings_.syntax();
  values_.resize(static_cast<size_t>(syntax.size()));
  for (NodeId id = function.body; id < syntax[function.node].after;) {
    if (syntax[id].kind == Kind::kFunction) {
      id = syntax[id].after;
      continue;
    }
    values_[static_cast<size_t>(id++)] = {};
  }
  results_ = &results;
  DtypeFlow(*this, function, cancel).Run();
  results_ = nullptr;
}

void Dtypes::FindAttributes() {
  if (values_.empty()) return;
  const Syntax& syntax = bindings_.syntax();
  for (const auto& [key, assignments] : bindings_.all()) {
    if (!key.starts_with("self.")) continue;
    std::map<NodeId, Value> by_class;
    for (const Assignment& assignment : assignments) {
      const NodeId klass = syntax.Enclosing(assignment.target, Kind::kClass);
      if (klass == kNoNode) continue;
      Value value = Of(assignment.target);
      if (!value.is_16bit()) value.type = Type::kUnknown;
      Value& slot = by_class[klass];
      slot = JoinValues(slot, value);
    }
    for (const auto& [klass, value] : by_class) {
      if (value.is_16bit()) attributes_[{klass, key}] = value;
    }
  }
}

Value Dtypes::AttributeOf(NodeId klass, const std::string& key) const {
  const auto it = attributes_.find({klass, key});
  return it == attributes_.end() ? Value{Type::kUnknown, false, kNoNode} : it->second;
}

const Entry* Dtypes::EntryOf(NodeId function) const {
  const auto it = entries_.find(function);
  return it == entries_.end() ? nullptr : &it->second;
}

Value Dtypes::ReturnOf(const Function& function) const {
  const Syntax& syntax = bindings_.syntax();
  Value result;
  if (values_.empty()) return result;
  for (NodeId id = function.body; id < syntax[function.node].after;) {
    const Kind kind = syntax[id].kind;
    if (kind == Kind::kFunction || kind == Kind::kLambda) {
      id = syntax[id].after;
      continue;
    }
    if (kind == Kind::kReturn && syntax[id].first_child != kNoNode)
      result = JoinValues(result, Of(syntax[id].first_child));
    ++id;
  }
  return result;
}

Value Dtypes::Of(NodeId expression) const {
  if (expression == kNoNode) return {Type::kUnknown, false, kNoNode};
  return values_.empty() ? Value{} : values_[static_cast<size_t>(expression)];
}

bool Dtypes::PolicyAt(NodeId node, Policy* policy) const {
  if (const Autocast* autocast = regions_.At(node)) {
    if (autocast->enabled == Tri::kNo) return false;
    policy->device = autocast->device;
    policy->half = autocast->dtype == HalfType::kFp16   ? Type::kFp16
                   : autocast->dtype == HalfType::kBf16 ? Type::kBf16
                                                        : Type::kHalf;
    return true;
  }
  const Syntax& syntax = bindings_.syntax();
  if (const auto entry = entries_.find(syntax.FunctionOf(node));
      entry != entries_.end() && entry->second.autocast) {
    *policy = *entry->second.autocast;
    policy->passed = entry->first;
    return true;
  }
  if (!assume_fp16_) return false;
  const NodeId klass = syntax.Enclosing(node, Kind::kClass);
  const NodeId function = syntax.Enclosing(node, Kind::kFunction);
  if (klass == kNoNode || function == kNoNode || !bindings_.IsModuleClass(klass)) return false;
  const std::string_view name = syntax.Text(syntax.Child(function, PythonFields().name));
  if (name.starts_with("__init") || name.find("init_") != std::string_view::npos) return false;
  if (IsCalledWithAutocastOff(bindings_, regions_, function)) return false;
  *policy = {Device::kCuda, Type::kFp16, true};
  return true;
}

}  // namespace mpnanny::check
