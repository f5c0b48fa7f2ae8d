// compare_runs of a broken run and what came of a change: does b mend a?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "engines/comparison/mend.h"
#include "tests/runs/recording.h"
#include "tests/runs/shadow_recording.h"

namespace mpnanny::test {
namespace {

// A run of 60 steps whose loss falls from 2.
struct Told {
  int64_t steps = 60, nan_from = 1000;
  std::function<double(int64_t step)> loss = [](int64_t step) {
    return 2.0 - 0.01 * static_cast<double>(step);
  };
  std::function<double(int64_t step)> norm = [](int64_t) { return 1.0; };
  bool shadow = false;
  std::string ended = "closed";
  std::string prefix = "net.", parameter = "weight";
  std::function<void(Recording& db)> more = nullptr;
};

FindingSpec Integers(const std::string& source) {
  return {.kind = "integers", .op = "aten.arange", .source = source, .share = 0.18, .error_in = {}};
}

class CompareMendTest : public ::testing::Test {
 protected:
  void Record(const std::string& file, const Told& t) {
    Recording db(folder_.File(file));
    db.Run("run", t.ended, "bf16");
    const struct {
      const char *name, *type;
      int64_t numel;
    } layers[] = {{"0", "Conv2d", 160}, {"1", "BatchNorm2d", 32}, {"4", "Conv2d", 4640}};
    for (const auto& each : layers) {
      const int64_t layer = db.Layer(t.prefix + each.name, "model.py:10", each.type);
      db.Execute("UPDATE layer SET numel = " + std::to_string(each.numel) +
                 " WHERE layer_id = " + std::to_string(layer));
    }
    db.Layer(t.prefix + "4." + t.parameter, "model.py:10", "parameter");
    for (int64_t step = 0; step < t.steps; ++step) {
      const bool bad = step >= t.nan_from;
      db.Step(
          step,
          {.loss = bad ? kNan : t.loss(step), .grad_norm = t.norm(step), .flags = bad ? 1u : 0u});
    }
    if (t.shadow) {
      for (const int64_t step : {0, 4, 20, 40}) AddShadowStep(db, step);
    }
    if (t.more) t.more(db);
  }
  Json Compare(const Told& a, const Told& b, const Json& more = Json::object()) {
    const std::string number = std::to_string(++pairs_), in_a = "a" + number + ".db",
                      in_b = "b" + number + ".db";
    Record(in_a, a);
    Record(in_b, b);
    Json arguments = {{"a", in_a}, {"b", in_b}};
    arguments.update(more);
    auto output = Call("compare_runs", arguments, folder_.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    if (!output) return Json::object();
    text_ = output->text;
    return output->structured;
  }
  bool Holds(const std::string& words) const { return text_.find(words) != std::string::npos; }
  // With what a shadow step found at step 20.
  static Told Measured(const std::string& source) {
    return {.shadow = true, .more = [=](Recording& db) {
              const FindingSpec spec = Integers(source);
              AddShadowAlert(db, 20, spec, AddFinding(db, 20, spec));
            }};
  }

  TempFolder folder_;
  std::string text_;
  int pairs_ = 0;
};

TEST_F(CompareMendTest, ALossThatIsFiniteAgain) {
  const Json json = Compare({.nan_from = 1}, {});
  EXPECT_EQ(json["mend"]["outcome"], "mended") << text_;
  EXPECT_EQ(json["mend"]["a"]["verdict"], "broken");
  EXPECT_EQ(json["mend"]["a"]["step"], 1);
  EXPECT_EQ(json["mend"]["b"]["verdict"], "healthy");
  EXPECT_EQ(json["mend"]["b"]["steps"], 60);
  EXPECT_EQ(json["verdict"], "acceptable") << text_;
  EXPECT_TRUE(text_.starts_with("b mends a. a is BROKEN, first bad step 1: ")) << text_;
  EXPECT_TRUE(Holds("b is HEALTHY and shows none of it in 60 steps")) << text_;
  // The losses side by side, and nothing of the one step at which both are finite.
  EXPECT_TRUE(Holds("Loss at the end: a nan, b 1.5")) << text_;
  EXPECT_TRUE(
      Holds("a's loss is not finite in 59 steps, from step 1 on, and at its end; b's is "
            "finite in all 60 steps"))
      << text_;
  EXPECT_FALSE(Holds("can be compared")) << text_;
  EXPECT_FALSE(Holds("not sound")) << text_;
  EXPECT_TRUE(json["final"].is_null()) << text_;
  EXPECT_EQ(json["metrics"][0]["a"], "nan");
}

TEST_F(CompareMendTest, OneThatDidNotReachTheStep) {
  const Json json = Compare({.nan_from = 40}, {.steps = 30});
  EXPECT_EQ(json["mend"]["outcome"], "not_reached") << text_;
  EXPECT_EQ(json["verdict"], "undecided") << text_;
  EXPECT_TRUE(text_.starts_with("Whether b mends a is open: it did not reach the step.")) << text_;
  EXPECT_TRUE(Holds("b ends at step 29")) << text_;
  EXPECT_TRUE(Holds("let b run to step 40")) << text_;
  EXPECT_EQ(Compare({.nan_from = 40}, {.steps = 41})["mend"]["outcome"], "mended") << text_;
}

TEST_F(CompareMendTest, WhatAShadowStepFoundMustBeLookedForByOne) {
  Json json = Compare(Measured("/home/x/train.py:18"), {.shadow = true});
  EXPECT_EQ(json["mend"]["outcome"], "mended") << text_;
  EXPECT_EQ(json["mend"]["a"]["source"], "/home/x/train.py:18");
  EXPECT_TRUE(Holds("4 shadow steps")) << text_;
  EXPECT_TRUE(Holds("a is DEGRADED, first bad step 20")) << text_;
  json = Compare(Measured("/home/x/train.py:18"), {});
  EXPECT_EQ(json["mend"]["outcome"], "not_measured") << text_;
  EXPECT_NE(json["verdict"], "acceptable") << text_;
  // Shadow steps before it only.
  json = Compare(Measured("/home/x/train.py:18"),
                 {.more = [](Recording& db) { AddShadowStep(db, 4); }});
  EXPECT_EQ(json["mend"]["outcome"], "not_measured") << text_;
}

TEST_F(CompareMendTest, TheSameFaultOnALineThatMoved) {
  const Json json = Compare(Measured("/home/x/train.py:18"), Measured("/home/y/train.py:21"));
  EXPECT_EQ(json["mend"]["outcome"], "still_there") << text_;
  EXPECT_TRUE(text_.starts_with("b does not mend a: it shows the same fault.")) << text_;
  EXPECT_TRUE(Holds("diagnose_run on b")) << text_;
}

TEST_F(CompareMendTest, AnotherFaultIsNoMend) {
  const Json json = Compare(Measured("/home/x/train.py:18"), {.nan_from = 30, .shadow = true});
  EXPECT_EQ(json["mend"]["outcome"], "other_fault") << text_;
  EXPECT_EQ(json["mend"]["b"]["step"], 30);
  EXPECT_EQ(json["verdict"], "not_acceptable") << text_;
  // Of one verdict, and not of one fault: it is no excuse.
  const Json both =
      Compare({.nan_from = 30}, {.nan_from = 30, .more = [](Recording& db) {
                                   const FindingSpec spec = {.kind = "range",
                                                             .severity = "ERROR",
                                                             .op = "aten.mul.Tensor",
                                                             .source = "model.py:12",
                                                             .dtype = "float16",
                                                             .share = 0.03,
                                                             .magnitude = 2.1e5,
                                                             .error_in = {},
                                                             .error_out = {}};
                                   AddShadowStep(db, 10);
                                   db.Execute("UPDATE step SET loss = NULL WHERE step >= 10");
                                   AddShadowAlert(db, 10, spec, AddFinding(db, 10, spec));
                                 }});
  EXPECT_NE(both["mend"]["outcome"], "mended") << text_;
  EXPECT_EQ(both["verdict"], "not_acceptable") << text_;
}

TEST_F(CompareMendTest, AnotherModelMendsNothing) {
  const Json json =
      Compare({.nan_from = 20}, {.more = [](Recording& db) {
                db.Execute("UPDATE layer SET name = 'lstm.' || layer_id, type = 'LSTM'");
              }});
  EXPECT_EQ(json["mend"]["outcome"], "not_established") << text_;
  EXPECT_NE(json["verdict"], "acceptable") << text_;
  EXPECT_FALSE(Holds("Loss at the end")) << text_;
  EXPECT_TRUE(Holds("Only a watched net.0, net.1, net.4 …; only b lstm.1")) << text_;
}

TEST_F(CompareMendTest, OfASoundReferenceNothingIsSaid) {
  Json json = Compare({}, {});
  EXPECT_TRUE(json["mend"].is_null()) << text_;
  EXPECT_TRUE(text_.starts_with("Verdict on b")) << text_;
  // Nobody judges a part of a run.
  json = Compare({.nan_from = 20}, {}, {{"steps", "0..10"}});
  EXPECT_TRUE(json["mend"].is_null()) << text_;
}

TEST_F(CompareMendTest, AMendedRunThatIsWorseIsNotAcceptableAllTheSame) {
  const Json json =
      Compare(Measured("/home/x/train.py:18"),
              {.loss = [](int64_t step) { return 2.0 - 0.002 * static_cast<double>(step); },
               .shadow = true});
  EXPECT_EQ(json["mend"]["outcome"], "mended") << text_;
  EXPECT_EQ(json["verdict"], "not_acceptable") << text_;
  EXPECT_TRUE(Holds("worse")) << text_;
}

TEST_F(CompareMendTest, ManyTimesAsMuchIsNoShare) {
  const Json json = Compare({}, {.loss = [](int64_t step) { return step < 5 ? 2.0 : 400.0; }});
  EXPECT_TRUE(Holds("b is 280 times a's, acceptable up to 1 %")) << text_;
  EXPECT_TRUE(Holds("b 400 (280 times)")) << text_;
  // Curves that part near their beginning for good have no spike there.
  EXPECT_FALSE(Holds("spike")) << text_;
  EXPECT_EQ(json["verdict"], "not_acceptable") << text_;
}

TEST_F(CompareMendTest, OneThatHasConvergedDidNotCeaseToLearn) {
  const auto slow = [](int64_t step) { return 3.6 - 0.008 * static_cast<double>(step); };
  const auto quick = [](int64_t step) {
    return 0.0016 + 3.6 * std::exp(-static_cast<double>(step) / 8.0);
  };
  Told a = Measured("/home/x/train.py:18");
  a.steps = 300;
  a.loss = slow;
  Json json = Compare(a, {.steps = 300, .loss = quick, .shadow = true});
  EXPECT_FALSE(Holds("no longer learns")) << text_;
  EXPECT_FALSE(Holds("more than precision explains")) << text_;
  EXPECT_EQ(json["verdict"], "acceptable") << text_;
  // One that stands still at a's level does not learn, though it is not behind yet.
  Compare({.steps = 300, .loss = slow}, {.steps = 300, .loss = [](int64_t step) {
                                           return std::max(3.6 - 0.03 * static_cast<double>(step),
                                                           1.26);
                                         }});
  EXPECT_TRUE(Holds("no longer learns")) << text_;
}

TEST_F(CompareMendTest, LossesOnTwoScalesAreNoShareOfEachOther) {
  const auto mean = [](int64_t step) { return 60.0 * std::exp(-static_cast<double>(step) / 80.0); };
  const auto sum = [&](int64_t step) { return 768 * mean(step); };
  Json json = Compare({.loss = sum}, {.loss = mean});
  EXPECT_TRUE(json["final"]["worse_by"].is_null()) << text_;
  EXPECT_TRUE(json["metrics"][0]["difference"].is_null()) << text_;
  EXPECT_EQ(json["verdict"], "undecided") << text_;
  EXPECT_TRUE(Holds("at step 0, where both begin, a's loss is 46080 and b's 60")) << text_;
  EXPECT_FALSE(Holds("better")) << text_;
  EXPECT_FALSE(Holds("no longer learns")) << text_;
  EXPECT_TRUE(Holds("b converges")) << text_;
  // The other way round it is no worse, and a stall is told by where each began.
  json = Compare({.loss = mean}, {.loss = sum});
  EXPECT_EQ(json["verdict"], "undecided") << text_;
  json = Compare({.loss = sum}, {.loss = [&](int64_t step) { return 60 - 0.001 * mean(step); }});
  EXPECT_EQ(json["verdict"], "not_acceptable") << text_;
  EXPECT_TRUE(Holds("b is stalled")) << text_;
}

TEST_F(CompareMendTest, LayersUnderAnotherNameAreTheSameByKindAndSize) {
  const Json json = Compare({.prefix = "Sequential."}, {.prefix = "net.features."});
  EXPECT_EQ(json["common"]["layers"], 4) << text_;
  EXPECT_TRUE(json["different_programs"].is_null()) << text_;
  EXPECT_TRUE(Holds("layers under `Sequential` in a and under `net.features` in b")) << text_;
  // Numbers alone, of other kinds.
  const Json other =
      Compare({.prefix = "Sequential."}, {.prefix = "net.features.", .more = [](Recording& db) {
                                            db.Execute("UPDATE layer SET type = 'Linear'");
                                          }});
  EXPECT_EQ(other["common"]["layers"], 0) << text_;
}

TEST_F(CompareMendTest, TheGradientPathIsSoughtWhereTheRunsHaveOne) {
  const auto heard = [](Recording& db) {
    db.Execute(
        "INSERT INTO event (run_id, step, at, type, detail) VALUES (1, 0, 0, 'optimizer', "
        "'{\"kind\": \"AdamW\"}')");
  };
  const auto twice = [](int64_t) { return 2.0; };
  Compare({.more = heard}, {.norm = twice, .more = heard});
  EXPECT_TRUE(Holds("the gradient path differs")) << text_;
  EXPECT_TRUE(Holds("what the loss is divided by")) << text_;
  EXPECT_FALSE(Holds("ranks")) << text_;
  EXPECT_FALSE(Holds("micro-batches")) << text_;
  EXPECT_FALSE(Holds("clipping")) << text_;
  // Where nobody listened, all of it may be.
  Compare({}, {.norm = twice});
  EXPECT_TRUE(Holds("ranks") && Holds("micro-batches") && Holds("clipping")) << text_;
  // Norms of other parameters are no two paths of one gradient.
  const Json json = Compare({.more = heard}, {.norm = twice, .parameter = "scale", .more = heard});
  EXPECT_FALSE(Holds("the gradient path differs")) << text_;
  EXPECT_TRUE(Holds("norms of other parameters. Only in a: net.4.weight. Only in b: net.4.scale."))
      << text_;
  EXPECT_EQ(json["verdict"], "undecided") << text_;
}

comparison::RunHealth Sick(comparison::Fault::FoundBy found_by) {
  comparison::RunHealth health;
  health.verdict = {Health::kDegraded, "It is."};
  health.status = runs::Status::kClosed;
  health.faults.emplace_back();
  health.faults[0].found_by = found_by;
  health.faults[0].step = 10;
  health.faults[0].what = "updates that are exactly 0";
  return health;
}

TEST(JudgeMendTest, WhatLookedAtAMustHaveLookedAtB) {
  using FoundBy = comparison::Fault::FoundBy;
  using Outcome = comparison::MendOutcome;
  comparison::RunHealth well;
  well.verdict = {Health::kHealthy, "Nothing."};
  well.status = runs::Status::kClosed;
  const auto outcome = [&](FoundBy found_by) {
    return comparison::JudgeMend(Sick(found_by), well, false)->outcome;
  };
  EXPECT_EQ(outcome(FoundBy::kSteps), Outcome::kNotReached);
  well.last_step = 10;
  EXPECT_EQ(outcome(FoundBy::kSteps), Outcome::kMended);
  EXPECT_EQ(outcome(FoundBy::kSamples), Outcome::kNotMeasured);
  EXPECT_EQ(outcome(FoundBy::kShadow), Outcome::kNotMeasured);
  well.last_sample = 9;
  EXPECT_EQ(outcome(FoundBy::kSamples), Outcome::kNotMeasured);
  well.last_sample = 10;
  EXPECT_EQ(outcome(FoundBy::kSamples), Outcome::kMended);
  well.last_shadow = 12;
  EXPECT_EQ(outcome(FoundBy::kShadow), Outcome::kMended);
  // A crash is no mend, nor is a run that nobody can judge, nor another model.
  well.status = runs::Status::kException;
  EXPECT_EQ(outcome(FoundBy::kSteps), Outcome::kOtherFault);
  well.status = runs::Status::kClosed;
  EXPECT_EQ(comparison::JudgeMend(Sick(FoundBy::kSteps), well, true)->outcome,
            Outcome::kNotEstablished);
  well.verdict.verdict = Health::kNotEstablished;
  EXPECT_EQ(outcome(FoundBy::kSteps), Outcome::kNotEstablished);
  well.verdict.verdict = std::nullopt;
  EXPECT_FALSE(comparison::JudgeMend(Sick(FoundBy::kSteps), well, false));
}

TEST(JudgeMendTest, AFaultIsKnownAgainByWhatItIs) {
  comparison::Fault a, b;
  a.kind = b.kind = FindingKind::kAmplified;
  a.op = b.op = "aten.sub.Tensor";
  a.phase = b.phase = Phase::kForward;
  a.source = "/x/train.py:20";
  b.source = "/y/train.py:22";
  EXPECT_TRUE(comparison::IsSameFault(a, b));
  b.source = "/y/loss.py:20";
  EXPECT_FALSE(comparison::IsSameFault(a, b));
  b.source = a.source;
  b.op = "aten.exp";
  EXPECT_FALSE(comparison::IsSameFault(a, b));
  // What was not measured: its layer and phase, without wrappers, or its documented cause.
  comparison::Fault c, d;
  c.layer = "module.net.4";
  d.layer = "net.4";
  c.phase = d.phase = Phase::kBackward;
  EXPECT_TRUE(comparison::IsSameFault(c, d));
  d.phase = Phase::kForward;
  EXPECT_FALSE(comparison::IsSameFault(c, d));
  c.cause = d.cause = "case";
  EXPECT_TRUE(comparison::IsSameFault(c, d));
}

}  // namespace
}  // namespace mpnanny::test
