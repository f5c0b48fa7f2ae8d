#include <algorithm>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

bool IsSoftmax(const NanOrigin& origin) {
  return origin.op.find("softmax") != std::string::npos ||
         origin.op.find("dot_product_attention") != std::string::npos;
}

// What a mask's constant is put in by: -1e9 times a mask, added to scores, filled in, cast.
bool PutsConstant(const NanOrigin& origin) {
  constexpr double kHalfMax = 65504;
  const double largest = origin.largest.value_or(0);
  // Large activations need no constant to overflow.
  if (IsOperator(origin, {"mul", "div"})) return largest * largest < kHalfMax;
  if (IsOperator(origin, {"add", "sub", "rsub"})) return 2 * largest < kHalfMax;
  return IsOperator(
      origin, {"masked_fill", "where", "fill", "full", "full_like", "new_full", "scalar_tensor",
               "index_put", "index_fill", "masked_scatter", "_to_copy", "copy", "to"});
}

// -Inf alone, of finite values, in 16 bits: a large negative constant that the format cannot hold.
// Arithmetic on many activations overflows to both sides; a few overflow to one as well.
bool MakesMask(const NanOrigin& origin) {
  return origin.neginf && !origin.posinf && !origin.nan && !origin.backward &&
         origin.inputs == NanOrigin::Inputs::kFinite && IsHalf(origin.dtype) &&
         PutsConstant(origin);
}

}  // namespace

void DetectSoftmaxOrigins(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset) return;
  const Onset& onset = *facts.onset;
  const auto& origins = facts.origins;
  const auto mask = std::find_if(origins.begin(), origins.end(), MakesMask);
  if (mask != origins.end()) {
    Claim claim;
    claim.id = "mask-constant-overflow";
    claim.ground = Ground::kMeasured;
    claim.sentence = {
        Form("{0} made -Inf in {1} of finite values{2}: a mask's constant is beyond -65504, where "
             "FP16 ends. Times 0, or in a row that is masked throughout, -Inf becomes NaN.",
             "{0} 在 {1} 中由有限的数值{2}得出 -Inf：掩码的常量超出 -65504，"
             "即 FP16 的下限。乘以 0，或在整行都被掩码时，-Inf 变为 NaN。"),
        {OperatorName(*mask), mask->dtype,
         mask->largest
             ? Sentence(Form(" (up to {0})", "（最大 {0}）"), {runs::Number(mask->largest)})
             : Sentence()}};
    claim.strength = 1;
    claims.push_back(std::move(claim));
    return;
  }
  const auto row = std::find_if(origins.begin(), origins.end(), [](const NanOrigin& origin) {
    return IsSoftmax(origin) && origin.nan && origin.inputs == NanOrigin::Inputs::kMask;
  });
  Claim claim;
  claim.id = "masked-row-softmax";
  if (row != origins.end()) {
    claim.sentence = {Form("{0} made NaN of -Inf that a mask had put there: a row in which every "
                           "key is masked has no softmax (0 / 0). That is so in every precision.",
                           "{0} 由掩码放入的 -Inf 得出 NaN：所有 key 都被掩码的行没有 "
                           "softmax（0 / 0）。在任何精度下都是如此。"),
                      {OperatorName(*row)}};
    claim.ground = Ground::kMeasured;
    claim.strength = 1;
    claims.push_back(std::move(claim));
    return;
  }
  // No trace: the fault was gone, or had been written into the weights, when operators were traced.
  // NaN without an Inf, in a format of FP32's range or of small finite inputs, in an attention
  // module's own code is no overflow.
  const bool attention = NameHas(onset.layer, {"attn", "attention"}) ||
                         NameHas(onset.layer_type, {"attn", "attention"});
  const bool own_code = onset.detail.where == runs::Where::kOwnCode;
  if (origins.empty() && attention && !IsRuledOut(facts, "masked-row-softmax") && onset.is_nan &&
      onset.phase == Phase::kForward && onset.place == Onset::Place::kProducer &&
      (own_code || NameHas(onset.layer_type, {"multihead"})) && !InNarrowRange(facts)) {
    claim.sentence = {
        Form("{0} made NaN and no Inf of finite inputs in its own code, in a format that does not "
             "overflow there: a softmax over nothing but -Inf does that.",
             "{0} 在自己的代码中由有限的输入得出 NaN 而没有 Inf，"
             "所用格式在那里不会溢出：对全为 -Inf 的输入做 softmax 就会如"
             "此。"),
        {runs::Name(onset.layer)}};
    claim.strength = 0.8;
    claims.push_back(std::move(claim));
  }
}

}  // namespace mpnanny::diagnosis
