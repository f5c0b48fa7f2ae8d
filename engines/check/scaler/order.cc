#include "engines/check/scaler/order.h"

#include <algorithm>
#include <map>
#include <set>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/machine.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

constexpr std::string_view kClips[] = {
    "clip_grad_norm_", "clip_grad_value_", "clip_grad_norm",  "dispatch_clip_grad", "clip_gradient",
    "clip_gradients",  "clip_grads",       "clip_grad_value", "clip_grad_norm_fp32"};

// What functions do wrong by themselves, whoever calls them.
class OwnFaults {
 public:
  explicit OwnFaults(const CancelToken& cancel) : cancel_(cancel) {}

  bool Has(const Target& target, Violation::Kind kind) {
    const auto [it, first] = kinds_.try_emplace(target.function);
    if (first) {
      std::vector<Violation> found;
      ScalerMachine(*target.code, cancel_).Run(*target.function, &found);
      for (const Violation& violation : found) {
        if (!violation.guess) it->second.insert(violation.kind);
      }
    }
    return it->second.contains(kind);
  }

 private:
  const CancelToken& cancel_;
  std::map<const Function*, std::set<Violation::Kind>> kinds_;
};

}  // namespace

std::span<const std::string_view> ClipNames() { return kClips; }

bool IsClip(const Names& names, NodeId call) {
  const Call* known = names.CallAt(call);
  return known != nullptr && IsOneOf(kClips, known->name);
}

ScalerOrder::ScalerOrder(const Codebase& all, size_t number, const CancelToken& cancel) {
  const Code& code = all[number];
  if (!code.HasWork()) return;
  const bool own = !code.scalers().calls().empty() || !code.scalers().made().empty();
  const QuestionMemo memo;
  ScalerMachine machine(code, cancel);
  for (const Function& function : code.bindings().functions()) {
    if (code.ReachesScaler(function.node) || (own && code.Reaches(function.node)))
      machine.Run(function, &violations_);
  }
  // A helper that is wrong by itself is reported there, once, and not at every call.
  OwnFaults faults(cancel);
  std::erase_if(violations_, [&](const Violation& violation) {
    const auto target = code.TargetOf(violation.node);
    return target && target->function != nullptr && faults.Has(*target, violation.kind);
  });
}

}  // namespace mpnanny::check
