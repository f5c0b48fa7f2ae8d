// Which kind of operator left the format's range, by the trace.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

struct Kind {
  const char* id;
  Form why;
};

std::optional<Kind> KindOf(const NanOrigin& origin) {
  if (IsOperator(origin, {"exp", "exp2", "expm1", "sinh", "cosh"})) {
    return Kind{
        "exp-overflow",
        Form("an exponential passes 65504 at 11.1 in FP16 and 3.4e38 at 88.7 in FP32 and BF16",
             "指数函数在 FP16 中于 11.1 处超过 65504，"
             "在 FP32 和 BF16 中于 88.7 处超过 3.4e38")};
  }
  if (origin.dtype != "float16" && !origin.dtype.starts_with("float8")) return std::nullopt;
  if (IsOperator(origin, {"bmm", "matmul", "baddbmm", "einsum", "dot", "mm"}) ||
      origin.op.find("dot_product_attention") != std::string::npos) {
    return Kind{"matmul-overflow", Form("a product of two activations, such as queries and keys, "
                                        "grows with the square of their size",
                                        "两个激活（例如 query 与 key）的乘积随其大小的平方增长")};
  }
  if (IsOperator(origin, {"sum", "mean", "cumsum", "nansum", "prod", "var", "std", "var_mean",
                          "mse_loss", "logsumexp", "linalg_vector_norm", "norm"})) {
    return Kind{"sum-overflow", Form("the sum of many values that each fit does not",
                                     "许多数值各自都放得下，而它们的和放不下")};
  }
  if (IsOperator(origin, {"pow", "square"}) ||
      (IsOperator(origin, {"mul"}) && origin.largest && *origin.largest > 255)) {
    return Kind{"square-overflow", Form("the square of everything from 256 on is beyond FP16",
                                        "从 256 起，平方就超出 FP16 的范围")};
  }
  if (IsOperator(origin, {"add", "sub", "rsub", "addcmul"})) {
    return Kind{"add-overflow",
                Form("two finite values whose sum does not fit, as in a residual stream",
                     "两个有限值之和放不下，如残差流中")};
  }
  if (IsOperator(origin, {"_to_copy", "copy", "to"})) {
    return Kind{"cast-overflow",
                Form("a value of a wider format was cast to one that ends at 65504",
                     "更宽格式的数值被转换到上限为 65504 的格式")};
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
    claim.ground = Ground::kMeasured;
    claim.sentence = {Form("{0} made Inf in {1} of finite values{2}: {3}.",
                           "{0} 在 {1} 中由有限的数值{2}得出 Inf：{3}。"),
                      {OperatorName(origin), origin.dtype,
                       origin.largest ? Sentence(Form(", up to {0}", "（最大 {0}）"),
                                                 {runs::Number(origin.largest)})
                                      : Sentence(),
                       kind->why}};
    claim.strength = 1;
    claims.push_back(std::move(claim));
    return;  // what follows carries
  }
}

}  // namespace mpnanny::diagnosis
