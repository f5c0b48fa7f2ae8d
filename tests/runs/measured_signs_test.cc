// What kind of mistake a finding shows, by what went in.
#include "engines/diagnosis/causes/measured_signs.h"

#include <gtest/gtest.h>

namespace mpnanny::diagnosis {
namespace {

using Signs = std::vector<std::string_view>;

runs::ShadowFinding Finding(const std::string& kind, const std::string& op,
                            std::vector<runs::ShadowOperand> operands = {}) {
  runs::ShadowFinding finding;
  finding.kind = Word<FindingKind>(kind);
  finding.op = op;
  finding.phase = Phase::kForward;
  finding.dtype = "float16";
  finding.operands = std::move(operands);
  return finding;
}

cases::Case WithSigns(std::initializer_list<const char*> names) {
  cases::Case entry;
  for (const char* name : names) {
    cases::Signal signal;
    signal.kind = cases::Signal::Kind::kSign;
    signal.name = name;
    entry.signals.push_back(signal);
  }
  return entry;
}

TEST(MeasuredSigns, AreOfTheOperatorAndOfWhatWentIn) {
  EXPECT_EQ(SignsOf(Finding("range", "aten.rsqrt.default", {{0, 1e-9}})),
            Signs{"half-zero-division"});
  EXPECT_EQ(SignsOf(Finding("range", "aten.exp.default", {{91.5, 91.5}})), Signs{"exp-overflow"});
  EXPECT_EQ(SignsOf(Finding("undefined", "aten.log.default", {{0, 0}})),
            (Signs{"log-of-zero", "domain-error"}));
  EXPECT_EQ(SignsOf(Finding("amplified", "aten.sub.Tensor")), Signs{});
}

TEST(MeasuredSigns, OnlyProductsAndDivisionsOfABackwardPassAreRootsAndLogarithms) {
  auto finding = Finding("range", "aten.exp.default", {{91.5, 91.5}});
  finding.phase = Phase::kBackward;
  EXPECT_EQ(SignsOf(finding), Signs{"exp-overflow"});
  finding.op = "aten.mul.Tensor";
  EXPECT_EQ(SignsOf(finding), (Signs{"square-overflow", "root-gradient-at-zero", "log-of-zero"}));
}

TEST(MeasuredSigns, WhatWasBadBeforeShowsNoMistakeOfItsOperator) {
  auto finding = Finding("undefined", "aten.div.Tensor");
  EXPECT_FALSE(SignsOf(finding).empty());
  finding.was_bad_before = true;
  EXPECT_TRUE(SignsOf(finding).empty());
}

TEST(MeasuredSigns, ACaseOfAnotherOperatorIsNotWhatWasMeasured) {
  const auto root = Finding("range", "aten.rsqrt.default", {{0, 1e-9}});
  EXPECT_TRUE(IsOfAnotherOperator(WithSigns({"sum-overflow", "square-overflow"}), root));
  EXPECT_FALSE(IsOfAnotherOperator(WithSigns({"half-zero-division"}), root));
  EXPECT_FALSE(IsOfAnotherOperator(WithSigns({"no-scaler"}), root)) << "of no operator at all";
  EXPECT_FALSE(
      IsOfAnotherOperator(WithSigns({"sum-overflow"}), Finding("amplified", "aten.sub.Tensor")))
      << "nothing is known";
}

TEST(MeasuredSigns, AConstantIsNoOperatorsMistake) {
  EXPECT_TRUE(IsNoOperatorsMistake(Finding("undefined", "aten.full.default")));
  EXPECT_TRUE(IsNoOperatorsMistake(Finding("undefined", "aten.masked_scatter.default")));
  EXPECT_FALSE(IsNoOperatorsMistake(Finding("undefined", "aten.log.default")));
  EXPECT_TRUE(
      IsOfAnotherOperator(WithSigns({"domain-error"}), Finding("undefined", "aten.full.default")));
}

}  // namespace
}  // namespace mpnanny::diagnosis
