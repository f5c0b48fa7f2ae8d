// Which documented case names what was measured, and what it brings along.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/causes/measured_fix.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "tests/runs/causes_facts.h"
#include "tests/runs/made_cases.h"

namespace mpnanny::diagnosis {
namespace {

using test::LibraryOf;
using test::MadeCase;

// Whether the case "made" names the first finding, where its log line is all but proof of it.
bool Names(Facts facts, const std::vector<Claim>& claims, MadeCase made) {
  made.signals.emplace_back("log: a", 3);
  facts.log_hits.emplace_back().signal = "log: a";
  const auto library = LibraryOf({made});
  const auto causes = FindCauses(facts, claims, library);
  const Hypothesis* found = NamedIn(causes, "made");
  EXPECT_NE(found, nullptr) << "it is left out";
  return found && found->mechanism == std::optional<size_t>(0);
}

Facts BrokenBy(const runs::ShadowFinding& finding) {
  Facts facts = WithFindings({finding});
  Breaks(facts, 10);
  return facts;
}

// What came in bad is nobody's mistake in the step: a case about it is one of data or checkpoints.
TEST(Causes, WhatCameInBadIsNamedByCasesOfDataAndCheckpoints) {
  runs::ShadowFinding came_in = FaultOf("undefined", 10);
  came_in.was_bad_before = true;
  runs::ShadowFinding constant = FaultOf("undefined", 10), moved = constant, made = constant;
  constant.op = "aten.full.default";
  moved.op = "aten.where.self";
  runs::ShadowFinding left_range = FaultOf("range", 10);
  left_range.was_bad_before = true;
  const struct {
    const char* what;
    const runs::ShadowFinding& finding;
    bool any_case;
  } kFindings[] = {{"came in", came_in, false},
                   {"a constant", constant, false},
                   {"moved", moved, false},
                   {"made there", made, true},
                   {"a product that left its range", left_range, true}};
  for (const auto& each : kFindings) {
    const Facts facts = BrokenBy(each.finding);
    const auto named = [&](std::vector<std::string> parts) {
      return Names(facts, {}, {.id = "made", .signals = {}, .components = std::move(parts)});
    };
    EXPECT_TRUE(named({"data"})) << each.what;
    EXPECT_TRUE(named({"checkpoint"})) << each.what;
    EXPECT_TRUE(named({"loss", "data"})) << each.what;
    EXPECT_EQ(named({"loss"}), each.any_case) << each.what;
    EXPECT_EQ(named({}), each.any_case) << each.what;
  }
}

// A case that is known by what a detector would have been sure of is not it without that.
TEST(Causes, ACaseThatLacksAllItsOwnSignsNamesNothing) {
  const struct {
    const char* what;
    std::vector<std::pair<std::string, double>> signals;
    std::vector<std::string> seen;
    bool named;
  } kTable[] = {
      {"it has none", {}, {}, true},
      {"its one sign", {{"sign: diverged", 3}}, {"diverged"}, true},
      {"not its one sign", {{"sign: diverged", 3}}, {}, false},
      {"a sign that others have too", {{"sign: diverged", 2.9}}, {}, true},
      {"the first of two", {{"sign: diverged", 3}, {"sign: lr-jump", 3}}, {"diverged"}, true},
      {"the other", {{"sign: diverged", 3}, {"sign: lr-jump", 3}}, {"lr-jump"}, true},
      {"neither", {{"sign: diverged", 3}, {"sign: lr-jump", 4}}, {}, false},
      {"the weak one alone", {{"sign: diverged", 1}, {"sign: lr-jump", 3}}, {"diverged"}, false},
      {"a line that is not in the log", {{"log: of another kind", 3}}, {}, true}};
  for (const auto& each : kTable) {
    std::vector<Claim> claims;
    for (const std::string& id : each.seen) claims.push_back(Sure(id));
    EXPECT_EQ(
        Names(BrokenBy(FaultOf("range", 10)), claims, {.id = "made", .signals = each.signals}),
        each.named)
        << each.what;
  }
}

// Of a case that fits by its kind of operator alone, an alert that it is told from others by may
// not be missing.
TEST(Causes, ACaseOfTheSameOperatorShowsMoreOrLacksNothing) {
  runs::ShadowFinding product = FaultOf("range", 10);
  product.op = "aten.bmm.default";
  const struct {
    const char* what;
    std::vector<std::pair<std::string, double>> others;
    std::vector<std::string> seen;
    bool named;
  } kTable[] = {
      {"nothing else", {}, {}, true},
      {"its alert is missing", {{"alert:UNDERFLOW", 2}}, {}, false},
      {"an alert that many have is", {{"alert:UNDERFLOW", 1.9}}, {}, true},
      {"a line is, which not every program prints", {{"log: b", 2}}, {}, true},
      {"a sign is", {{"sign: diverged", 2}}, {}, true},
      {"another sign is seen", {{"sign: diverged", 1}, {"alert:UNDERFLOW", 2}}, {"diverged"}, true},
      {"a sign of other operators is missing",
       {{"sign: exp-overflow", 1}, {"alert:UNDERFLOW", 2}},
       {},
       false}};
  for (const auto& each : kTable) {
    MadeCase made{.id = "made", .signals = {{"sign: matmul-overflow", 4}}};
    made.signals.insert(made.signals.end(), each.others.begin(), each.others.end());
    std::vector<Claim> claims = {Sure("matmul-overflow")};
    for (const std::string& id : each.seen) claims.push_back(Sure(id));
    const auto library = LibraryOf({made});
    const auto causes = FindCauses(BrokenBy(product), claims, library);
    EXPECT_EQ(causes.size(), each.named ? 1u : 2u) << each.what;
    EXPECT_EQ(causes[0].cause != nullptr, each.named) << each.what;
  }
}

// Both are seen in a run of BF16 weights; the one is not what the other comes of.
TEST(Causes, UpdatesThatChangeNothingNameNothingThatIsNotFinite) {
  for (const bool stale : {true, false}) {
    MadeCase made{.id = "made", .signals = {{"sign: frozen-updates", 4}}};
    if (stale) made.category = "stale-update";
    const auto library = LibraryOf({made});
    const auto causes = FindCauses(BrokenBy(FaultOf("range", 10)), {Sure("frozen-updates")}, library);
    EXPECT_EQ(causes[0].cause != nullptr, !stale);
  }
}

// Where the detector that is sure of the case found it in the same part of the step, it is the
// same.
TEST(Causes, ASignInTheSamePartOfTheStepNamesTheMeasurement) {
  const auto named = [](const std::string& phase, double strength,
                        const std::vector<std::pair<std::string, double>>& signals) {
    Claim claim = Sure("diverged");
    claim.strength = strength;
    if (!phase.empty()) claim.place.emplace().phase = Word<Phase>(phase);
    const auto library = LibraryOf({{.id = "made", .signals = signals}});
    const auto causes =
        FindCauses(WithFindings({FaultOf("amplified", 3)}), {claim, Sure("lr-jump")}, library);
    EXPECT_NE(NamedIn(causes, "made"), nullptr);
    return causes.size() == 1;
  };
  EXPECT_TRUE(named("forward", 1, {{"sign: diverged", 3}}));
  EXPECT_FALSE(named("backward", 1, {{"sign: diverged", 3}}));
  EXPECT_FALSE(named("", 1, {{"sign: diverged", 3}})) << "it has no place";
  EXPECT_FALSE(named("forward", 0.8, {{"sign: diverged", 3}})) << "not sure enough";
  EXPECT_FALSE(named("forward", 1, {{"sign: diverged", 2.9}})) << "others have the sign too";
  EXPECT_TRUE(named("forward", 1, {{"sign: lr-jump", 3}, {"sign: diverged", 1}}));
  EXPECT_TRUE(named("forward", 1, {{"sign: diverged", 1}, {"sign: lr-jump", 3}}));
  EXPECT_FALSE(named("forward", 1, {{"sign: lr-jump", 3}}));
  EXPECT_FALSE(named("forward", 1, {{"sign: lr-jump", 3}, {"log: diverged", 1}}));
  EXPECT_FALSE(named("forward", 1, {{"sign: lr-jump", 3}, {"sign: zero-learning-rate", 1}}));
}

// What came of a fault is not sure to be one: the case that the record proves stands by itself
// then.
TEST(Causes, ACaseThatTheRecordProvesNamesNoMeasurementThatIsUnsure) {
  for (const bool lost_before : {false, true}) {
    Claim claim = Sure("diverged");
    claim.place.emplace().phase = Phase::kForward;
    runs::ShadowFinding lead = FaultOf("lost_change", 3);
    lead.lost_before = lost_before;
    const auto library = LibraryOf({{.id = "made", .signals = {{"sign: diverged", 9}}}});
    const auto causes = FindCauses(WithFindings({lead}), {claim}, library);
    EXPECT_EQ(causes.size(), lost_before ? 2u : 1u);
    EXPECT_EQ(NamedIn(causes, "made"), &causes[0]);
    EXPECT_EQ(causes[0].mechanism.has_value(), !lost_before);
  }
}

TEST(Causes, WhatSaysTheSameAsTheMeasurementMustHaveBeenSeen) {
  const auto named = [](const std::string& kind, const std::string& signal, bool raised) {
    Facts facts = WithFindings({FaultOf(kind, 3)});
    if (raised) facts.alerts = {Raised(signal.substr(signal.find(':') + 1))};
    if (kind == "clipped") Breaks(facts, 10);  // an OVERFLOW without a first bad value is none
    return Names(facts, {}, {.id = "made", .signals = {{signal, 1}}});
  };
  EXPECT_TRUE(named("flushed", "alert:UNDERFLOW", true));
  EXPECT_FALSE(named("flushed", "alert:UNDERFLOW", false));
  EXPECT_TRUE(named("clipped", "alert:OVERFLOW", true));
  EXPECT_FALSE(named("clipped", "alert:OVERFLOW", false));
  // A line of that name is not the alert.
  Facts facts = WithFindings({FaultOf("flushed", 3)});
  facts.log_hits.emplace_back().signal = "log: UNDERFLOW";
  EXPECT_FALSE(Names(facts, {}, {.id = "made", .signals = {{"log: UNDERFLOW", 1}}}));
}

// Title, fix and sureness stay those of the measurement; what speaks for and against the case is
// the case's.
TEST(Causes, TheCaseBringsWhatSpeaksForAndAgainstIt) {
  Facts facts = BrokenBy(FaultOf("range", 10));
  const Mechanism& mechanism = facts.measured.mechanisms[0];
  const auto alone = FindCauses(facts, {}, LibraryOf({}));
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].title.English(), MeasuredTitle(facts.measured, mechanism).English());
  EXPECT_EQ(alone[0].fix.English(), MeasuredFix(facts.measured, mechanism).English());
  const auto measured = MeasuredEvidence(facts.measured, mechanism);
  EXPECT_EQ(alone[0].evidence, measured);
  EXPECT_TRUE(alone[0].against.empty());

