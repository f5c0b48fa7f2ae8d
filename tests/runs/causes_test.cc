// Which causes are named, how sure each may be, and what comes first.
#include "engines/diagnosis/causes/causes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/diagnosis/causes/measured_text.h"
#include "tests/runs/causes_facts.h"
#include "tests/runs/made_cases.h"

namespace mpnanny::diagnosis {
namespace {

using test::LibraryOf;
using test::MadeCase;

bool Explains(const runs::ShadowFinding& finding, bool bad_at_end = false) {
  Facts facts = WithFindings({finding});
  Breaks(facts, 10);
  facts.bad_at_end = bad_at_end;
  return ExplainsOnset(facts, facts.measured.mechanisms[0]);
}

TEST(Causes, WhatIsNotFiniteUpToTwoStepsAfterTheFirstBadOneExplainsIt) {
  for (const int64_t step : {0, 9, 10, 11, 12}) EXPECT_TRUE(Explains(FaultOf("range", step)));
  EXPECT_FALSE(Explains(FaultOf("range", 13)));
  EXPECT_TRUE(Explains(FaultOf("undefined", 10)));
  EXPECT_FALSE(Explains(FaultOf("amplified", 10))) << "it makes no NaN";
  Facts healthy = WithFindings({FaultOf("range", 10)});
  EXPECT_FALSE(ExplainsOnset(healthy, healthy.measured.mechanisms[0]));
}

// A file may hold what is not finite, or the program has made it before the model.
TEST(Causes, OfABatchThatWasNotComparedPrecisionIsNotExcluded) {
  const auto library = LibraryOf({{.id = "data",
                                   .signals = {{"sign: data-not-finite", 9}},
                                   .category = "not-precision",
                                   .components = {"data"}},
                                  {.id = "other", .signals = {{"sign: diverged", 9}}}});
  const std::vector<Claim> claims = {Sure("data-not-finite"), Sure("diverged")};
  const auto cause = [&](const Facts& facts, const char* id) {
    const auto causes = FindCauses(facts, claims, library);
    const Hypothesis* named = NamedIn(causes, id);
    EXPECT_NE(named, nullptr) << id;
    return named == nullptr ? Hypothesis() : *named;
  };
  Facts facts;
  Breaks(facts, 10, "data");
  EXPECT_EQ(cause(facts, "data").confidence, 0.75);
  EXPECT_FALSE(cause(facts, "data").precision.empty());
  EXPECT_TRUE(cause(facts, "other").precision.empty());
  Breaks(facts, 10, "forward");
  EXPECT_GT(cause(facts, "data").confidence, 0.75);
  // A shadow step has compared it.
  Facts measured = WithFindings({FaultOf("undefined", 10, "data")});
  Breaks(measured, 10, "data");
  for (const Hypothesis& each : FindCauses(measured, claims, library)) {
    if (each.cause && !each.mechanism) EXPECT_TRUE(each.precision.empty());
  }
}

TEST(Causes, LaterWhatGoesOnInTheSamePhaseIsTheSame) {
  runs::ShadowFinding again = FaultOf("range", 30);
  again.repeats = 2;
  EXPECT_TRUE(Explains(again, true));
  EXPECT_FALSE(Explains(again, false)) << "the run recovered";
  again.phase = Phase::kBackward;
  EXPECT_FALSE(Explains(again, true));
  EXPECT_FALSE(Explains(FaultOf("range", 30), true)) << "seen once";
}

TEST(Causes, AfterTheFirstBadStepWhatWasBadBeforeComesOfIt) {
  const struct {
    const char *carrier, *precision;
    bool explains;
  } kTable[] = {{"state", "proven", false}, {"state", "excluded", false},
                {"data", "proven", true},   {"unwritten", "proven", true},
                {"", "proven", false},      {"", "excluded", true}};
  for (const auto& each : kTable) {
    runs::ShadowFinding finding = FaultOf("undefined", 11);
    finding.was_bad_before = true;
    finding.carrier.kind = Word<CarrierKind>(each.carrier);
    finding.proof = Word<Proof>(each.precision);
    EXPECT_EQ(Explains(finding), each.explains) << each.carrier << " " << each.precision;
    finding.step = 10;
    EXPECT_TRUE(Explains(finding)) << "at the step itself it brought it in";
  }
}

// A wrong call is known by its lines, with and without a case that tells of it.
TEST(Causes, AWrongCallHasTheLinesThatMakeIt) {
  Claim called = Sure("scaled-step");
  called.lines = {"loop.py:7", "train.py:40"};
  called.title = runs::Form("a step past the scaler", "绕过 scaler 的更新");
  for (const bool documented : {true, false}) {
    const auto library = LibraryOf(
        {{.id = "made", .signals = {{documented ? "sign: scaled-step" : "sign: diverged", 4}}}});
    const auto causes = FindCauses(WithFindings({}), {called}, library);
    ASSERT_EQ(causes.size(), 1u);
    EXPECT_EQ(causes[0].cause != nullptr, documented);
    EXPECT_EQ(causes[0].lines, called.lines);
  }
}

TEST(Causes, TheMechanismOfTheFirstBadMomentLeads) {
  EXPECT_EQ(LeadingMechanism(Facts()), nullptr);
  Facts facts = WithFindings({FaultOf("amplified", 3), FaultOf("range", 10)});
  EXPECT_EQ(LeadingMechanism(facts), &facts.measured.mechanisms[0]) << "nothing broke: the worst";
  Breaks(facts, 10);
  EXPECT_EQ(LeadingMechanism(facts), &facts.measured.mechanisms[1]);
  const auto causes = FindCauses(facts, {}, LibraryOf({}));
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].mechanism, 1u);
  EXPECT_EQ(causes[1].mechanism, 0u);
}

