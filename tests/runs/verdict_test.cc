// The rows of the verdict, one by one: a record that makes a row answer, and the nearest that does
// not.
#include "engines/diagnosis/verdict/verdict.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/runs/causes_facts.h"
#include "tests/runs/same_figures.h"

namespace mpnanny::diagnosis {
namespace {

// A hundred steps of a monitored run that learns.
Facts Learns() {
  Facts facts;
  summary::Summary& s = facts.summary;
  s.steps = s.finite_losses = 100;
  s.first_step = s.loss_first_step = 0;
  s.last_step = s.loss_min_step = 99;
  s.loss_first = s.loss_start = 2;
  s.loss_last = s.loss_end = s.loss_min = 1;
  s.sampled_steps = 10;
  facts.progress.loss = Improved{"", 2, 1, 100};
  return facts;
}

struct Ruled {
  std::string verdict, reason;
};
Ruled JudgeOf(const Facts& facts, const std::vector<Claim>& claims = {}) {
  Diagnosis d;
  Judge(facts, claims, d);
  if (claims.empty()) {  // these have no Chinese words
    test::ExpectChinese(d.reason);
    test::ExpectChinese(d.headline);
  }
  return {NameOf(d.verdict), d.reason.English()};
}

void Expect(const Ruled& ruled, const std::string& verdict, const std::string& part) {
  EXPECT_EQ(ruled.verdict, verdict) << ruled.reason;
  EXPECT_NE(ruled.reason.find(part), std::string::npos) << ruled.reason;
}

Facts With(const std::function<void(Facts&)>& change) {
  Facts facts = Learns();
  change(facts);
  return facts;
}

Claim Found(const std::string& id, Ground ground) {
  Claim claim = Sure(id);
  claim.ground = ground;
  return claim;
}

LogHit Line(const std::string& line, double weight) {
  LogHit hit;
  hit.line = line;
  hit.weight = weight;
  return hit;
}

TEST(Verdict, ARunThatLearnsIsHealthy) {
  Expect(JudgeOf(Learns()), "healthy",
         "No sign of trouble in 100 steps: the loss went from 2 to 1");
}

TEST(Verdict, WhatIsNotFinite) {
  const auto broken = [](int64_t bad_losses, bool at_end, int64_t good_after) {
    return With([&](Facts& f) {
      Breaks(f, 50);
      f.onset->what = runs::Form("NaN in x", "x 中的 NaN");
      f.summary.nonfinite_losses = bad_losses;
      f.bad_at_end = at_end;
      f.good_steps_after = good_after;
    });
  };
  Expect(JudgeOf(broken(50, true, 0)), "broken", "first bad step 50: NaN in x. It did not recover");
  Expect(JudgeOf(broken(0, true, 5)), "broken", "It did not recover");
  Expect(JudgeOf(broken(1, false, 49)), "degraded", "1 loss of 100 steps are not finite");
  Expect(JudgeOf(broken(0, false, 49)), "degraded", "while the logged loss is finite");
  Facts ends = broken(1, true, 0);
  ends.summary.last_step = 50;
  Expect(JudgeOf(ends), "broken", "The record ends there");
}

TEST(Verdict, WhatStaysNotFiniteComesBeforeTheFirstBadStep) {
  Claim stays = Found("poisoned-buffer", Ground::kMeasured);
  stays.stays = true;
  Facts facts = With([](Facts& f) { Breaks(f, 50); });
  Expect(JudgeOf(facts, {stays}), "broken", "Seen: poisoned-buffer.");
  stays.stays = false;
  Expect(JudgeOf(facts, {stays}), "degraded", "while the logged loss is finite");
}

TEST(Verdict, ReplacedGradientsWorsenARunWhoseLossIsFinite) {
  const Claim replaced = Found("gradients-replaced", Ground::kMeasured);
  Expect(JudgeOf(Learns(), {replaced}), "degraded", "it is worse for it");
  Facts bad = With([](Facts& f) {
    Breaks(f, 50);
    f.summary.nonfinite_losses = 50;
  });
  Expect(JudgeOf(bad, {replaced}), "broken", "The run broke");
}

TEST(Verdict, MessagesOfTorch) {
  const auto said = [](const std::string& line, double weight, int64_t steps) {
    return With([&](Facts& f) {
      f.log_hits = {Line(line, weight)};
      f.summary.steps = steps;
    });
  };
  Expect(JudgeOf(said("RuntimeError: x", 4, 100)), "broken", "A known error was raised");
  Expect(JudgeOf(said("UserWarning: x", 4, 100)), "degraded", "a line tells of a known fault");
  Expect(JudgeOf(said("RuntimeError: x", 2, 100)), "degraded", "a line tells of a known fault");
  Expect(JudgeOf(said("x", 2, 2)), "degraded", "A line tells of a known fault");
  Expect(JudgeOf(said("x", 1.9, 100)), "healthy", "No sign of trouble");
}

TEST(Verdict, TooFewSteps) {
  const auto of = [](int64_t steps) { return With([&](Facts& f) { f.summary.steps = steps; }); };
  Expect(JudgeOf(of(0)), "not_established", "No step was recorded");
  Expect(JudgeOf(of(2)), "not_established", "Only 2 steps recorded");
  Expect(JudgeOf(of(3)), "healthy", "3 steps");
}

TEST(Verdict, AnExceptionIsToldBeforeTooFewSteps) {
  Facts facts = With([](Facts& f) {
    f.summary.steps = 1;
    f.loop.failed.emplace();
    f.loop.failed->error = "ValueError";
    f.loop.failed->text = "x";
  });
  Expect(JudgeOf(facts), "not_established", "Only 1 step were recorded before");
  facts.log_hits = {Line("ValueError: x", 2)};
  facts.log_hits[0].raised = true;
  Expect(JudgeOf(facts), "broken", "ValueError");
}

TEST(Verdict, TheLossScale) {
  Facts facts = With([](Facts& f) {
    f.scale.collapsed = true;
    f.summary.scale_min = 1;
  });
  Expect(JudgeOf(facts), "broken", "collapsed at 1");
  facts.scale.stuck = true;
  Expect(JudgeOf(facts), "broken", "stuck at 1");
  Expect(JudgeOf(With([](Facts& f) {
           f.scale.declining = true;
           f.scale.fall_from = 512;
           f.scale.fall_to = 2;
         })),
         "degraded", "keeps falling: from 512 to 2");
}

TEST(Verdict, Divergence) {
  const auto ends_at = [](double loss) {
    return With([&](Facts& f) {
      f.summary.loss_end = f.summary.loss_last = loss;
      f.summary.loss_min = 1.9;
    });
  };
  Expect(JudgeOf(ends_at(20)), "broken", "the loss rose from about 2");
  Expect(JudgeOf(ends_at(2.1)), "healthy", "the loss did not fall");
  Facts again = With([](Facts& f) {
    f.summary.loss_end = 1.9;
    f.course.loss_low = 0.5;
    f.course.norm_at_low = 1;
    f.turns.last_norm = 6;
  });
  Expect(JudgeOf(again), "broken", "the loss had fallen to about 0.5");
  again.turns.last_norm = 1;
  Expect(JudgeOf(again), "healthy", "No sign of trouble");
}

TEST(Verdict, SkippedSteps) {
  const auto skips = [](int64_t count, int64_t at_end) {
    return With([&](Facts& f) {
      f.summary.skipped_steps = count;
      f.summary.skipped_at_end = at_end;
    });
  };
  Expect(JudgeOf(skips(40, 0)), "degraded", "40 optimizer steps of 100 were skipped");
  Expect(JudgeOf(skips(12, 12)), "degraded", "12 optimizer steps of 100");
  Expect(JudgeOf(skips(12, 2)), "healthy", "No sign of trouble");
}

TEST(Verdict, ALongRowOfSkipsIsAFaultInALogOnly) {
  Facts facts = With([](Facts& f) {
    Burst burst;
    burst.first = 30;
    burst.steps = 4;
    f.turns.bursts = {burst};
  });
  Expect(JudgeOf(facts), "healthy", "No sign of trouble");
  facts.monitored = false;
  Expect(JudgeOf(facts), "degraded", "4 optimizer steps in a row");
  facts.turns.bursts[0].steps = 3;
  Expect(JudgeOf(facts), "healthy", "No sign of trouble");
  facts.turns.bursts[0].steps = 4;
  facts.turns.bursts[0].scalers_own = true;
  Expect(JudgeOf(facts), "healthy", "No sign of trouble");
}

TEST(Verdict, GradientsThatAreNotFiniteWithoutAScaler) {
  Facts facts = With([](Facts& f) { f.summary.nonfinite_gradient_steps = 40; });
  Expect(JudgeOf(facts), "degraded", "Gradients were not finite in 40 steps of 100");
  facts.summary.scale_first = 1024;
  Expect(JudgeOf(facts), "healthy", "No sign of trouble");
}

TEST(Verdict, ExplosionsThatAreNoWarning) {
  Facts facts = With([](Facts& f) {
    f.alerts = {Raised("GRAD_EXPLOSION")};
    f.alerts[0].row.severity = Severity::kError;
    f.alerts[0].row.step = 90;
  });
  Expect(JudgeOf(facts), "degraded", "Gradients exploded at times");
  facts.alerts[0].row.severity = Severity::kWarning;
  Expect(JudgeOf(facts), "healthy", "No sign of trouble");
}

TEST(Verdict, TheSurestFaultIsTold) {
  Claim weak = Found("lr-jump", Ground::kMeasured), sure = Found("scaled-step", Ground::kMeasured);
  weak.fault = sure.fault = true;
  weak.strength = 0.8;
  Expect(JudgeOf(Learns(), {weak, sure}), "degraded", "Seen: scaled-step.");
  Expect(JudgeOf(Learns(), {sure, weak}), "degraded", "Seen: scaled-step.");
  sure.fault = weak.fault = false;
  Expect(JudgeOf(Learns(), {sure, weak}), "healthy", "No sign of trouble");
}

TEST(Verdict, WhatIsNotUnderstoodStandsBehindAFault) {
  Claim open = Found("outlier-batch", Ground::kRecognised);
  open.open = true;
  Expect(JudgeOf(Learns(), {open}), "not_established", "one thing is not understood");
  Claim fault = Found("scaled-step", Ground::kMeasured);
  fault.fault = true;
  Expect(JudgeOf(Learns(), {open, fault}), "degraded", "Seen: scaled-step.");
}

TEST(Verdict, LostUpdatesMatterWhereTheLossDoesNotFall) {
  const auto ends_at = [](double loss) {
    return With([&](Facts& f) {
      f.alerts = {Raised("STALE_UPDATE")};
      f.summary.loss_end = f.summary.loss_last = loss;
    });
  };
  Expect(JudgeOf(ends_at(1.95)), "degraded", "gradients or updates are lost");
  Expect(JudgeOf(ends_at(1.85)), "healthy", "No sign of trouble");
  Facts policy = ends_at(1.95);
  policy.summary.loss_min = -1;
  Expect(JudgeOf(policy), "healthy", "No sign of trouble");
  Facts without = ends_at(1.95);
  without.alerts.clear();
  Expect(JudgeOf(without), "healthy", "No sign of trouble");
}

TEST(Verdict, NothingWasRecorded) {
  Facts facts = With([](Facts& f) {
    f.summary.loss_first = f.summary.loss_start = f.summary.loss_end = std::nullopt;
    f.summary.finite_losses = f.summary.sampled_steps = 0;
  });
  Expect(JudgeOf(facts), "not_established", "Neither a loss nor a loss scale nor statistics");
  facts.summary.sampled_steps = 1;
  Expect(JudgeOf(facts), "healthy", "No sign of trouble");
}

TEST(Verdict, AJumpAtTheEndOfAShortRecord) {
  Claim jump = Found("loss-jumped", Ground::kRecognised);
  Expect(JudgeOf(Learns(), {jump}), "not_established", "too short to be called healthy");
  jump.passing = true;
  Expect(JudgeOf(Learns(), {jump}), "healthy", "No sign of lasting trouble");
}

TEST(Verdict, EveryStepSkipped) {
  const auto all = [](std::optional<double> scale) {
    return With([&](Facts& f) {
      f.summary.steps = f.summary.skipped_steps = f.summary.skipped_at_start =
          f.summary.skipped_at_end = 5;
      f.summary.scale_last = scale;
    });
  };
  Expect(JudgeOf(all(1)), "broken", "the loss scale is down to 1");
  Expect(JudgeOf(all(4096)), "not_established", "it is at 4096");
  Expect(JudgeOf(all(std::nullopt)), "not_established", "found no scale yet.");
}

TEST(Verdict, LogsThatShowTooLittle) {
  Facts log = With([](Facts& f) {
    f.monitored = false;
    f.summary.finite_losses = 2;
  });
  Expect(JudgeOf(log), "not_established", "The log shows 2 losses");
  log.summary.finite_losses = 3;
  Expect(JudgeOf(log), "healthy", "100 logged steps");
  log.course.zero_losses = 3;
  Expect(JudgeOf(log), "not_established", "logged as exactly 0");
  log.monitored = true;
  Expect(JudgeOf(log), "healthy", "100 steps");
}

// A log is healthy only by what it shows.
TEST(Verdict, ALogHasToEarnIt) {
  Facts log = With([](Facts& f) { f.monitored = false; });
  Expect(JudgeOf(log), "healthy", "No sign of trouble");
  Facts rewarded = log;
  rewarded.progress.rewarded = true;
  Expect(JudgeOf(rewarded), "not_established", "no score that rises");
  rewarded.progress.scores = {{"reward", 0.1, 0.5, 100}};
  Expect(JudgeOf(rewarded), "healthy", "reward went from 0.1 to 0.5");
  Facts flat = log;
  flat.progress.loss.reset();
  Expect(JudgeOf(flat), "not_established", "did not fall clearly");
  flat.monitored = true;
  Expect(JudgeOf(flat), "healthy", "No sign of trouble");
  Facts swings = log;
  swings.turns.excursions.resize(2);
  swings.turns.excursions[0].peak = 2.5;
  swings.turns.excursions[0].before = 0.9;
  Expect(JudgeOf(swings), "degraded", "left its level at least 2 times");
  swings.turns.excursions[0].peak = 1.9;
  Expect(JudgeOf(swings), "healthy", "No sign of trouble");
  Facts spoken = log;
  spoken.spoken = {{"nonfinite", 3, 12, 40, 5, 20, "NaN loss detected"}};
  Expect(JudgeOf(spoken), "degraded", "in 3 lines, the first after step 5 (line 12");
  spoken.spoken[0].fault = "disk";
  Expect(JudgeOf(spoken), "healthy", "No sign of trouble");
  spoken.spoken[0].last_step = 99;
  Expect(JudgeOf(spoken), "broken", "a resource ran out (line 12");
}

TEST(Verdict, WhatShadowStepsMeasuredMakesAHealthyRecordDegraded) {
  Facts facts = WithFindings({FaultOf("amplified", 7)});
  facts.summary = Learns().summary;
  Diagnosis d;
  Judge(facts, {}, d);
  EXPECT_STREQ(NameOf(d.verdict), "degraded");
  EXPECT_EQ(d.reason.English(),
            "Losses alone show no trouble, but shadow steps do, first at step 7.");
  EXPECT_TRUE(d.headline.English().starts_with(d.reason.English()));
  EXPECT_NE(d.headline.English().find("model.py:12"), std::string::npos) << d.headline.English();
}

TEST(Verdict, WhatIsOnlyRecognisedMakesNone) {
  // Units that are off while the gradient is alive.
  Facts facts = Learns();
  Series series;
  series.layer = series.type = "ReLU";
  series.kind = runs::kActivation;
  for (const int64_t step : {0, 50, 90}) {
    Measured point;
    point.step = step;
    point.numel = 1000;
    point.zeros = 990;
    series.points.push_back(point);
  }
  facts.profile.series = {series};
  const std::vector<Claim> claims = RunDetectors(facts);
  ASSERT_NE(FindClaim(claims, "dead-units"), nullptr);
  EXPECT_FALSE(FindClaim(claims, "dead-units")->fault);
  Expect(JudgeOf(facts, claims), "healthy", "One thing to look at");
  facts.turns.lived = true;
  facts.turns.zero_norms = 50;
  facts.turns.zero_norms_first = 50;
  Expect(JudgeOf(facts, RunDetectors(facts)), "degraded", "no gradient passes");
}

}  // namespace
}  // namespace mpnanny::diagnosis
