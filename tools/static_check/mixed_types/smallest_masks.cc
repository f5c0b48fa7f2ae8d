#include "tools/static_check/mixed_types/smallest_masks.h"

#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check {
namespace {

// causal + (1.0 - mask) * torch.finfo(dtype).min: where both mask, the sum of two smallest numbers.
void GuessAdded(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Fields& f = PythonFields();
  const auto smallest = [&](NodeId expression) {
    // Any of its assignments multiplies by, or fills with, the smallest number.
    const auto text_is = [&](NodeId id) {
      const std::string_view text = facts.syntax.Text(id);
      return text.size() < 200 && HoldsAny(text, {"finfo", "min_value", "mask_value", "min_dtype",
                                                  "neg_inf", "dtype_min"});
    };
    const NodeId id = facts.syntax.Unwrap(expression);
    if (OperatorOf(facts, id) == "*" && text_is(id)) return true;
    if (!facts.syntax.Is(id, Kind::kIdentifier)) return false;
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
      if (assignment.value != kNoNode && OperatorOf(facts, assignment.value) == "*" &&
          text_is(assignment.value))
        return true;
    }
    return false;
  };
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "+") continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    const bool adds = smallest(left) || smallest(right);
    const std::string_view other = facts.syntax.Text(smallest(left) ? right : left);
    if (!adds || !HoldsAny(other, {"mask", "causal", "bias", "pad"}) || other.size() > 60 ||
        !HalfGuess::Anywhere(facts, id).any() || facts.syntax.FunctionOf(id) == 0)
      continue;
    found->push_back({id,
                      "Where both masks hold the smallest number of a 16-bit type, their sum is "
                      "-inf: a row in which all is masked is NaN. Combine them as booleans."});
  }
}

// True for `dtype` of `def f(…, dtype=torch.bfloat16)`.
bool IsHalfByDefault(const FileFacts& facts, NodeId node, std::string_view smallest) {
  const std::string_view rest = smallest.substr(smallest.find("finfo(") + 6);
  const std::string_view name = rest.substr(0, rest.find(')'));
  const NodeId value = facts.bindings.ParameterDefault(facts.syntax.FunctionOf(node), name);
  return value != kNoNode && facts.regions.ReadHalfType(value) != HalfType::kUnknown;
}

// (1.0 - mask) * torch.finfo(dtype).min: of FP32 this is a number that BF16 and FP16 do not hold.
void GuessProducts(const FileFacts& facts, std::vector<UnlikeWrite>* found) {
  const Fields& f = PythonFields();
  if (!Holds(facts.syntax.text(), "finfo(")) return;
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "*" || facts.regions.At(id) != nullptr) continue;
    const std::string_view smallest = facts.syntax.Text(facts.syntax.Child(id, f.right));
    const std::string_view mask = facts.syntax.Text(facts.syntax.Child(id, f.left));
    if (!Holds(smallest, "finfo(") || !smallest.ends_with(".min") || smallest.size() > 80 ||
        mask.size() > 80 || !HoldsAny(mask, {"mask", "pad"}) ||
        HoldsAny(smallest, {"float16", "scores", "(q.", "attn_w", "logits", "query", "half"}) ||
        facts.syntax.FunctionOf(id) == 0 || IsHalfByDefault(facts, id, smallest) ||
        !HalfGuess::Anywhere(facts, id).any())
      continue;
    found->push_back({id,
                      "If this type is FP32, its smallest number is -inf in the 16 bits that "
                      "autocast makes of a mask (scaled_dot_product_attention does, and devices "
                      "that run products in BF16): a row in which all is masked is NaN. Switch "
                      "autocast off here, and take the type that attention runs in."});
  }
}

}  // namespace

std::vector<UnlikeWrite> FindSmallestMasks(const FileFacts& facts) {
  std::vector<UnlikeWrite> found;
  if (!facts.project.HasHalfChoice()) return found;
  GuessAdded(facts, &found);
  GuessProducts(facts, &found);
  return found;
}

}  // namespace mpnanny::static_check