TEST(Causes, AFindingAfterTheLossRoseMayComeOfIt) {
  const struct {
    const char *kind, *dtype;
    bool after;
  } kTable[] = {{"amplified", "float16", true},
                {"range", "bfloat16", true},
                {"range", "float32", true},
                {"range", "float16", false},
                {"range", "torch.float8_e4m3fn", false},
                {"diverged", "float32", false},
                {"not_zeroed", "float32", false}};
  for (const auto& each : kTable) {
    runs::ShadowFinding finding = FaultOf(each.kind, 21);
    finding.dtype = each.dtype;
    Facts facts = WithFindings({finding});
    // The loss rose a hundredfold from step 20 on.
    facts.course.loss_low = 0.1;
    facts.course.loss_greatest = 10;
    facts.course.finite_losses = 40;
    facts.course.loss_rise_from = 20;
    const Mechanism& mechanism = facts.measured.mechanisms[0];
    EXPECT_EQ(IsAfterDivergence(facts, mechanism), each.after) << each.kind << " " << each.dtype;
    const auto causes = FindCauses(facts, {}, LibraryOf({}));
    const double alone = MeasuredConfidence(facts.measured, mechanism);
    EXPECT_DOUBLE_EQ(causes[0].confidence, each.after ? alone / 2 : alone) << each.kind;
    EXPECT_EQ(causes[0].against.empty(), !each.after) << each.kind;
    if (!each.after) continue;
    facts.measured.findings[0].finding.step = 20;
    EXPECT_FALSE(IsAfterDivergence(facts, mechanism)) << "seen before it rose";
    facts.measured.findings[0].finding.step = 21;
    facts.course.loss_greatest = 0.11;
    EXPECT_FALSE(IsAfterDivergence(facts, mechanism)) << "it did not rise";
    facts.course.norm_median = 1;
    facts.course.norm_greatest = 1e6;
    EXPECT_TRUE(IsAfterDivergence(facts, mechanism)) << "gradients did";
    facts.course.loss_rise_from.reset();
    EXPECT_FALSE(IsAfterDivergence(facts, mechanism)) << "since when is not known";
  }
}

TEST(Causes, WhatDoesNotExplainTheFirstBadValueIsLessSure) {
  Facts facts = WithFindings({FaultOf("amplified", 3)});
  const double alone = MeasuredConfidence(facts.measured, facts.measured.mechanisms[0]);
  EXPECT_DOUBLE_EQ(FindCauses(facts, {}, LibraryOf({}))[0].confidence, alone);
  Breaks(facts, 10);
  EXPECT_DOUBLE_EQ(FindCauses(facts, {}, LibraryOf({}))[0].confidence, 0.7 * alone);
}

TEST(Causes, ValuesThatAreNotFiniteLaterComeOfTheFirst) {
  Facts facts = WithFindings({FaultOf("range", 10), FaultOf("undefined", 12), FaultOf("range", 9),
                              FaultOf("amplified", 12)});
  std::vector<std::optional<size_t>> named;
  for (const auto& each : FindCauses(facts, {}, LibraryOf({}))) named.push_back(each.mechanism);
  EXPECT_EQ(named.size(), 4u) << "nothing broke: each stands for itself";
  Breaks(facts, 10);
  named.clear();
  for (const auto& each : FindCauses(facts, {}, LibraryOf({}))) named.push_back(each.mechanism);
  EXPECT_EQ(named.size(), 3u);
  EXPECT_EQ(named[0], 0u);
  EXPECT_EQ(std::count(named.begin(), named.end(), std::optional<size_t>(1)), 0);
}

