// Which kind of operator left the format's range, by the trace.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

struct Kind {
  const char* id;
  const char* why;
};

std::optional<Kind> KindOf(const NanOrigin& origin) {
  if (IsOperator(origin, {"exp", "exp2", "expm1", "sinh", "cosh"})) {
    return Kind{"exp-overflow",
                "an exponential passes 65504 at 11.1 in FP16 and 3.4e38 at 88.7 in FP32 and BF16"};
  }
  if (origin.dtype != "float16" && !origin.dtype.starts_with("float8")) return std::nullopt;
  if (IsOperator(origin, {"bmm", "matmul", "baddbmm", "einsum", "dot", "mm"}) ||
      origin.op.find("dot_product_attention") != std::string::npos) {
    return Kind{"matmul-overflow",
                "a product of two activations, such as queries and keys, grows with the square of "
                "their size"};
  }
  if (IsOperator(origin, {"sum", "mean", "cumsum", "nansum", "prod", "var", "std", "var_mean",
                         "mse_loss", "logsumexp", "linalg_vector_norm", "norm"})) {
    return Kind{"sum-overflow", "the sum of many values that each fit does not"};
  }
  if (IsOperator(origin, {"pow", "square"}) ||
      (IsOperator(origin, {"mul"}) && origin.largest && *origin.largest > 255)) {
    return Kind{"square-overflow", "the square of everything from 256 on is beyond FP16"};
  }
  if (IsOperator(origin, {"add", "sub", "rsub", "addcmul"})) {
    return Kind{"add-overflow",
                "two finite values whose sum does not fit, as in a residual stream"};
  }
  if (IsOperator(origin, {"_to_copy", "copy", "to"})) {
    return Kind{"cast-overflow", "a value of a wider format was cast to one that ends at 65504"};
  }
  return std::nullopt;
}

}  // namespace

void DetectOverflowOrigins(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || FindClaim(claims, "mask-constant-overflow")) return;
  for (const NanOrigin& origin : facts.origins) {
    if (origin.backward || origin.inputs == NanOrigin::Inputs::kInfinite ||
        !(origin.posinf || origin.neginf)) {
      continue;
    }
    // A linear layer multiplies by its weights: forward-overflow tells that.
    if (facts.onset->layer_type.ends_with("Linear") && IsOperator(origin, {"mm", "matmul"})) return;
    const auto kind = KindOf(origin);
    if (!kind) continue;
    Claim claim;
    claim.id = kind->id;
    claim.sentence = OperatorName(origin) + " made Inf in " + origin.dtype + " of finite values" +
                     (origin.largest ? ", up to " + runs::Number(origin.largest) : "") + ": " +
                     kind->why + ".";
    claim.strength = 1;
    claims.push_back(std::move(claim));
    return;  // what follows carries
  }
}

}  // namespace mpnanny::diagnose_run
