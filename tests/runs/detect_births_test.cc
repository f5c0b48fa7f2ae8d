// Detectors that judge the operator behind a bad value: each fires on the mechanism it is for and
// is silent on its neighbour.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/runs/detector_facts.h"

namespace mpnanny::diagnose_run {
namespace {

TEST(ParseBirths, ReadsWhatTheTraceOfOperatorsSays) {
  const auto births = ParseBirths(
      "blocks.0.attn: 3 NaN of 9 output elements in float16. Traced at step 61: aten.mul.Tensor "
      "(a.py:108) made 6 -Inf of 6 elements in float16 [6]; what went in is finite, up to 1. "
      "aten._softmax (b.py:19) made 576 NaN of 576 elements in float16 [16, 6]; what went in holds "
      "-Inf, as masks do, and nothing worse.");
  ASSERT_EQ(births.size(), 2u);
  EXPECT_EQ(births[0].op, "mul");
  EXPECT_EQ(births[0].place, "a.py:108");
  EXPECT_EQ(births[0].dtype, "float16");
  EXPECT_TRUE(births[0].neginf && !births[0].nan && !births[0].posinf && !births[0].backward);
  EXPECT_EQ(births[0].largest, 1.0);
  EXPECT_EQ(births[1].op, "_softmax");
  EXPECT_EQ(births[1].inputs, Birth::Inputs::kMask);
  const auto backward = ParseBirths(
      "w: NaN. Traced at step 3: aten.div.Tensor in the backward pass of aten.linalg_vector_norm "
      "(l.py:7) made 4 NaN of 4 elements in float32 [4]; what went in is finite, up to 0.25.");
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_TRUE(backward[0].backward);
  EXPECT_EQ(backward[0].op, "div");
  EXPECT_EQ(backward[0].of, "linalg_vector_norm");
  EXPECT_TRUE(ParseBirths("").empty());
  EXPECT_TRUE(ParseBirths("Traced at step 3").empty());
  EXPECT_TRUE(ParseBirths("Traced at step 3: made ; what went in").empty());
}

TEST(SoftmaxBirths, AMaskConstantOrARowOfMinusInf) {
  Facts facts = BrokenAt(60, "forward", "blocks.0.attn");
  facts.births = {Made("mul", "float16", "-Inf", 1), MaskedSoftmax("float16")};
  EXPECT_TRUE(Fires(facts, "mask-constant-overflow"));
  EXPECT_FALSE(Fires(facts, "masked-row-softmax"));
  facts.births = {MaskedSoftmax("bfloat16")};
  EXPECT_TRUE(Fires(facts, "masked-row-softmax"));
  EXPECT_FALSE(Fires(facts, "mask-constant-overflow"));
  // Nor are activations that overflow on one side, because they are few or large.
  const std::tuple<const char*, double, const char*> large[] = {{"mm", 32080, "matmul-overflow"},
                                                                {"mul", 300, "square-overflow"},
                                                                {"add", 40000, "add-overflow"}};
  for (const auto& [op, largest, sign] : large) {
    facts.births = {Made(op, "float16", "-Inf", largest)};
    EXPECT_FALSE(Fires(facts, "mask-constant-overflow")) << op;
    EXPECT_TRUE(Fires(facts, sign)) << op;
  }
  facts.births = {Made("_to_copy", "float16", "-Inf", 1e9)};
  EXPECT_TRUE(Fires(facts, "mask-constant-overflow"));
  // Arithmetic that overflows to both sides is no mask.
  facts.births = {Made("bmm", "float16", "+Inf and 2 -Inf", 300)};
  EXPECT_FALSE(Fires(facts, "mask-constant-overflow"));
  EXPECT_TRUE(Fires(facts, "matmul-overflow"));
}

TEST(SoftmaxBirths, UntracedOnlyWhereNothingOverflows) {
  Facts facts = BrokenAt(60, "forward", "blocks.0.attn");
  facts.onset->is_nan = true;
  facts.onset->message = "None of its modules made it: it is in the code of its own forward.";
  facts.precision = "bf16";
  EXPECT_TRUE(Fires(facts, "masked-row-softmax"));
  facts.precision = "fp16";  // scores may have overflowed
  EXPECT_FALSE(Fires(facts, "masked-row-softmax"));
  facts.precision = "bf16";
  facts.onset->layer = facts.onset->layer_type = "pool";
  EXPECT_FALSE(Fires(facts, "masked-row-softmax"));
  EXPECT_TRUE(Fires(facts, "domain-error"));
}

TEST(DomainBirths, LogOfAProbabilityThatIsZeroAndOfANegative) {
  Facts facts = BrokenAt(9, "loss", "");
  facts.births = {Made("log", "float16", "-Inf", 1)};
  EXPECT_TRUE(Fires(facts, "log-of-zero"));
  facts.births = {Made("log", "float32", "NaN", 40)};
  EXPECT_FALSE(Fires(facts, "log-of-zero"));
  EXPECT_TRUE(Fires(facts, "domain-error"));
  facts.births = {Made("sqrt", "float32", "NaN", 2)};
  EXPECT_TRUE(Fires(facts, "domain-error"));
}

TEST(DomainBirths, DivisionInHalfOrInAnyFormat) {
  Facts facts = BrokenAt(9, "forward", "proj");
  facts.births = {Made("div", "float16", "+Inf", 2e-4)};
  EXPECT_TRUE(Fires(facts, "half-zero-division"));
  EXPECT_FALSE(Fires(facts, "zero-division"));
  facts.births = {Made("div", "float16", "+Inf", 3)};  // not of a size that underflows
  EXPECT_TRUE(Fires(facts, "zero-division"));
  facts.births = {Made("div", "float32", "NaN", 2e-4)};
  EXPECT_TRUE(Fires(facts, "zero-division"));
  EXPECT_FALSE(Fires(facts, "half-zero-division"));
}

TEST(DomainBirths, UntracedLossIsJudgedByHowFarTheLogitsLie) {
  Facts facts = BrokenAt(9, "loss", "");
  facts.precision = "fp32";
  AddSeries(facts, "head", runs::kActivation, "float32", {{0, 3}, {5, 70}});
  EXPECT_TRUE(Fires(facts, "log-of-zero"));
  facts.profile.series[0].points.back().absmax = 12;
  EXPECT_FALSE(Fires(facts, "log-of-zero"));
  EXPECT_TRUE(Fires(facts, "domain-error"));
  facts.onset->place = Onset::Place::kFirstSeen;  // something before it may have made it
  EXPECT_FALSE(Fires(facts, "domain-error"));
}

TEST(LossBackward, EveryGradientIsNanAndLogitsAreFarApart) {
  Facts facts = BrokenAt(9, "backward", "head.bias");
  facts.onset->is_nan = true;
  facts.onset->message =
      "head.bias: its gradient has 4 NaN. 8 of 8 gradients are not finite. More.";
  AddSeries(facts, "head", runs::kActivation, "float16", {{0, 3}, {5, 30}});
  EXPECT_TRUE(Fires(facts, "log-of-zero"));
  facts.onset->message = "head.bias: its gradient has 4 NaN. 7 of 8 gradients are not finite.";
  EXPECT_FALSE(Fires(facts, "log-of-zero"));  // something behind the loss made it
}

TEST(RootGradient, OfANormAtZeroAndNotOfALayerNorm) {
  Facts facts = BrokenAt(9, "backward", "proj.weight");
  facts.births = {Made("div", "float32", "NaN", 1)};
  facts.births[0].backward = true;
  facts.births[0].of = "linalg_vector_norm";
  EXPECT_TRUE(Fires(facts, "root-gradient-at-zero"));
  facts.births[0].of = "native_layer_norm";
  EXPECT_FALSE(Fires(facts, "root-gradient-at-zero"));
  facts.births[0].of = "mul";
  EXPECT_FALSE(Fires(facts, "root-gradient-at-zero"));
}

TEST(OverflowBirths, TellWhichKindOfOperatorLeftTheRange) {
  Facts facts = BrokenAt(9, "forward", "m");
  const std::pair<const char*, const char*> kinds[] = {
      {"bmm", "matmul-overflow"}, {"add", "add-overflow"}, {"sum", "sum-overflow"},
      {"pow", "square-overflow"}, {"exp", "exp-overflow"}, {"_to_copy", "cast-overflow"},
      {"mul", "square-overflow"}};
  for (const auto& [op, sign] : kinds) {
    facts.births = {Made(op, "float16", "+Inf", 60000)};
    EXPECT_TRUE(Fires(facts, sign)) << op;
    EXPECT_TRUE(Fires(facts, "forward-overflow")) << op;
  }
  facts.births = {Made("bmm", "float32", "+Inf", 1e38)};  // of FP32's range, not of FP16's
  EXPECT_FALSE(Fires(facts, "matmul-overflow"));
  EXPECT_FALSE(Fires(facts, "forward-overflow"));
  facts.births = {Made("mul", "float16", "+Inf", 100)};  // a product of 100s is no square
  EXPECT_FALSE(Fires(facts, "square-overflow"));
}

TEST(OptimizerBirth, ItsOwnArithmeticOrAGradientThatNobodyChecked) {
  Facts facts = BrokenAt(9, "optimizer", "w");
  facts.onset->kind = runs::kWeight;
  facts.onset->message = "w: the optimizer's step made 5 of 5; weights and gradient were finite";
  EXPECT_TRUE(Fires(facts, "optimizer-division"));
  facts.onset->layer_type = "buffer";
  EXPECT_FALSE(Fires(facts, "optimizer-division"));

  facts = BrokenAt(9, "backward", "w");
  SeenAlert alert;
  alert.row.type = "NAN";
  alert.row.severity = "ERROR";
  alert.row.phase = "optimizer";
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
}  // namespace mpnanny::diagnose_run