  const auto library = LibraryOf(
      {{.id = "made",
        .signals = {{"sign: diverged", 3}, {"alert:UNDERFLOW", 2}, {"sign: lr-jump", 1}}}});
  Claim other = Sure("outlier-batch");
  other.opposes = {"category:nan-inf"};
  other.measured = true;
  other.strength = 0.1;
  const auto causes = FindCauses(facts, {Sure("diverged"), other}, library);
  ASSERT_EQ(causes.size(), 1u) << "it is told of once";
  const Hypothesis& joined = causes[0];
  EXPECT_EQ(joined.cause, library.Find("made"));
  EXPECT_EQ(joined.mechanism, 0u);
  EXPECT_EQ(joined.title, alone[0].title);
  EXPECT_EQ(joined.fix, alone[0].fix);
  EXPECT_DOUBLE_EQ(joined.confidence, alone[0].confidence);
  ASSERT_EQ(joined.evidence.size(), measured.size() + 2);
  EXPECT_EQ(joined.evidence.front().English(), "A documented case: Title of made.");
  EXPECT_TRUE(std::equal(measured.begin(), measured.end(), joined.evidence.begin() + 1));
  EXPECT_EQ(joined.evidence.back().English(), "Seen: diverged.");
  ASSERT_EQ(joined.against.size(), 2u);
  EXPECT_EQ(joined.against[0].English(), "Seen: outlier-batch.");
  EXPECT_NE(joined.against[1].English().find("UNDERFLOW"), std::string::npos);
  ASSERT_EQ(joined.unseen.size(), 2u);
  EXPECT_EQ(joined.unseen[0]->name, "UNDERFLOW");
  EXPECT_EQ(joined.unseen[1]->name, "lr-jump");
  EXPECT_DOUBLE_EQ(joined.weight, 3);
  EXPECT_TRUE(joined.telling);
}

