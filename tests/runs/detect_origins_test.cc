// Detectors that judge the operator behind a bad value: each fires on the mechanism it is for and
// is silent on its neighbour.
#include <gtest/gtest.h>

#include <tuple>

#include "engines/diagnosis/facts/earlier_messages.h"
#include "tests/runs/detector_facts.h"

namespace mpnanny::diagnosis {
namespace {

std::vector<NanOrigin> OriginsOf(std::string_view message) {
  return ParseEarlierMessage(message).operators;
}

runs::AlertDetail GradientsOf(int64_t bad, int64_t all) {
  runs::AlertDetail detail;
  detail.where = runs::Where::kGradients;
  detail.bad_gradients = bad;
  detail.gradients = all;
  return detail;
}

TEST(EarlierMessages, AreReadAsTheFiguresOfTheirAlert) {
  const auto origins = OriginsOf(
      "blocks.0.attn: 3 NaN of 9 output elements in float16. Traced at step 61: aten.mul.Tensor "
      "(a.py:108) made 6 -Inf of 6 elements in float16 [6]; what went in is finite, up to 1. "
      "aten._softmax (b.py:19) made 576 NaN of 576 elements in float16 [16, 6]; what went in holds "
      "-Inf, as masks do, and nothing worse.");
  ASSERT_EQ(origins.size(), 2u);
  EXPECT_EQ(origins[0].op, "mul");
  EXPECT_EQ(origins[0].place, "a.py:108");
  EXPECT_EQ(origins[0].dtype, "float16");
  EXPECT_TRUE(origins[0].neginf && !origins[0].nan && !origins[0].posinf && !origins[0].backward);
  EXPECT_EQ(origins[0].largest, 1.0);
  EXPECT_EQ(origins[1].op, "_softmax");
  EXPECT_EQ(origins[1].inputs, NanOrigin::Inputs::kMask);
  const auto backward = OriginsOf(
      "w: NaN. Traced at step 3: aten.div.Tensor in the backward pass of aten.linalg_vector_norm "
      "(l.py:7) made 4 NaN of 4 elements in float32 [4]; what went in is finite, up to 0.25.");
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_TRUE(backward[0].backward);
  EXPECT_EQ(backward[0].op, "div");
  EXPECT_EQ(backward[0].of, "linalg_vector_norm");
  EXPECT_TRUE(OriginsOf("").empty());
  EXPECT_TRUE(OriginsOf("Traced at step 3").empty());
  EXPECT_TRUE(OriginsOf("Traced at step 3: made ; what went in").empty());
  const auto gradients = ParseEarlierMessage(
      "head.bias: its gradient has 4 NaN of 4 elements; loss and forward pass are finite. 8 of 9 "
      "gradients are not finite. Traced at step 3: nothing.");
  EXPECT_EQ(gradients.where, runs::Where::kGradients);
  EXPECT_EQ(gradients.bad_gradients, 8);
  EXPECT_EQ(gradients.gradients, 9);
  const auto own = ParseEarlierMessage(
      "pool: 3 NaN of 9 output elements in float32; its inputs are finite, up to 2. None of its "
      "modules made it: it is in the code of its own forward.");
  EXPECT_EQ(own.where, runs::Where::kOwnCode);
  const auto step = ParseEarlierMessage(
      "w: the optimizer's step made 5 of 5 sampled weights non-finite; weights and gradient were "
      "finite before it.");
  EXPECT_TRUE(step.finite_before);
  EXPECT_EQ(step.where, runs::Where::kOptimizer);
  const auto before = ParseEarlierMessage(
      "fc: its weights are not finite (5 NaN of 5) before this forward pass; the optimizer step "
      "before it, or a loaded checkpoint, wrote them.");
  EXPECT_EQ(before.where, runs::Where::kWeightsBefore);
}

TEST(SoftmaxOrigins, AMaskConstantOrARowOfMinusInf) {
  Facts facts = BrokenAt(60, "forward", "blocks.0.attn");
  facts.origins = {Made("mul", "float16", "-Inf", 1), MaskedSoftmax("float16")};
  EXPECT_TRUE(Fires(facts, "mask-constant-overflow"));
  EXPECT_FALSE(Fires(facts, "masked-row-softmax"));
  facts.origins = {MaskedSoftmax("bfloat16")};
  EXPECT_TRUE(Fires(facts, "masked-row-softmax"));
  EXPECT_FALSE(Fires(facts, "mask-constant-overflow"));
  // Nor are activations that overflow on one side, because they are few or large.
  const std::tuple<const char*, double, const char*> large[] = {{"mm", 32080, "matmul-overflow"},
                                                                {"mul", 300, "square-overflow"},
                                                                {"add", 40000, "add-overflow"}};
  for (const auto& [op, largest, sign] : large) {
    facts.origins = {Made(op, "float16", "-Inf", largest)};
    EXPECT_FALSE(Fires(facts, "mask-constant-overflow")) << op;
    EXPECT_TRUE(Fires(facts, sign)) << op;
  }
  facts.origins = {Made("_to_copy", "float16", "-Inf", 1e9)};
  EXPECT_TRUE(Fires(facts, "mask-constant-overflow"));
  // Arithmetic that overflows to both sides is no mask.
  facts.origins = {Made("bmm", "float16", "+Inf and 2 -Inf", 300)};
  EXPECT_FALSE(Fires(facts, "mask-constant-overflow"));
  EXPECT_TRUE(Fires(facts, "matmul-overflow"));
}

TEST(SoftmaxOrigins, UntracedOnlyWhereNothingOverflows) {
  Facts facts = BrokenAt(60, "forward", "blocks.0.attn");
  facts.onset->is_nan = true;
  facts.onset->detail.where = runs::Where::kOwnCode;
  facts.precision = Precision::kBf16;
  EXPECT_TRUE(Fires(facts, "masked-row-softmax"));
  facts.precision = Precision::kFp16;  // scores may have overflowed
  EXPECT_FALSE(Fires(facts, "masked-row-softmax"));
  facts.precision = Precision::kBf16;
  facts.onset->layer = facts.onset->layer_type = "pool";
  EXPECT_FALSE(Fires(facts, "masked-row-softmax"));
  EXPECT_TRUE(Fires(facts, "domain-error"));
}

TEST(DomainOrigins, LogOfAProbabilityThatIsZeroAndOfANegative) {
  Facts facts = BrokenAt(9, "loss", "");
  facts.origins = {Made("log", "float16", "-Inf", 1)};
  EXPECT_TRUE(Fires(facts, "log-of-zero"));
  facts.origins = {Made("log", "float32", "NaN", 40)};
  EXPECT_FALSE(Fires(facts, "log-of-zero"));
  EXPECT_TRUE(Fires(facts, "domain-error"));
  facts.origins = {Made("sqrt", "float32", "NaN", 2)};
  EXPECT_TRUE(Fires(facts, "domain-error"));
}

TEST(DomainOrigins, DivisionInHalfOrInAnyFormat) {
  Facts facts = BrokenAt(9, "forward", "proj");
  facts.origins = {Made("div", "float16", "+Inf", 2e-4)};
  EXPECT_TRUE(Fires(facts, "half-zero-division"));
  EXPECT_FALSE(Fires(facts, "zero-division"));
  facts.origins = {Made("div", "float16", "+Inf", 3)};  // not of a size that underflows
  EXPECT_TRUE(Fires(facts, "zero-division"));
  facts.origins = {Made("div", "float32", "NaN", 2e-4)};
  EXPECT_TRUE(Fires(facts, "zero-division"));
  EXPECT_FALSE(Fires(facts, "half-zero-division"));
}

TEST(DomainOrigins, ASpreadOfASingleValueIsNamed) {
  Facts facts = BrokenAt(9, "loss", "");
  facts.origins = {Made("std", "float32", "NaN", 1)};
  EXPECT_TRUE(Fires(facts, "traced-producer"));
  facts.origins = {Made("mean", "float32", "NaN", 1)};
  EXPECT_FALSE(Fires(facts, "traced-producer"));
}

TEST(DomainOrigins, UntracedLossIsJudgedByHowFarTheLogitsLie) {
  Facts facts = BrokenAt(9, "loss", "");
  facts.precision = Precision::kFp32;
  AddSeries(facts, "head", runs::kActivation, "float32", {{0, 3}, {5, 70}});
  EXPECT_TRUE(Fires(facts, "log-of-zero"));
  facts.profile.series[0].points.back().absmax = 12;
  EXPECT_FALSE(Fires(facts, "log-of-zero"));
  EXPECT_TRUE(Fires(facts, "domain-error"));
  facts.onset->place = Onset::Place::kFirstSeen;  // something before it may have made it
  EXPECT_FALSE(Fires(facts, "domain-error"));
}

TEST(RootGradient, OfANormAtZeroAndNotOfALayerNorm) {
  Facts facts = BrokenAt(9, "backward", "proj.weight");
  facts.origins = {Made("div", "float32", "NaN", 1)};
  facts.origins[0].backward = true;
  facts.origins[0].of = "linalg_vector_norm";
  EXPECT_TRUE(Fires(facts, "root-gradient-at-zero"));
  facts.origins[0].of = "native_layer_norm";
  EXPECT_FALSE(Fires(facts, "root-gradient-at-zero"));
  facts.origins[0].of = "mul";
  EXPECT_FALSE(Fires(facts, "root-gradient-at-zero"));
}

TEST(OverflowOrigins, TellWhichKindOfOperatorLeftTheRange) {
  Facts facts = BrokenAt(9, "forward", "m");
  const std::pair<const char*, const char*> kinds[] = {
      {"bmm", "matmul-overflow"}, {"add", "add-overflow"}, {"sum", "sum-overflow"},
      {"pow", "square-overflow"}, {"exp", "exp-overflow"}, {"_to_copy", "cast-overflow"},
      {"mul", "square-overflow"}};
  for (const auto& [op, sign] : kinds) {
    facts.origins = {Made(op, "float16", "+Inf", 60000)};
    EXPECT_TRUE(Fires(facts, sign)) << op;
    EXPECT_TRUE(Fires(facts, "forward-overflow")) << op;
  }
  facts.origins = {Made("bmm", "float32", "+Inf", 1e38)};  // of FP32's range, not of FP16's
  EXPECT_FALSE(Fires(facts, "matmul-overflow"));
  EXPECT_FALSE(Fires(facts, "forward-overflow"));
  facts.origins = {Made("mul", "float16", "+Inf", 100)};  // a product of 100s is no square
  EXPECT_FALSE(Fires(facts, "square-overflow"));
}

TEST(OptimizerOrigin, ItsOwnArithmeticOrAGradientThatNobodyChecked) {
  Facts facts = BrokenAt(9, "optimizer", "w");
  facts.onset->kind = runs::kWeight;
  facts.onset->detail.finite_before = true;
  EXPECT_TRUE(Fires(facts, "optimizer-division"));
  facts.onset->layer_type = "buffer";
  EXPECT_FALSE(Fires(facts, "optimizer-division"));

  facts = BrokenAt(9, "backward", "w");
  SeenAlert alert;
  alert.row.type = AlertType::kNan;
  alert.row.severity = Severity::kError;
  alert.row.phase = Phase::kOptimizer;
  alert.row.step = 10;
  facts.alerts = {alert};
  EXPECT_TRUE(Fires(facts, "unchecked-gradient"));
  facts.summary.scale_first = facts.summary.scale_max = 1024;  // a scaler looks
  EXPECT_FALSE(Fires(facts, "unchecked-gradient"));
  facts.summary.scale_first.reset();
  facts.alerts[0].row.step = 40;
  EXPECT_FALSE(Fires(facts, "unchecked-gradient"));
}

}  // namespace
}  // namespace mpnanny::diagnosis
