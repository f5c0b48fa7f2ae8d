// Sentences of shadow findings: every kind, and figures that are missing or absurd.
#include "engines/runs/shadow_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "engines/runs/operator_words.h"
#include "tests/runs/same_figures.h"

namespace mpnanny::runs {
namespace {

// The sentence in English; it tells the same in Chinese.
std::string Told(const ShadowFinding& finding, std::string_view module) {
  const Sentence sentence = FindingSentence(finding, module);
  test::ExpectChinese(sentence);
  EXPECT_EQ(sentence.English(), FindingText(finding, module));
  return sentence.English();
}

ShadowFinding Cancellation() {
  ShadowFinding finding;
  finding.step = 5;
  finding.kind = FindingKind::kAmplified;
  finding.severity = Severity::kWarning;
  finding.phase = Phase::kForward;
  finding.op = "aten.sub.Tensor";
  finding.source = "train.py:40";
  finding.dtype = "bfloat16";
  finding.error_in = 0.004;
  finding.error_out = 3.1;
  finding.proof = Proof::kProven;
  finding.reach = {{"loss", "", {}}};
  finding.cure = ShadowCure{
      {"train.py:40", "train.py:41", "train.py:42"}, {"aten.sub.Tensor"}, "float32", 3.1, 1e-4};
  return finding;
}

TEST(ShadowTextTest, CancellationInOneSentenceEach) {
  EXPECT_EQ(Told(Cancellation(), "block.norm"),
            "bfloat16 subtraction at train.py:40 (block.norm, forward) turns a relative error of "
            "0.4 % into 310 %: cancellation (the operands are nearly equal, and what is left of "
            "them is mostly rounding error). In FP32 (lines 40–42) it would be 0.01 %. Reaches the "
            "loss.");
}

TEST(ShadowTextTest, WhereTheErrorCameIn) {
  ShadowFinding f = Cancellation();
  f.origin = {"aten.add.Tensor", "train.py:26", "bfloat16", Phase::kData, 0.061};
  EXPECT_NE(Told(f, "").find("turns a relative error of 0.4 % (from the bfloat16 addition "
                             "at train.py:26) into 310 %: cancellation"),
            std::string::npos)
      << Told(f, "");
}

TEST(ShadowTextTest, AnErrorThatWasNotMeasuredIsNone) {
  ShadowFinding f = Cancellation();
  f.cure->error_after.reset();
  EXPECT_NE(FindingText(f, "").find("In FP32 (lines 40–42) it is cured; the error that is left was "
                                    "not measured."),
            std::string::npos)
      << FindingText(f, "");
  f.kind = FindingKind::kRange;
  f.cure->error_before.reset();
  EXPECT_NE(FindingText(f, "").find("In FP32 (lines 40–42) it stays finite; how exact it is there "
                                    "was not measured."),
            std::string::npos)
      << FindingText(f, "");
  EXPECT_EQ(FindingText(f, "").find("0 %"), std::string::npos) << FindingText(f, "");
}

TEST(ShadowTextTest, EveryKindHasItsWords) {
  ShadowFinding f = Cancellation();
  f.error_in.reset();
  f.cure.reset();
  f.reach.clear();
  f.share = 0.125;
  f.kind = FindingKind::kRange;
  f.dtype = "float16";
  f.op = "aten.mul.Tensor";
  f.magnitude = 123456;
  EXPECT_EQ(Told(f, ""),
            "float16 multiplication at train.py:40 (forward) gives Inf or NaN in 12 % of the "
            "elements, where the same computation in FP64 stays finite (up to 123456; float16 ends "
            "at 65504). FP32 cures it.");
  f.kind = FindingKind::kUndefined;
  f.op = "aten.log.default";
  f.proof = Proof::kExcluded;
  f.share = 1;
  EXPECT_EQ(
      Told(f, "head"),
      "float16 logarithm at train.py:40 (head, forward) gives Inf or NaN in all elements, and "
      "so does the same computation in FP64. More precision would not help: the FP64 "
      "reference has it too.");
  f.kind = FindingKind::kIntegers;
  f.op = "aten._to_copy.default";
  f.dtype = "int64 → bfloat16";
  f.share = 0.5;
  f.magnitude = 4096;
  f.proof = Proof::kNotTested;
  EXPECT_EQ(Told(f, "pos"),
            "conversion (int64 → bfloat16) at train.py:40 (pos, forward) changes 50 % of the whole "
            "numbers (up to 4096): bfloat16 holds every whole number only up to 256. Whether FP32 "
            "cures it is not known.");
  f.kind = FindingKind::kLostChange;
  f.op = "aten.add_.Tensor";
  f.dtype = "bfloat16";
  f.phase = Phase::kOptimizer;
  f.proof = {};
  EXPECT_EQ(Told(f, ""),
            "bfloat16 addition at train.py:40 (optimizer) leaves 50 % of the elements that should "
            "change as they were: the change is too small beside the value for bfloat16.");
  f.lost_before = true;
  EXPECT_EQ(Told(f, ""),
            "bfloat16 addition at train.py:40 (optimizer) leaves 50 % of the elements that should "
            "change as they were: the change was lost before it came in there, as where a gradient "
            "is rounded to 0.");
  f.lost_before = false;
  f.kind = FindingKind::kFlushed;
  EXPECT_NE(Told(f, "").find("rounds 50 % of the elements that are not 0 to 0: they are too "
                             "small for bfloat16."),
            std::string::npos)
      << Told(f, "");
  f.kind = FindingKind::kClipped;
  f.dtype = "float32 → float8_e4m3fn";
  f.magnitude = 2000;
  EXPECT_NE(Told(f, "").find("cuts off 50 % of the elements at the largest value that "
                             "float8_e4m3fn holds (they go up to 2000)."),
            std::string::npos)
      << Told(f, "");
}

TEST(ShadowTextTest, WhatASelectionChooses) {
  ShadowFinding f = Cancellation();
  f.kind = FindingKind::kIntegers;
  f.op = "aten.topk.default";
  f.dtype = "bfloat16 → int64";
  f.share = 0.4;
  f.magnitude = 4095;
  f.reach.clear();
  f.cure.reset();
  f.proof = {};
  f.phase = Phase::kData;
  EXPECT_NE(Told(f, "").find("chooses others than the same computation in FP64 for 40 % of the "
                             "elements."),
            std::string::npos)
      << Told(f, "");
}

TEST(ShadowTextTest, PlacesThatASearchFinds) {
  ShadowFinding f = Cancellation();
  f.kind = FindingKind::kIntegers;
  f.op = "aten.searchsorted.Tensor";
  f.dtype = "float32 → int64";
  f.share = 0.75;
  f.reach.clear();
  f.cure.reset();
  f.proof = {};
  f.phase = Phase::kData;
  EXPECT_EQ(
      Told(f, ""),
      "aten.searchsorted (float32 → int64) at train.py:40 (data) finds another place than the "
      "same computation in FP64 for 75 % of the elements.");
  f.origin = {"aten.cumsum.default", "train.py:26", "bfloat16", Phase::kData, 0.002};
  EXPECT_NE(Told(f, "").find("of the elements: what goes in is wrong by 0.2 % since the "
                             "bfloat16 cumulative sum at train.py:26."),
            std::string::npos)
      << Told(f, "");
}

TEST(ShadowTextTest, WeightsThatAreRoundedBetweenSteps) {
  ShadowFinding f = Cancellation();
  f.kind = FindingKind::kLostChange;
  f.rounded_between = true;
  f.share = 0.75;
  f.reach.clear();
  f.cure.reset();
  f.proof = Proof::kNotTested;
  f.op = f.source = f.dtype = "";
  EXPECT_TRUE(Told(f, "").starts_with(
      "The weights are rounded between two steps of the optimizer: 75 % of the numbers that a step "
      "changes are back at their old value before the next one."))
      << Told(f, "");
  f.op = "aten._to_copy";
  f.source = "train.py:7";
  f.dtype = "float32 → float8_e5m2";
  EXPECT_NE(Told(f, "").find("by the conversion (float32 → float8_e5m2) at train.py:7: 75 %"),
            std::string::npos);
}

TEST(ShadowTextTest, OperandsOfTheFirstElementThatIsNotFinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ShadowFinding f = Cancellation();
  f.kind = FindingKind::kRange;
  f.op = "aten.div.Tensor";
  f.operands = {{0.5, 0.5001}, {0, 3.2e-10}};
  EXPECT_EQ(WordsOf(f, "").operands.English(),
            "What went into the first such element: 0.5 and 0 (in FP64 3.2e-10).");
  EXPECT_NE(Told(f, "").find("and 0 (in FP64 3.2e-10). In FP32"), std::string::npos);
  f.inputs_from = {{"aten.div.Tensor", "utils.py:56"}, {"aten.index.Tensor", "utils.py:44"}};
  EXPECT_EQ(
      WordsOf(f, "").operands.English(),
      "What went into the first such element: 0.5 and 0 (in FP64 3.2e-10). What goes in comes "
      "from utils.py:56 (division) and utils.py:44 (aten.index).");
  EXPECT_EQ(FindingJson(f, "")["inputs_from"][1]["source"], "utils.py:44");
  f.inputs_from.clear();
  f.operands = {{kInf, kInf}};
  EXPECT_EQ(WordsOf(f, "").operands.English(), "What went into the first such element: inf.");
  f.operands = {{1, 1}, {kInf, 2}, {0, 0}};
  EXPECT_EQ(WordsOf(f, "").operands.English(),
            "What went into the first such element: 1, inf (in FP64 2) and 0.");
}

TEST(ShadowTextTest, ADerivativeThatIsInfiniteSaysAtWhichInputAndWhatItMeets) {
  ShadowFinding f = Cancellation();
  f.kind = FindingKind::kUndefined;
  f.phase = Phase::kBackward;
  f.op = "aten.div.Tensor";
  f.forward_op = "aten.sqrt.default";
  f.proof = Proof::kExcluded;
  f.share = 1;
  f.derivative_at = ShadowOperand{0, 0};
  f.meets = {{"aten.where.self", "train.py:46"}};
  EXPECT_NE(Told(f, "").find(
                "and so does the same computation in FP64: the derivative of the square root is "
                "infinite at 0, which is its input there; it meets a 0 from train.py:46 "
                "(selection (where)), and 0 times infinity is NaN."),
            std::string::npos)
      << Told(f, "");
  EXPECT_EQ(FindingJson(f, "")["meets"]["source"], "train.py:46");
  EXPECT_EQ(FindingJson(f, "")["derivative_at"]["held"], 0);
  f.kind = FindingKind::kRange;
  f.proof = Proof::kProven;
  f.forward_op = "aten.acos.default";
  f.derivative_at = ShadowOperand{1, 0.9998};
  f.meets.clear();
  EXPECT_NE(Told(f, "").find("the derivative of the arc cosine (acos) is infinite at 1, and its "
                             "input was rounded to that (in FP64 it is 0.9998)"),
            std::string::npos)
      << Told(f, "");
  f.derivative_at = ShadowOperand{std::nan(""), std::nan("")};
  EXPECT_NE(Told(f, "").find(": it divides by 0 there"), std::string::npos) << Told(f, "");
}

TEST(ShadowTextTest, UpdatesThatAreTooLarge) {
  ShadowFinding f;
  f.kind = FindingKind::kDiverged;
  f.severity = Severity::kError;
  f.phase = Phase::kOptimizer;
  f.op = "optimizer.step";
  f.source = "train.py:60";
  f.dtype = "float32 → float16";
  f.share = 0.005;
  f.magnitude = 3e38;
  f.proof = Proof::kExcluded;
  f.growth = {2512.7, "model.py:12", "aten.mm.default"};
  f.reach = {{"loss", "", {}}};
  EXPECT_EQ(
      Told(f, ""),
      "optimizer.step at train.py:60 makes updates that are too large (learning rate): the "
      "result of the matrix product at model.py:12 grew 2513-fold since the first shadow step and "
      "left the range of float16 (Inf or NaN in 0.5 % of the elements). More precision would only "
      "put it off: FP64 would overflow a little later. "
      "Reaches the loss.");
  // As an alert alone tells it.
  f.growth = {};
  f.dtype = "";
  f.share.reset();
  f.reach.clear();
  EXPECT_EQ(Told(f, ""),
            "optimizer.step at train.py:60 makes updates that are too large (learning rate): "
            "values grew by orders of magnitude since the first shadow step and overflowed. More "
            "precision would only put it off: FP64 would overflow a little later.");
}

TEST(ShadowTextTest, ValuesThatNanToNumReplaced) {
  ShadowFinding f = Cancellation();
  f.kind = FindingKind::kUndefined;
  f.cure.reset();
  f.proof = {};
  f.share = 0.5;
  const std::string start =
      "bfloat16 subtraction at train.py:40 (forward) gives Inf or NaN in 50 % of the elements, and "
      "so does the same computation in FP64.";
  f.reach = {{"replaced", "train.py:50", 0.5}};
  EXPECT_EQ(Told(f, ""), start + " Values were replaced by nan_to_num at train.py:50.");
  f.reach = {{"replaced", "train.py:50", 0.5}, {"loss", "", {}}, {"replaced", "", 0.5}};
  EXPECT_EQ(Told(f, ""), start +
                             " Reaches the loss. Values were replaced by nan_to_num at "
                             "train.py:50 and nan_to_num.");
}

TEST(ShadowTextTest, AKindOfALaterVersionIsShownAsItIs) {
  ShadowFinding f = Cancellation();
  f.kind = Word<FindingKind>("wobble\x01");
  f.op = "custom.frobnicate.default";
  f.proof = Word<Proof>("guessed");
  f.cure.reset();
  f.reach.clear();
  f.share = 0.25;
  EXPECT_EQ(Told(f, ""),
            "bfloat16 custom.frobnicate at train.py:40 (forward): wobble\\u{1}, 25 % of the "
            "elements, relative error in 0.4 %, relative error out 310 %.");
  EXPECT_EQ(Told({}, ""), "an operator: not told what.");
}

TEST(ShadowTextTest, WhatFp32CuresAndWhatItReaches) {
  ShadowFinding f = Cancellation();
  f.cure->what = "float64";
  f.cure->lines = {"lib/norm.py:7", "train.py:40", "lib/norm.py:9"};
  f.reach = {{"loss", "", 0.5},
             {"gradient", "fc.weight", 0.02},
             {"state", "fc.running_mean", {}},
             {"index", "train.py:50", {}},
             {"output", "", {}}};
  const std::string text = Told(f, "");
  EXPECT_NE(text.find("In FP64 (lib/norm.py:7, 9 and line 40) it would be 0.01 %."),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Reaches the loss (error 50 %), the gradient of fc.weight (error 2 %), state "
                      "fc.running_mean and 2 more."),
            std::string::npos)
      << text;
  f.kind = FindingKind::kRange;
  EXPECT_NE(Told(f, "").find("it stays finite, with an error of 0.01 %."), std::string::npos);
  f.kind = FindingKind::kFlushed;
  EXPECT_NE(Told(f, "").find("the error falls from 310 % to 0.01 %."), std::string::npos);
}

TEST(ShadowTextTest, PercentsAreReadAsTheyAreMeant) {
  EXPECT_EQ(PercentText(0), "0 %");
  EXPECT_EQ(PercentText(0.004), "0.4 %");
  EXPECT_EQ(PercentText(3.1), "310 %");
  EXPECT_EQ(PercentText(0.9999), "99.99 %");
  EXPECT_EQ(PercentText(0.999999), "99.99 %");
  EXPECT_EQ(PercentText(1), "100 %");
  EXPECT_EQ(PercentText(1e-9), "less than 0.0001 %");
  EXPECT_EQ(PercentText(1.2e6), "1200000 times the value");
  EXPECT_EQ(PercentText(1.234e12), "1.2e+12 times the value");
  EXPECT_EQ(PercentText(std::numeric_limits<double>::infinity()), "inf times the value");
  EXPECT_EQ(PercentText(std::nan("")), "an unknown share");
}

TEST(ShadowTextTest, LinesAreJoined) {
  EXPECT_EQ(LinesText({}, "a.py:1").English(), "");
  EXPECT_EQ(LinesText({"a.py:1"}, "a.py:9").English(), "line 1");
  EXPECT_EQ(LinesText({"a.py:3", "a.py:2", "a.py:2", "a.py:7"}, "a.py:9").English(),
            "lines 2–3, 7");
  EXPECT_EQ(LinesText({"b.py:3"}, "a.py:9").English(), "b.py:3");
  EXPECT_EQ(LinesText({"nonsense", "a.py:x", "a.py:", ":", ""}, "a.py:9").English(), "");
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back("a.py:" + std::to_string(2 * i));
  EXPECT_EQ(LinesText(many, "a.py:9").English(), "lines 0, 2, 4, 6, 8, 10 and 34 more");
}

TEST(ShadowTextTest, OperatorsHaveWords) {
  EXPECT_EQ(OperatorWord("aten.sub.Tensor"), "subtraction");
  EXPECT_EQ(OperatorWord("aten._foreach_add_.List"), "addition");
  EXPECT_EQ(OperatorWord("aten._softmax.default"), "softmax");
  EXPECT_EQ(OperatorWord("aten.addmm"), "matrix product");
  EXPECT_EQ(OperatorWord("aten.some_new_op.out"), "aten.some_new_op");
  EXPECT_EQ(OperatorWord(""), "an operator");
}

TEST(ShadowTextTest, FaultsOfProtocolAreSentencesOfTheirOwn) {
  ShadowFinding f;
  f.kind = FindingKind::kNoGradient;
  f.severity = Severity::kWarning;
  f.phase = Phase::kForward;
  f.op = "aten.argmax";
  f.source = "model.py:7";
  f.proof = Proof::kExcluded;
  f.relation.parameters = {"gate.weight", "gate.bias"};
  f.relation.count = 2;
  f.relation.steps = 3;
  f.relation.none = true;
  EXPECT_EQ(
      Told(f, ""),
      "The aten.argmax at model.py:7 cuts off the gradient: 2 parameters (gate.weight, "
      "gate.bias), which the loss depends on and the optimizer holds, got no gradient, in all "
      "3 steps that were looked at.");
  f.phase = Phase::kBackward;
  f.op = "aten.round";
  f.relation.none = false;
  f.relation.count = 9;
  EXPECT_EQ(
      Told(f, ""),
      "The aten.round at model.py:7 passes back a gradient that is 0 everywhere: 9 parameters "
      "(gate.weight, gate.bias and 7 more), which the loss depends on and the optimizer "
      "holds, got a gradient of exactly 0, in all 3 steps that were looked at.");
  f.kind = FindingKind::kNotUpdated;
  f.source.clear();
  f.relation.parameters = {"gate.bias"};
  f.relation.count = 1;
  EXPECT_EQ(Told(f, ""),
            "The gradient of the parameter gate.bias is not 0, but no optimizer holds it and it "
            "does not change, in all 3 steps that were looked at.");
  f.relation.stranded = 2;
  EXPECT_EQ(FindingText(f, ""),
            "The gradient of the parameter gate.bias is not 0, but no optimizer holds it and it "
            "does not change, in all 3 steps that were looked at. The optimizer holds 2 parameters "
            "of no module without a gradient: a module was replaced after the optimizer was given "
            "its parameters.");
  f.kind = FindingKind::kNotZeroed;
  f.source = "train.py:9";
  EXPECT_EQ(Told(f, ""),
            "The gradients that the optimizer gets still contain those of its step before, in all "
            "3 steps that were looked at: backward() at train.py:9 adds to them. zero_grad() is "
            "missing, or comes where it does not reach these parameters.");
  f.relation.at = "train.py:19";
  f.relation.share = 0.4;
  EXPECT_EQ(
      Told(f, ""),
      "The gradients that the optimizer gets still contain those that backward() at train.py:19 "
      "left for another optimizer's step (40 % of their norm): backward() at train.py:9 adds to "
      "them, in all 3 steps that were looked at. zero_grad() of this optimizer is missing "
      "between the two.");
  f.kind = FindingKind::kLoadUndone;
  f.relation.times = 57.3;
  EXPECT_EQ(Told(f, ""),
            "The first optimizer step at train.py:9 after weights were loaded at train.py:19 moves "
            "weights (such as gate.bias) 57 times as far as the run's usual step, back to their "
            "values of before: the optimizer writes values of its own, as FP32 master copies, over "
            "those that were loaded.");
  f.kind = FindingKind::kPartialCopy;
  EXPECT_EQ(
      Told(f, ""),
      "A copy of the network follows its weights, but not its buffers (such as gate.bias): they "
      "are used at train.py:9 as they were at first, while the network's have moved by 40 % of "
      "their norm, in all 3 steps that were looked at.");
  f.kind = FindingKind::kDroppedGradient;
  const std::string at = std::exchange(f.relation.at, "");
  f.relation.passes = 8;
  f.relation.count = 7;
  EXPECT_EQ(
      Told(f, ""),
      "Gradients are set to zero before the optimizer has used them: of the 8 backward passes at "
      "train.py:9 between two of its steps, 7 have no part in what it gets; only the last one "
      "counts, in all 3 steps that were looked at.");
  f.relation.at = "loop.py:30";
  EXPECT_EQ(
      Told(f, ""),
      "Gradients are set to zero at train.py:9 before the optimizer has used them: of the 8 "
      "backward passes at loop.py:30 between two of its steps, 7 have no part in what it gets; "
      "only the last one counts, in all 3 steps that were looked at.");
  f.relation.at = at;
  f.kind = FindingKind::kEmptyStep;
  f.relation.until = 44;
  EXPECT_EQ(
      Told(f, ""),
      "The optimizer steps at train.py:9, and none of its parameters has a gradient, although "
      "backward() runs: the loss comes from other weights than those that the optimizer holds. "
      "Up to step 44 they had gradients.");
  f.kind = FindingKind::kMovedWeights;
  f.relation.count = 11;
  f.relation.loss_before = 0.125;
  f.relation.loss_after = 0.5;
  f.since = 10;
  EXPECT_EQ(
      Told(f, ""),
      "Something other than the optimizer moves the weights between two of its steps, 11 times "
      "so far, first before step 10, 57 times as far as a usual step, and the loss rises each "
      "time, from 0.125 to 0.5 in the median.");
  f.since.reset();
  f.dtype = "float16";
  f.relation.at = "train.py:30";
  f.relation.what = "exp_avg_sq";
  f.relation.share = 0.999;
  f.kind = FindingKind::kStateNarrowed;
  const std::string narrowed = Told(f, "");
  for (const char* part : {"The state exp_avg_sq of 11 parameters", "at train.py:9", "FP16",
                           "it was loaded at train.py:30", "100 % of these elements are 0"}) {
    EXPECT_NE(narrowed.find(part), std::string::npos) << part << " in " << narrowed;
  }
  f.dtype = "bfloat16";
  f.kind = FindingKind::kRecast;
  EXPECT_EQ(Told(f, ""),
            "Weights (such as gate.bias) were rounded to BF16 at train.py:9 between two steps of "
            "the optimizer, 11 times so far, and the training goes on with the rounded values.");
  f.kind = FindingKind::kNonfiniteKept;
  EXPECT_EQ(Told(f, ""),
            "A step was skipped because its gradients are not finite, and they were still in .grad "
            "(such as gate.bias) when the next backward pass began at train.py:9, 11 times so far: "
            "what it computes is added to them, so no later step can be finite.");
  f.kind = FindingKind::kStandsStill;
  f.relation.what = "An average of the weights";
  EXPECT_EQ(Told(f, ""),
            "An average of the weights in BF16 at train.py:9 is written 11 times and keeps its "
            "values, while what it follows has moved away from it: each change is smaller than "
            "half a step of the format.");
  f.relation.what = "A metric by which ReduceLROnPlateau decides";
  EXPECT_EQ(Told(f, ""),
            "ReduceLROnPlateau lowers the learning rate by a metric in BF16 at train.py:9, as if "
            "nothing got better; in FP64 it did at 11 of the steps looked at, by less than a step "
            "of the format.");
  f.dtype = "float32";
  f.relation.what = "An average of the weights";
  f.proof = Proof::kNotTested;
  EXPECT_NE(Told(f, "").find("nothing of them is added to it"), std::string::npos);
  f.proof = Proof::kExcluded;
  EXPECT_NE(Told(f, "").find("not those that are trained"), std::string::npos);
  f.dtype = "bfloat16";
  f.proof = Proof::kProven;
  f.relation.what = "buffers";
  f.kind = FindingKind::kRecast;
  EXPECT_EQ(Told(f, ""),
            "Buffers (such as gate.bias) were rounded to BF16 at train.py:9 by a cast of their "
            "module and are in FP32 again: the training goes on with the rounded values.");
  f.kind = FindingKind::kSavedOtherwise;
  f.relation.what = "exp_avg_sq";
  EXPECT_EQ(Told(f, ""),
            "The file that is saved has exp_avg_sq in BF16 at train.py:9, which is held in more "
            "bits: 100 % of the elements become 0 or infinite there and are neither here.");
  f.dtype.clear();
  f.relation.what = "the weights of before the first step";
  EXPECT_EQ(Told(f, ""),
            "The file that is saved at train.py:9 holds the weights of before the first step "
            "beside the optimizer's state of now: a training that goes on from it does not go on "
            "where this one stands.");
  f.dtype = "bfloat16";
  f.kind = FindingKind::kStateOfAnother;
  f.relation.what = "c.weight";
  EXPECT_NE(Told(f, "").find("was loaded at train.py:9 belongs to other parameters"),
            std::string::npos);
  f.kind = FindingKind::kStateNarrowed;
  f.relation.given = "float32";
  EXPECT_NE(Told(f, "").find("the load at train.py:9 made BF16 of it"), std::string::npos);
  f.kind = FindingKind::kNotRestored;
  f.relation.what = "GradScaler: the loss scale was 8 and is 65536";
  EXPECT_EQ(Told(f, ""),
            "The file that was written at train.py:9 and loaded at train.py:30 does not hold all "
            "that the training went on with. GradScaler: the loss scale was 8 and is 65536. The "
            "loss was 0.125 before and is 0.5 after it, in the median.");
  f.relation = {};
  f.relation.parameters = {"0.weight"};
  f.relation.count = 1;
  f.relation.what = "0.weight stands in what was loaded as module.0.weight";
  EXPECT_EQ(Told(f, ""),
            "A load at train.py:9 left the parameter 0.weight as before: what was loaded has other "
            "names. 0.weight stands in what was loaded as module.0.weight.");
  f.relation = {};  // as of a damaged file
  EXPECT_FALSE(Told(f, "").empty());
  f.kind = FindingKind::kMovedOnSkip;
  EXPECT_FALSE(Told(f, "").empty());
  f.kind = FindingKind::kScaleDependent;
  f.relation = {};
  f.relation.parameters = {"a.weight"};
  f.relation.count = 1;
  f.relation.power = -1.0;
  f.relation.scale = 65536;
  f.relation.entered = "train.py:48";
  f.relation.left = {"train.py:50", "train.py:52"};
  EXPECT_EQ(Told(f, ""),
            "The gradients that the optimizer gets depend on the loss scale (65536 here): they are "
            "divided by it, in the parameter a.weight. It is taken out of the gradients more than "
            "once, at train.py:50 and train.py:52.");
  f.relation.left = {"train.py:52"};
  EXPECT_NE(Told(f, "").find("divided by it at train.py:52, and the loss that backward() "
                             "started from was not multiplied by it."),
            std::string::npos);
  f.relation.power = 1.0;
  f.relation.left.clear();
  EXPECT_NE(Told(f, "").find("The loss is multiplied by it at train.py:48, and the gradients "
                             "are not divided by it."),
            std::string::npos);
  ShadowFinding mixed = f;  // told by the calls, of one loss beside others
  mixed.source = "train.py:51";
  mixed.relation = {};
  mixed.relation.scale = 1024;
  mixed.relation.power = -1.0;
  mixed.relation.at = "train.py:48";
  EXPECT_EQ(Told(mixed, ""),
            "backward() at train.py:51 derives a loss that was not multiplied by the loss scale "
            "(1024 here), unlike the one at train.py:48: scaler.step() divides its gradients by "
            "the scale all the same, and next to nothing is left of them.");
  mixed.relation.power = 1.0;
  mixed.relation.at = "train.py:51";
  EXPECT_EQ(Told(mixed, ""),
            "backward() at train.py:51 derives a loss that was multiplied by the loss scale (1024 "
            "here) more often than another part of the same loss: scaler.step() divides by it "
            "once, so what is left drowns the rest.");
  f.relation.power = -0.5;
  f.op = "aten.add_.Tensor";
  f.source = "train.py:51";
  EXPECT_NE(Told(f, "").find("twice the scale multiplies them by 0.707107, in the "
                             "parameter a.weight. The addition at train.py:51 brings"),
            std::string::npos)
      << Told(f, "");
}

TEST(ShadowTextTest, LongTextsAreCut) {
  ShadowFinding f = Cancellation();
  f.source = std::string(300, '/') + "deep/er/train.py:40";
  f.op = std::string(500, 'x');
  f.dtype = std::string(500, 'y');
  f.cure->lines = std::vector<std::string>(30, std::string(290, 'z') + ":4");
  for (int i = 0; i < 30; ++i) f.reach.push_back({"state", std::string(290, 'w'), 1.0});
  const std::string text = Told(f, std::string(3000, 'm'));
  EXPECT_LT(text.size(), 1800u) << text;
  EXPECT_NE(text.find("er/train.py:40"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny::runs
