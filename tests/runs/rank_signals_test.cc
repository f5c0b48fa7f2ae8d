// What one signal of a case is worth, by where and when the run shows it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/diagnosis/cases/rank.h"
#include "engines/diagnosis/cases/signal_words.h"
#include "tests/runs/made_cases.h"
#include "tests/runs/same_figures.h"

namespace mpnanny::diagnosis {
namespace {

// The case that has this signal alone, at a weight of 2, as the facts let it rank.
std::optional<Hypothesis> CaseOf(const std::string& signal, const Facts& facts,
                                 const std::vector<Claim>& claims = {}) {
  static std::vector<cases::CaseLibrary> kept;  // a hypothesis borrows its case
  kept.push_back(test::LibraryOf({{.id = "made", .signals = {{signal, 2}}}}));
  for (Hypothesis& each : Rank(facts, claims, kept.back())) {
    if (each.cause->id == "made") return std::move(each);
  }
  return std::nullopt;
}

// 0 to 1; 0 where the signal does not fit at all.
double WorthOf(const std::string& signal, const Facts& facts,
               const std::vector<Claim>& claims = {}) {
  const auto ranked = CaseOf(signal, facts, claims);
  return ranked ? ranked->weight / 2 : 0;
}

std::string EvidenceOf(const std::string& signal, const Facts& facts,
                       const std::vector<Claim>& claims = {}) {
  const auto ranked = CaseOf(signal, facts, claims);
  if (!ranked || ranked->evidence.size() != 1) {
    ADD_FAILURE() << signal;
    return {};
  }
  test::ExpectChinese(ranked->evidence[0]);
  return ranked->evidence[0].English();
}

// The first value that is not finite came at step 10, out of layer 3.
Facts BrokenIn(const std::string& phase) {
  Facts facts;
  Onset onset;
  onset.step = 10;
  onset.phase = Word<Phase>(phase);
  onset.layer_id = 3;
  onset.layer = "blocks.0.wo";
  facts.onset = onset;
  return facts;
}

SeenAlert Alert(const std::string& type, int64_t step, const std::string& phase = "forward",
                std::optional<int64_t> layer_id = {}, const std::string& layer = "") {
  SeenAlert alert;
  alert.row.type = Word<AlertType>(type);
  alert.row.step = step;
  alert.row.phase = Word<Phase>(phase);
  alert.row.layer_id = layer_id;
  alert.layer = layer;
  return alert;
}

TEST(RankedAlerts, AValueIsWorthMostWhereItWasMade) {
  const struct {
    const char* what;
    int64_t step;
    std::optional<int64_t> layer_id, producer;
    double worth;
  } kTable[] = {
      {"the place of the first bad moment", 10, 3, std::nullopt, 1},
      {"another place that took it in", 10, 4, 0, 0.25},
      {"another place of which nothing is known", 10, 4, std::nullopt, 0.25},
      {"another place that made its own of finite inputs", 10, 4, 1, 1},
      {"a step before", 9, 4, 0, 1},
      {"what comes after the first bad moment is no cause", 11, 3, 1, 0},
  };
  for (const auto& each : kTable) {
    for (const char* type : {"NAN", "INF", "OVERFLOW"}) {
      Facts facts = BrokenIn("forward");
      facts.alerts = {Alert(type, each.step, "forward", each.layer_id)};
      facts.alerts[0].row.producer = each.producer;
      EXPECT_DOUBLE_EQ(WorthOf(std::string("alert:") + type, facts), each.worth)
          << type << ", " << each.what;
    }
  }
  Facts nothing_broke;
  nothing_broke.alerts = {Alert("INF", 3)};
  EXPECT_EQ(WorthOf("alert:INF", nothing_broke), 0) << "the run got over it";
}

TEST(RankedAlerts, TheWorthiestOfSeveralCounts) {
  Facts facts = BrokenIn("forward");
  facts.alerts = {Alert("INF", 10, "forward", 4, "a.carrier"),
                  Alert("INF", 10, "forward", 3, "blocks.0.wo")};
  EXPECT_DOUBLE_EQ(WorthOf("alert:INF", facts), 1);
  EXPECT_NE(EvidenceOf("alert:INF", facts).find("blocks.0.wo"), std::string::npos);
  std::swap(facts.alerts[0], facts.alerts[1]);
  EXPECT_DOUBLE_EQ(WorthOf("alert:INF", facts), 1);
  EXPECT_NE(EvidenceOf("alert:INF", facts).find("blocks.0.wo"), std::string::npos);
}

TEST(RankedAlerts, PhaseAndLayersHaveToFit) {
  const struct {
    const char* signal;
    double worth;
  } kTable[] = {{"alert:INF@forward", 1},          {"alert:INF@backward", 0},
                {"alert:INF@forward *.wo", 1},     {"alert:INF *attn*", 0},
                {"alert:INF *attn*|*blocks*", 1},  {"alert:NAN@forward", 0},
                {"alert:OVERFLOW@forward *.wo", 0}};
  Facts facts = BrokenIn("forward");
  facts.alerts = {Alert("INF", 10, "forward", 3, "blocks.0.wo")};
  for (const auto& each : kTable) EXPECT_EQ(WorthOf(each.signal, facts), each.worth) << each.signal;
  // An operator of a module's own is in that module.
  facts.alerts[0].layer = "blocks.0.wo: aten.add.Tensor (model.py:20)";
  EXPECT_EQ(WorthOf("alert:INF@forward *.wo", facts), 1);
  EXPECT_EQ(WorthOf("alert:INF@forward *.w", facts), 0);
  // At the place of the first bad moment the phase is the moment's: the alert may not know it.
  facts.alerts[0].row.phase = {};
  EXPECT_EQ(WorthOf("alert:INF@forward", facts), 1);
  facts.alerts[0].row.layer_id = 4;
  facts.alerts[0].row.step = 9;
  EXPECT_EQ(WorthOf("alert:INF@forward", facts), 0);
}

TEST(RankedAlerts, ALossThatIsNaNIsANaNAtTheLoss) {
  Facts facts = BrokenIn("loss");
  facts.alerts = {Alert("LOSS_NAN", 10, "loss", 3)};
  const struct {
    bool is_nan, is_inf;
    const char* signal;
    double worth;
  } kTable[] = {{true, false, "alert:NAN@loss", 1},     {true, false, "alert:INF@loss", 0},
                {false, true, "alert:INF@loss", 1},     {false, true, "alert:NAN@loss", 0},
                {true, true, "alert:OVERFLOW@loss", 0}, {true, false, "alert:NAN", 0},
                {true, true, "alert:LOSS_NAN", 1}};
  for (const auto& each : kTable) {
    facts.onset->is_nan = each.is_nan;
    facts.onset->is_inf = each.is_inf;
    EXPECT_EQ(WorthOf(each.signal, facts), each.worth) << each.signal << each.is_nan;
  }
  // The loss only shows what a module made.
  facts.alerts[0].row.layer_id.reset();
  facts.onset->is_nan = true;
  facts.onset->phase = Phase::kForward;
  EXPECT_EQ(WorthOf("alert:NAN@loss", facts), 0);
  facts.onset.reset();
  EXPECT_EQ(WorthOf("alert:NAN@loss", facts), 0);
}

// A forward pass that is not finite drags the scale down by itself.
TEST(RankedAlerts, TheScaleIsWorthLessWhereSomethingElseBrokeFirst) {
  Facts backward = BrokenIn("backward");
  Facts known = backward;
  known.origins.resize(1);  // the operator that breaks the gradients
  Facts log = BrokenIn("forward");
  log.monitored = false;
  const struct {
    const char* what;
    Facts facts;
    double worth;
  } kTable[] = {{"nothing broke", {}, 1},
                {"the forward pass broke", BrokenIn("forward"), 0.3},
                {"the batch was bad", BrokenIn("data"), 0.3},
                {"gradients broke: that may be the scale", backward, 1},
                {"gradients broke at a known operator", known, 0.3},
                {"a log does not show what broke first", log, 1}};
  for (const auto& each : kTable) {
    Facts facts = each.facts;
    for (const char* type : {"LOSS_SCALE_DECLINE", "LOSS_SCALE_COLLAPSE", "STEP_SKIPPED"}) {
      facts.alerts = {Alert(type, 12, "optimizer")};
      EXPECT_DOUBLE_EQ(WorthOf(std::string("alert:") + type, facts), each.worth)
          << type << ", " << each.what;
    }
    facts.scale.stuck = true;
    EXPECT_DOUBLE_EQ(WorthOf("scale: stuck", facts), each.worth) << each.what;
  }
}

TEST(RankedAlerts, WhatGradientsAndLossesDoAfterTheFirstBadValueFollowsFromIt) {
  const struct {
    int64_t step;
    const char* phase;
    double worth;
  } kTable[] = {{9, "backward", 1},
                {10, "backward", 1},
                {11, "backward", 0},
                {11, "loss", 0},
                {11, "optimizer", 1}};
  Facts facts = BrokenIn("forward");
  for (const auto& each : kTable) {
    facts.alerts = {Alert("GRAD_EXPLOSION", each.step, each.phase)};
    EXPECT_EQ(WorthOf("alert:GRAD_EXPLOSION", facts), each.worth) << each.step << each.phase;
  }
  facts.onset.reset();
  facts.alerts[0] = Alert("GRAD_EXPLOSION", 11, "backward");
  EXPECT_EQ(WorthOf("alert:GRAD_EXPLOSION", facts), 1);
}

TEST(RankedAlerts, AreToldWithPlaceStepAndMessage) {
  Facts facts = BrokenIn("forward");
  facts.alerts = {Alert("INF", 10, "forward", 4, "blocks.0.wo")};
  facts.alerts[0].row.message = "12 of 4096 elements are infinite.";
  std::string told = EvidenceOf("alert:INF", facts);
  for (const char* part : {"INF", "forward", "blocks.0.wo", "step 10", "carrier",
                           "12 of 4096 elements are infinite."}) {
    EXPECT_NE(told.find(part), std::string::npos) << told;
  }
  EXPECT_FALSE(told.ends_with("..")) << told;
  EXPECT_EQ(told.find("producer"), std::string::npos) << told;

  facts.alerts[0].row.producer = 1;
  told = EvidenceOf("alert:INF", facts);
  EXPECT_NE(told.find("producer"), std::string::npos) << told;
  EXPECT_EQ(told.find("carrier"), std::string::npos) << told;

  // What a shadow step measured is reported by its meaning.
  facts.alerts = {Alert("SHADOW_FLUSHED", 4, "backward")};
  facts.alerts[0].row.message = "raw";
  told = EvidenceOf("alert:SHADOW_FLUSHED", facts);
  for (const std::string& part :
       {std::string("shadow"), std::string("step 4"), AlertMeaning("SHADOW_FLUSHED")}) {
    EXPECT_NE(told.find(part), std::string::npos) << told;
  }
  EXPECT_EQ(told.find("SHADOW_"), std::string::npos) << told;
}

TEST(RankedAlerts, WithoutPlaceOrMessageNothingIsLeftOpen) {
  Facts facts;
  facts.alerts = {Alert("LOSS_SPIKE", 7, "")};
  const std::string told = EvidenceOf("alert:LOSS_SPIKE", facts);
  EXPECT_NE(told.find("step 7"), std::string::npos) << told;
  for (const char* left : {" in ", " at ", ":"}) {
    EXPECT_EQ(told.find(left), std::string::npos) << told;
  }
}

TEST(RankedSignals, EachStateOfTheScaleIsItsOwn) {
  const struct {
    bool ScaleTrack::*state;
    const char* name;
  } kTable[] = {{&ScaleTrack::declining, "declining"},
                {&ScaleTrack::collapsed, "collapsed"},
                {&ScaleTrack::stuck, "stuck"}};
  for (const auto& seen : kTable) {
    Facts facts;
    facts.scale.*seen.state = true;
    facts.summary.scale_first = 65536;
    facts.summary.scale_last = 0.5;
    for (const auto& asked : kTable) {
      EXPECT_EQ(WorthOf(std::string("scale: ") + asked.name, facts), asked.name == seen.name)
          << asked.name << " where it is " << seen.name;
    }
    const std::string told = EvidenceOf(std::string("scale: ") + seen.name, facts);
    for (const char* part : {seen.name, "65536", "0.5"}) {
      EXPECT_NE(told.find(part), std::string::npos) << told;
    }
  }
}

TEST(RankedSignals, CodeFarFromTheProducerIsWorthLess) {
  Facts facts;
  facts.findings.resize(2);
  facts.findings[0].rule = "other-rule";
  facts.findings[0].near_source = true;
  facts.findings[1].rule = "eps-in-half";
  facts.findings[1].place = "train.py:42";
  facts.findings[1].message = "It is 0 in FP16.";
  EXPECT_DOUBLE_EQ(WorthOf("rule:eps-in-half", facts), 0.6);
  facts.findings[1].near_source = true;
  EXPECT_EQ(WorthOf("rule:eps-in-half", facts), 1);
  EXPECT_EQ(WorthOf("rule:third-rule", facts), 0);
  const std::string told = EvidenceOf("rule:eps-in-half", facts);
  EXPECT_NE(told.find("train.py:42"), std::string::npos) << told;
  EXPECT_TRUE(told.ends_with("It is 0 in FP16.")) << told;
}

TEST(RankedSignals, ALineOfALogAndASign) {
  Facts facts;
  facts.log_hits = {{.signal = "log: found inf", .weight = 2, .line = "found inf in grads"}};
  EXPECT_EQ(WorthOf("log: found inf", facts), 1);
  EXPECT_EQ(WorthOf("log: found nan", facts), 0);
  EXPECT_NE(EvidenceOf("log: found inf", facts).find("found inf"), std::string::npos);

  Claim claim;
  claim.id = "lr-jump";
  claim.strength = 0.5;
  claim.sentence = runs::Sentence::InEach("The rate jumped at step 3.", "学习率在第 3 步跳升。");
  EXPECT_EQ(WorthOf("sign: lr-jump", {}, {claim}), 0.5) << "as sure as the detector is";
  EXPECT_EQ(WorthOf("sign: diverged", {}, {claim}), 0);
  EXPECT_EQ(EvidenceOf("sign: lr-jump", {}, {claim}), "The rate jumped at step 3.");
}

}  // namespace
}  // namespace mpnanny::diagnosis
