// What comes first among the causes, and what may not be surer than it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "tests/runs/causes_facts.h"
#include "tests/runs/made_cases.h"

namespace mpnanny::diagnosis {
namespace {

using test::LibraryOf;

// A case that a detector is surer of than any measurement is.
cases::CaseLibrary SureCase() {
  return LibraryOf({{.id = "made", .signals = {{"sign: diverged", 9}}}});
}

bool MeasuredFirst(const Facts& facts) {
  const auto causes = FindCauses(facts, {Sure("diverged")}, SureCase());
  EXPECT_EQ(causes.size(), 2u);
  return causes[0].mechanism.has_value();
}

TEST(Causes, AStrongMeasurementStaysBeforeSureCases) {
  const struct {
    const char *severity, *precision;
    double confidence;
    bool first;
  } kTable[] = {{"ERROR", "proven", 0.9, true},
                {"WARNING", "excluded", 0.75, true},
                {"ERROR", "not_tested", 0.6, false},
                {"WARNING", "not_tested", 0.45, false}};
  for (const auto& each : kTable) {
    runs::ShadowFinding finding = FaultOf("amplified", 3);
    finding.severity = Word<Severity>(each.severity);
    finding.proof = Word<Proof>(each.precision);
    const Facts facts = WithFindings({finding});
    ASSERT_DOUBLE_EQ(MeasuredConfidence(facts.measured, facts.measured.mechanisms[0]),
                     each.confidence);
    EXPECT_EQ(MeasuredFirst(facts), each.first) << each.confidence;
  }
}

TEST(Causes, WhatExplainsTheFirstBadValueStaysFirstHoweverSure) {
  // A sign of its own that the case lacks keeps it from naming the measurement.
  const auto library =
      LibraryOf({{.id = "made", .signals = {{"log: a", 9}, {"sign: diverged", 3}}}});
  runs::ShadowFinding finding = FaultOf("range", 10);
  finding.severity = Severity::kWarning;
  const auto first = [&](const Facts& facts) {
    const auto causes = FindCauses(facts, {}, library);
    EXPECT_EQ(causes.size(), 2u);
    return causes[0].mechanism.has_value();
  };
  const auto facts_of = [&](int64_t onset) {
    Facts facts = WithFindings({finding});
    Breaks(facts, onset);
    facts.log_hits.emplace_back().signal = "log: a";
    facts.log_hits[0].weight = 3;
    return facts;
  };
  EXPECT_TRUE(first(facts_of(10)));
  EXPECT_FALSE(first(facts_of(5))) << "it came later";
  // Where what came in has no name, who carries it explains nothing yet.
  finding.was_bad_before = true;
  EXPECT_FALSE(first(facts_of(10)));
  finding.carrier.whose = "exp_avg of AdamW";
  EXPECT_TRUE(first(facts_of(10)));
  finding.carrier.whose.clear();
  finding.carrier.at = "train.py:3";
  EXPECT_TRUE(first(facts_of(10)));
  // Nor what came after the loss had left its level.
  finding = FaultOf("range", 10);
  finding.dtype = "float32";
  Facts after = facts_of(10);
  EXPECT_TRUE(first(after));
  after.course.loss_low = 0.1;
  after.course.loss_greatest = 10;
  after.course.finite_losses = 40;
  after.course.loss_rise_from = 5;
  EXPECT_FALSE(first(after));
}

// What the loop did no comparison with FP64 shows: such a case may come before a measurement.
TEST(Causes, OnlyTheBestCaseOfTheLoopComesBeforeAMeasurement) {
  runs::ShadowFinding finding = FaultOf("amplified", 10);
  finding.proof = Proof::kProven;
  const Facts facts = WithFindings({finding});
  const auto library = LibraryOf({{.id = "loop", .signals = {{"sign: lr-jump", 9}}},
                                  {.id = "other", .signals = {{"sign: diverged", 7}}}});
  Claim loop = Sure("lr-jump"), other = Sure("diverged");
  loop.in_loop = true;
  EXPECT_EQ(FindCauses(facts, {loop, other}, library)[0].cause, library.Find("loop"));
  loop.in_loop = false;
  EXPECT_EQ(FindCauses(facts, {loop, other}, library)[0].mechanism, 0u);
  other.in_loop = true;
  EXPECT_EQ(FindCauses(facts, {loop, other}, library)[0].mechanism, 0u) << "it is the second";
  other.in_loop = false;
  loop.in_loop = true;
  loop.strength = 0.8;
  EXPECT_EQ(FindCauses(facts, {loop}, library)[0].mechanism, 0u) << "the detector is not sure";
  EXPECT_EQ(FindCauses(facts, {}, library)[0].mechanism, 0u);
}

TEST(Causes, TheRestIsInOrderOfSureness) {
  runs::ShadowFinding weak = FaultOf("range", 10), strong = FaultOf("amplified", 3);
  weak.severity = Severity::kWarning;
  strong.proof = Proof::kProven;
  Facts facts = WithFindings({weak, strong});
  Breaks(facts, 10, "forward", Onset::Place::kProducer);
  // Their own signs are missing, so that neither names the measurement.
  const auto library = LibraryOf({{.id = "a", .signals = {{"log: a", 1}, {"sign: diverged", 3}}},
                                  {.id = "b", .signals = {{"log: b", 9}, {"sign: diverged", 3}}}});
  facts.log_hits.emplace_back().signal = "log: a";
  facts.log_hits.emplace_back().signal = "log: b";
  const auto causes = FindCauses(facts, {}, library);
  ASSERT_EQ(causes.size(), 4u);
  EXPECT_EQ(causes[0].mechanism, 0u) << "it explains the first bad value";
  EXPECT_DOUBLE_EQ(causes[0].confidence, 0.45);
  EXPECT_EQ(causes[1].mechanism, 1u) << "measured as well";
  EXPECT_EQ(causes[2].cause, library.Find("b")) << "recognised only";
  EXPECT_EQ(causes[3].cause, library.Find("a"));
  EXPECT_DOUBLE_EQ(causes[1].confidence, 0.45) << "no surer than what stands before it";
  EXPECT_DOUBLE_EQ(causes[2].confidence, 0.45);
  EXPECT_LT(causes[3].confidence, 0.45);
}

// A mistake that is no consequence: before the leading one, of another kind, or of a run that
// nothing broke.
TEST(Causes, OnlyWhatFollowsTheFirstBadValueIsLeftOut) {
  const struct {
    const char* kind;
    int64_t step;
    bool told;
  } kTable[] = {{"range", 10, false},    {"undefined", 11, false}, {"diverged", 12, false},
                {"range", 9, true},      {"amplified", 12, true},  {"flushed", 10, true},
                {"not_zeroed", 12, true}};
  for (const auto& each : kTable) {
    Facts facts = WithFindings({FaultOf("range", 10), FaultOf(each.kind, each.step)});
    EXPECT_EQ(FindCauses(facts, {}, LibraryOf({})).size(), 2u) << each.kind;
    Breaks(facts, 10);
    const auto causes = FindCauses(facts, {}, LibraryOf({}));
    EXPECT_EQ(causes.size(), each.told ? 2u : 1u) << each.kind << " " << each.step;
    EXPECT_EQ(causes[0].mechanism, 0u);
  }
}

TEST(Causes, WhatCameNearItsLimitStandsBesideWhatExplainsNothing) {
  runs::ShadowFinding near = FaultOf("near_limit", 9), bad = near, later = near;
  bad.was_bad_before = true;
  later.step = 10;
  near.source = "model.py:40";
  near.magnitude = 6e4;
  Facts facts = WithFindings({FaultOf("amplified", 3)});
  facts.measured.near_limit = {{bad, ""}, {later, ""}, {near, ""}, {FaultOf("near_limit", 9), ""}};
  EXPECT_EQ(FindCauses(facts, {}, LibraryOf({})).size(), 1u) << "nothing broke";
  Breaks(facts, 10);
  const auto causes = FindCauses(facts, {}, LibraryOf({}));
  ASSERT_EQ(causes.size(), 2u) << "one of them, the first that can be it";
  const Hypothesis& added = causes[0].mechanism ? causes[1] : causes[0];
  EXPECT_EQ(added.lines, std::vector<std::string>{"model.py:40"});
}

// A fault with a name of its own is told of once: by its case where there is one.
TEST(Causes, AFaultIsDocumentedOnlyByAnEstablishedCaseOfItsOwnSign) {
  Claim claim = Sure("lr-jump");
  claim.title = "The rate jumped";
  const auto own = [&](const std::vector<Claim>& claims,
                       std::vector<std::pair<std::string, double>> signals) {
    const auto library = LibraryOf({{.id = "made", .signals = std::move(signals)}});
    Facts facts = Logged("log: lr-jump");
    const auto causes = FindCauses(facts, claims, library);
    EXPECT_NE(NamedIn(causes, "made"), nullptr);
    return std::count_if(causes.begin(), causes.end(),
                         [](const Hypothesis& each) { return each.cause == nullptr; });
  };
  EXPECT_EQ(own({claim}, {{"sign: lr-jump", 3}}), 0);
  EXPECT_EQ(own({claim}, {{"log: lr-jump", 3}}), 1) << "a line is no sign";
  EXPECT_EQ(own({claim, Sure("diverged")}, {{"sign: diverged", 3}}), 1) << "another sign";
  EXPECT_EQ(own({claim, Sure("diverged")}, {{"sign: diverged", 3}, {"sign: lr-jump", 2.9}}), 1);
  EXPECT_EQ(own({claim, Sure("diverged")}, {{"sign: diverged", 3}, {"sign: lr-jump", 3}}), 0);
  claim.strength = 0.8;
  EXPECT_EQ(own({claim}, {{"sign: lr-jump", 3}}), 1) << "the case is not established";
}

}  // namespace
}  // namespace mpnanny::diagnosis