TEST(Causes, OnlyTheBestCaseNamesAndOnlyWhatLeads) {
  Facts facts = WithFindings({FaultOf("amplified", 3), FaultOf("range", 10)});
  Breaks(facts, 10);
  facts.log_hits.emplace_back().signal = "log: a";
  facts.log_hits.emplace_back().signal = "log: b";
  const auto library = LibraryOf(
      {{.id = "better", .signals = {{"log: a", 3}}}, {.id = "worse", .signals = {{"log: b", 2}}}});
  const auto causes = FindCauses(facts, {}, library);
  ASSERT_EQ(causes.size(), 3u);
  EXPECT_EQ(causes[0].mechanism, 1u);
  EXPECT_EQ(causes[0].cause, library.Find("better"));
  for (const auto& each : causes) {
    EXPECT_EQ(each.mechanism == 0u, each.cause == nullptr) << "the other one has no case";
  }
  EXPECT_EQ(NamedIn(causes, "worse")->mechanism, std::nullopt);
}

TEST(Causes, AGuessMayNameAMeasurement) {
  std::vector<MadeCase> made;
  for (const char* id : {"a", "b", "c", "d"}) {
    made.push_back({.id = id, .signals = {{"log: a", 1.2}}});
  }
  Facts facts = BrokenBy(FaultOf("range", 10));
  facts.log_hits.emplace_back().signal = "log: a";
  const auto library = LibraryOf(made);
  const auto causes = FindCauses(facts, {}, library);
  ASSERT_EQ(causes.size(), 1u) << "the other guesses say nothing";
  EXPECT_EQ(causes[0].cause, library.Find("a"));
}