TEST(Causes, WhatTheLoopDidIsToldByItsSign) {
  const auto library = LibraryOf({{.id = "made", .signals = {{"sign: lr-jump", 3}}},
                                  {.id = "other", .signals = {{"log: lr-jump", 3}}}});
  Claim claim = Sure("lr-jump");
  EXPECT_FALSE(StandsOnLoop({claim}, *library.Find("made")));
  claim.in_loop = true;
  EXPECT_TRUE(StandsOnLoop({claim}, *library.Find("made")));
  EXPECT_FALSE(StandsOnLoop({claim}, *library.Find("other")));
  EXPECT_FALSE(StandsOnLoop({}, *library.Find("made")));
}

// A case that only signals speak for is recognised, wherever the first bad value was made.
TEST(Causes, SignalsAloneAreBelievedOnlySoFar) {
  using Place = Onset::Place;
  const struct {
    const char* what;
    bool monitored;
    const char* phase;  // nullptr: nothing broke
    Place place;
    size_t origins;
    double most;
  } kTable[] = {{"nothing broke", true, nullptr, Place::kProducer, 0, 0.5},
                {"the layer is known", true, "forward", Place::kProducer, 0, 0.5},
                {"it was first seen there", true, "forward", Place::kFirstSeen, 0, 0.5},
                {"some layer", true, "forward", Place::kUnplaced, 0, 0.5},
                {"no module made the loss", true, "loss", Place::kProducer, 0, 0.5},
                {"its operator is known", true, "loss", Place::kProducer, 1, 0.5},
                {"a log shows no layer", false, nullptr, Place::kProducer, 0, 0.4}};
  const auto library = LibraryOf({{.id = "made", .signals = {{"log: a", 6}}}});
  for (const auto& each : kTable) {
    Facts facts = Logged("log: a");
    facts.monitored = each.monitored;
    facts.origins.resize(each.origins);
    if (each.phase) Breaks(facts, 10, each.phase, each.place);
    const auto causes = FindCauses(facts, {}, library);
    ASSERT_EQ(causes.size(), 1u) << each.what;
    EXPECT_DOUBLE_EQ(causes[0].confidence, each.most) << each.what;
  }
}

TEST(Causes, ATellingLineOrASureSignIsBelievedFurther) {
  const auto library = LibraryOf({{.id = "made", .signals = {{"log: a", 6}}},
                                  {.id = "sure", .signals = {{"sign: lr-jump", 6}}}});
  const auto confidence = [&](const std::string& id, const Facts& facts) {
    const auto causes = FindCauses(facts, {Sure("lr-jump")}, library);
    const Hypothesis* found = NamedIn(causes, id);
    return found ? found->confidence : 0;
  };
  const double seen = 0.934603;  // of a weight of 6
  Facts facts = Logged("log: a");
  facts.log_hits[0].weight = 3;
  EXPECT_NEAR(confidence("made", facts), seen, 1e-6);
  facts.log_hits[0].telling = false;
  EXPECT_EQ(confidence("made", facts), 0.5) << "it happens to fit a line of good figures";
  facts.log_hits[0].telling = true;
  facts.log_hits[0].weight = 2.9;
  EXPECT_EQ(confidence("made", facts), 0.5) << "many faults give it";
  facts.log_hits.emplace_back().signal = "log: of another case";
  facts.log_hits[1].weight = 3;
  EXPECT_EQ(confidence("made", facts), 0.5);

  EXPECT_NEAR(confidence("sure", facts), seen, 1e-6);
  facts.monitored = false;
  EXPECT_EQ(confidence("sure", facts), 0.4) << "a log shows what is seen, not what it comes of";
}

