#include "tools/static_check/dtypes.h"

#include "tools/static_check/dtype_flow.h"

namespace mpnanny::static_check {

Value Join(Value a, Value b) {
  if (a.type == Type::kUnseen) return b;
  if (b.type == Type::kUnseen) return a;
  a.assumed = a.assumed || b.assumed;
  if (a.type == b.type) return a;
  if (a.is_16bit() && b.is_16bit()) return {Type::kHalf, a.assumed, a.origin};
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
               bool assume_fp16, const CancelToken& cancel)
    : bindings_(bindings),
      regions_(regions),
      ops_(ops),
      assume_fp16_(assume_fp16),
      values_(static_cast<size_t>(bindings.syntax().size())) {
  for (const Function& function : bindings.functions()) DtypeFlow(*this, cancel).Run(function.body);
}

Value Dtypes::Of(NodeId expression) const {
  if (expression == kNoNode) return {Type::kUnknown, false, kNoNode};
  return values_[static_cast<size_t>(expression)];
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
  if (!assume_fp16_) return false;
  const Syntax& syntax = bindings_.syntax();
  const NodeId klass = syntax.Enclosing(node, Kind::kClass);
  const NodeId function = syntax.Enclosing(node, Kind::kFunction);
  if (klass == kNoNode || function == kNoNode || !bindings_.IsModuleClass(klass)) return false;
  const std::string_view name = syntax.Text(syntax.Child(function, PythonFields().name));
  if (name.starts_with("__init") || name.find("init_") != std::string_view::npos) return false;
  *policy = {Device::kCuda, Type::kFp16, true};
  return true;
}

}  // namespace mpnanny::static_check