// The operands show which operator made it: cases of others are not what happened there.
TEST(Causes, CasesOfOtherOperatorsArePutAside) {
  runs::ShadowFinding division = FaultOf("range", 10);
  division.op = "aten.div.Tensor";
  division.operands = {{.held = 0, .reference = 1e-9}};
  const auto told = [](const Facts& facts, const std::string& sign) {
    const auto library = LibraryOf({{.id = "made", .signals = {{"sign: " + sign, 3}}}});
    return NamedIn(FindCauses(facts, {Sure(sign)}, library), "made") != nullptr;
  };
  EXPECT_TRUE(told(BrokenBy(division), "half-zero-division"));
  EXPECT_FALSE(told(BrokenBy(division), "matmul-overflow"));
  EXPECT_TRUE(told(BrokenBy(division), "lr-jump")) << "it is of no operator";
  EXPECT_TRUE(told(BrokenBy(FaultOf("range", 10)), "exp-overflow")) << "no operands are known";
  EXPECT_TRUE(told(WithFindings({division}), "matmul-overflow")) << "nothing broke";
  Facts later = WithFindings({division});
  Breaks(later, 5);
  EXPECT_TRUE(told(later, "matmul-overflow")) << "it is not where the first bad value comes from";
}

// The sentence that speaks against a case is the one that the measurement itself is told by.
TEST(Causes, TheReferenceSpeaksInItsOwnWords) {
  runs::ShadowFinding finding = FaultOf("range", 10);
  finding.proof = Proof::kProven;
  finding.cure.emplace().what = "float32";
  Facts facts = WithFindings({finding});
  facts.log_hits.emplace_back().signal = "log: a";
  const std::string proven =
      PrecisionSentence(facts.measured, facts.measured.mechanisms[0]).English();
  EXPECT_EQ(proven.find("Precision is the cause (proven)."), 0u);
  const std::string in_fp32 =
      "In FP32 the values stay finite, and this case happens in FP32 as well.";
  const struct {
    const char *category, *precision;
    bool established;
    std::vector<std::string> against;
  } kTable[] = {{"nan-inf", "fp16", false, {}},
                {"not-precision", "fp16", false, {proven}},
                {"nan-inf", "fp32", false, {in_fp32}},
                // A detector that is sure of the case outweighs what is only likely, and not what
                // was measured.
                {"not-precision", "fp16", true, {proven}},
                {"nan-inf", "fp32", true, {}},
                {"not-precision", "fp32", true, {proven}}};
  for (const auto& each : kTable) {
    MadeCase made{.id = "made", .signals = {{"log: a", 6}}};
    if (each.established) made.signals.emplace_back("sign: diverged", 3);
    made.category = each.category;
    made.precision = {each.precision};
    const auto library = LibraryOf({made});
    const auto causes = FindCauses(facts, {Sure("diverged")}, library);
    const Hypothesis* found = NamedIn(causes, "made");
    ASSERT_NE(found, nullptr) << each.category << " " << each.precision;
    std::vector<std::string> said;
    for (const auto& sentence : found->against) said.push_back(sentence.English());
    EXPECT_EQ(said, each.against) << each.category << " " << each.precision;
  }
}