TEST(Causes, AFaultThatNoCaseIsAboutIsNamedByItself) {
  Claim claim = Sure("lr-jump");
  const auto documented = LibraryOf({{.id = "made", .signals = {{"sign: lr-jump", 3}}}});
  EXPECT_EQ(FindCauses({}, {claim}, LibraryOf({})).size(), 0u) << "it has no name";
  claim.title = "The rate jumped";
  claim.fix = "Let it rise slowly.";
  EXPECT_EQ(FindCauses({}, {claim}, documented).size(), 1u);
  for (const bool has_case : {false, true}) {
    // A case that only shares the sign is not about it.
    const auto library =
        has_case ? LibraryOf({{.id = "made", .signals = {{"sign: lr-jump", 2.9}}}}) : LibraryOf({});
    for (const double strength : {0.6, 1.0}) {
      claim.strength = strength;
      const auto causes = FindCauses({}, {claim}, library);
      const Hypothesis* own = nullptr;
      for (const auto& each : causes) {
        if (!each.cause) own = &each;
      }
      ASSERT_NE(own, nullptr) << has_case;
      EXPECT_EQ(own->confidence, strength == 1.0 ? 0.9 : 0.6);
      EXPECT_EQ(own->title, claim.title);
      EXPECT_EQ(own->fix, claim.fix);
      ASSERT_EQ(own->evidence.size(), 1u);
      EXPECT_EQ(own->evidence[0], claim.sentence);
    }
  }
}

// Alerts of the monitor that say by their figures what a finding says by comparison.
TEST(Causes, ACaseIsNamedByAMeasurementOnlyWhereBothSayTheSame) {
  const struct {
    const char *kind, *alert;
    bool same;
  } kTable[] = {{"lost_change", "STALE_UPDATE", true}, {"lost_change", "ABSORPTION", true},
                {"lost_change", "UNDERFLOW", false},   {"flushed", "UNDERFLOW", true},
                {"flushed", "SATURATION", false},      {"clipped", "SATURATION", true},
                {"clipped", "OVERFLOW_AHEAD", false},  {"amplified", "UNDERFLOW", false}};
  for (const auto& each : kTable) {
    const auto library =
        LibraryOf({{.id = "made", .signals = {{std::string("alert:") + each.alert, 3}}}});
    Facts facts = WithFindings({FaultOf(each.kind, 3)});
    facts.alerts = {Raised(each.alert)};
    const auto causes = FindCauses(facts, {}, library);
    ASSERT_EQ(causes.size(), each.same ? 1u : 2u) << each.kind << " " << each.alert;
    EXPECT_EQ(causes[0].mechanism, 0u);
    EXPECT_EQ(causes[0].cause != nullptr, each.same);
    if (!each.same) continue;
    // What was measured comes first of the evidence that both have; the case is named before it.
    EXPECT_NE(causes[0].evidence.front().English().find("Title of made"), std::string::npos);
    EXPECT_NE(causes[0].evidence.back().English().find(each.alert), std::string::npos);
  }
}

TEST(Causes, AWeakCaseNamesNoMeasurement) {
  Facts facts = WithFindings({FaultOf("flushed", 3)});
  facts.alerts = {Raised("UNDERFLOW")};
  // 0.38 and 0.42.
  EXPECT_EQ(FindCauses(facts, {}, LibraryOf({{.id = "a", .signals = {{"alert:UNDERFLOW", 1.05}}}}))
                .size(),
            2u);
  EXPECT_EQ(
      FindCauses(facts, {}, LibraryOf({{.id = "a", .signals = {{"alert:UNDERFLOW", 1.2}}}})).size(),
      1u);
}

TEST(Causes, NothingThatWasOnlyRecognisedIsSurerThanTheMeasurementBeforeIt) {
  Facts facts = WithFindings({FaultOf("amplified", 10)});
  facts.measured.findings[0].finding.proof = Proof::kProven;
  const double measured = FindCauses(facts, {}, LibraryOf({}))[0].confidence;
  const auto library = LibraryOf({{.id = "made", .signals = {{"sign: diverged", 9}}}});
  Claim claim = Sure("diverged");
  auto causes = FindCauses(facts, {claim}, library);
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].mechanism, 0u);
  EXPECT_EQ(causes[1].confidence, measured);
  // What the training loop did wrong no comparison with FP64 shows.
  claim.in_loop = true;
  causes = FindCauses(facts, {claim}, library);
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].cause, library.Find("made"));
  EXPECT_GT(causes[0].confidence, measured);
}