// What is proven leaves a case that says otherwise three tenths of its sureness.
TEST(Causes, WhatTheReferenceOpposesIsHardlyBelieved) {
  runs::ShadowFinding finding = FaultOf("amplified", 10);
  const auto confidence = [&](const std::string& category) {
    Facts facts = WithFindings({finding});
    facts.log_hits.emplace_back().signal = "log: a";
    facts.log_hits[0].weight = 3;
    const auto library =
        LibraryOf({{.id = "made", .signals = {{"log: a", 6}}, .category = category}});
    const auto causes = FindCauses(facts, {}, library);
    return NamedIn(causes, "made")->confidence;
  };
  const double untested = confidence("not-precision");
  EXPECT_NEAR(untested, 0.934603, 1e-6);
  finding.proof = Proof::kProven;
  EXPECT_NEAR(confidence("not-precision"), 0.3 * untested, 1e-9);
  // What came after the loss rose says nothing of it.
  finding.kind = FindingKind::kAmplified;
  Facts facts = WithFindings({finding});
  facts.log_hits.emplace_back().signal = "log: a";
  facts.course.loss_low = 0.1;
  facts.course.loss_greatest = 10;
  facts.course.finite_losses = 40;
  facts.course.loss_rise_from = 5;
  const auto library =
      LibraryOf({{.id = "made", .signals = {{"log: a", 6}}, .category = "not-precision"}});
  const auto causes = FindCauses(facts, {}, library);
  EXPECT_TRUE(NamedIn(causes, "made")->against.empty());
}

}  // namespace
}  // namespace mpnanny::diagnosis