// What FP64 says of precision speaks against cases that say otherwise.
TEST(Causes, TheReferenceOpposesCasesOfOtherKinds) {
  const auto against = [](const runs::ShadowFinding& finding, const std::string& category,
                          const std::string& precision) {
    Facts facts = WithFindings({finding});
    facts.log_hits.emplace_back().signal = "log: a";
    const auto library = LibraryOf({{.id = "made",
                                     .signals = {{"log: a", 6}},
                                     .category = category,
                                     .precision = {precision}}});
    const auto causes = FindCauses(facts, {}, library);
    const Hypothesis* found = NamedIn(causes, "made");
    EXPECT_NE(found, nullptr);
    return found == nullptr ? 0u : found->against.size();
  };
  runs::ShadowFinding proven = FaultOf("amplified", 10), excluded = proven;
  proven.proof = Proof::kProven;
  excluded.proof = Proof::kExcluded;
  EXPECT_EQ(against(FaultOf("amplified", 10), "not-precision", "fp16"), 0u) << "it was not tested";
  EXPECT_EQ(against(proven, "not-precision", "fp16"), 1u);
  EXPECT_EQ(against(proven, "nan-inf", "fp16"), 0u);
  EXPECT_EQ(against(excluded, "nan-inf", "fp16"), 1u);
  EXPECT_EQ(against(excluded, "nan-inf", "fp32"), 0u);
  // FP32 lost it as well, or what came in had lost it.
  runs::ShadowFinding tiny = proven;
  tiny.kind = FindingKind::kLostChange;
  tiny.dtype = "float32";
  EXPECT_EQ(against(tiny, "not-precision", "fp16"), 0u);
  tiny.dtype = "bfloat16";
  EXPECT_EQ(against(tiny, "not-precision", "fp16"), 1u);
  tiny.lost_before = true;
  EXPECT_EQ(against(tiny, "not-precision", "fp16"), 0u);
  // What the loop does wrong says nothing of a format.
  runs::ShadowFinding loop = proven;
  loop.kind = FindingKind::kNotZeroed;
  EXPECT_EQ(against(loop, "not-precision", "fp16"), 0u);
  // Values that FP32 keeps finite are no case that happens in FP32.
  runs::ShadowFinding range = proven;
  range.kind = FindingKind::kRange;
  EXPECT_EQ(against(range, "nan-inf", "fp32"), 0u);
  range.cure.emplace().what = "float64";
  EXPECT_EQ(against(range, "nan-inf", "fp32"), 0u);
  range.cure->what = "float32";
  EXPECT_EQ(against(range, "nan-inf", "fp32"), 1u);
  EXPECT_EQ(against(range, "nan-inf", "fp16"), 0u);
  proven.cure = range.cure;
  EXPECT_EQ(against(proven, "nan-inf", "fp32"), 0u);
}

TEST(Causes, AGuessIsNoCauseBesideOthers) {
  std::vector<MadeCase> made;
  for (const char* id : {"a", "b", "c", "d"}) {
    made.push_back({.id = id, .signals = {{"log: a", 1}}});
  }
  EXPECT_TRUE(FindCauses(Logged("log: a"), {}, LibraryOf(made)).empty());
  made.pop_back();
  EXPECT_EQ(FindCauses(Logged("log: a"), {}, LibraryOf(made)).size(), 3u);
}

TEST(Causes, WhatCameNearItsLimitBeforeIsLikelyWhereNothingElseExplains) {
  const struct {
    const char* what;
    int64_t step;
    const char* phase;
    bool bad_before, named;
  } kTable[] = {{"the step before", 9, "forward", false, true},
                {"the step itself", 10, "forward", false, false},
                {"a later phase", 9, "backward", false, false},
                {"an earlier phase", 9, "data", false, true},
                {"what was bad before", 9, "forward", true, false}};
  for (const auto& each : kTable) {
    Facts facts;
    runs::ShadowFinding near = FaultOf("near_limit", each.step, each.phase);
    near.was_bad_before = each.bad_before;
    near.magnitude = 6e4;
    facts.measured.near_limit = {{near, ""}, {near, ""}};
    EXPECT_TRUE(FindCauses(facts, {}, LibraryOf({})).empty()) << "nothing broke";
    Breaks(facts, 10);
    const auto causes = FindCauses(facts, {}, LibraryOf({}));
    ASSERT_EQ(causes.size(), each.named ? 1u : 0u) << each.what;
    if (!each.named) continue;
    EXPECT_DOUBLE_EQ(causes[0].confidence, 0.6);
    EXPECT_EQ(causes[0].lines, std::vector<std::string>{"model.py:12"});
    EXPECT_FALSE(causes[0].title.empty() || causes[0].fix.empty() || causes[0].evidence.empty());
    facts.measured.findings = {{FaultOf("range", 10), ""}};
    facts.measured.mechanisms = {{{0}}};
    EXPECT_EQ(FindCauses(facts, {}, LibraryOf({})).size(), 1u) << "it is measured";
  }
}

}  // namespace
}  // namespace mpnanny::diagnosis
