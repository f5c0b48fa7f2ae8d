// Detectors that judge the order of calls and the course of the steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/runs/detector_facts.h"

namespace mpnanny::diagnosis {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct CourseRow {
  double loss = 1, lr = 0.1;
  std::optional<double> scale, norm = 1.0;
  uint32_t flags = 0;
};

// The turns of `steps` steps; `row` says what each is like.
template <typename F>
Turns TurnsOf(int64_t steps, const F& row) {
  TurnFinder finder;
  for (int64_t step = 0; step < steps; ++step) {
    const CourseRow made = row(step);
    runs::StepRow given;
    given.step = step;
    // No two losses of a training are the same.
    given.loss = made.loss * (1 + 0.01 * static_cast<double>(step % 7));
    given.lr = made.lr;
    given.loss_scale = made.scale;
    if (made.norm) given.grad_norm = *made.norm * (1 + 0.02 * static_cast<double>(step % 5));
    given.flags = made.flags;
    finder.Add(given);
  }
  return finder.Finish();
}

Facts Healthy(const Turns& turns) {
  Facts facts;
  facts.precision = Precision::kBf16;
  facts.turns = turns;
  facts.summary.first_step = 0;
  facts.summary.steps = turns.steps;
  facts.summary.loss_first = 2.0;
  facts.summary.loss_end = 1.0;
  return facts;
}

TEST(LrJump, NeedsAJumpAndALossThatFollows) {
  const auto jump = [](double loss) {
    return TurnsOf(100, [loss](int64_t step) {
      return CourseRow{.loss = step >= 50 && step < 60 ? loss : 1.0, .lr = step == 50 ? 5.0 : 0.1};
    });
  };
  Facts facts = Healthy(jump(40));
  EXPECT_TRUE(Fires(facts, "lr-jump"));
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.loop.phases = {{.step = 50}};  // another optimizer takes over, with a rate of its own
  EXPECT_FALSE(Fires(facts, "lr-jump"));
  facts.loop.phases = {{.step = 49}};
  EXPECT_TRUE(Fires(facts, "lr-jump"));
  facts.turns = jump(1.0);  // nothing came of it
  EXPECT_FALSE(Fires(facts, "lr-jump"));
  // A warm-up from 0, and a cosine that starts anew at its own height.
  facts.turns = TurnsOf(100, [](int64_t step) {
    return CourseRow{.loss = step == 60 ? 40.0 : 1.0,
                     .lr = step < 60
                               ? 0.001 * static_cast<double>(step)
                               : 0.0585 * (1 + std::cos(0.1 * static_cast<double>(step - 60))) / 2};
  });
  EXPECT_TRUE(facts.turns.lr_jumps.empty());
  EXPECT_FALSE(Fires(facts, "lr-jump"));
}

// A schedule that is at 0 from `zero` on, with a loss of its own.
template <typename F>
Turns ScheduleTo(int64_t zero, int64_t steps, const F& loss) {
  return TurnsOf(steps, [&](int64_t step) {
    return CourseRow{.loss = loss(step),
                     .lr = step >= zero ? 0.0
                                        : 0.002 * static_cast<double>(step) /
                                              static_cast<double>(std::max<int64_t>(1, zero))};
  });
}

TEST(ZeroRate, AScheduleThatIsOverBeforeTheTraining) {
  const auto flat = [](int64_t) { return 2.0; };
  Facts facts = Healthy(ScheduleTo(32, 256, flat));
  ASSERT_TRUE(Fires(facts, "zero-learning-rate"));
  const Claim claim = *FindClaim(RunDetectors(facts), "zero-learning-rate");
  EXPECT_TRUE(claim.fault);
  EXPECT_EQ(claim.place->step, 32);
  EXPECT_NE(claim.sentence.English().find("from step 32 to the end (224 of 256 steps)"),
            std::string::npos)
      << claim.sentence.English();
  facts.turns = ScheduleTo(0, 256, flat);  // all along
  EXPECT_TRUE(Fires(facts, "zero-learning-rate"));
  facts.turns = ScheduleTo(250, 256, flat);  // a schedule's end; its first step has a rate of 0 too
  EXPECT_FALSE(Fires(facts, "zero-learning-rate"));
  facts.turns = ScheduleTo(32, 256, [](int64_t step) {  // another group learns
    return step < 40 ? 2.0 : 80.0 / static_cast<double>(step);
  });
  EXPECT_FALSE(Fires(facts, "zero-learning-rate"));
}

TEST(ZeroRate, ItAloneExplainsWeightsThatDoNotMove) {
  Facts facts = Healthy(ScheduleTo(32, 256, [](int64_t) { return 2.0; }));
  AddSeries(facts, "0.weight", runs::kGradient, "float32", {{0, 1}, {100, 1}, {200, 1}});
  AddSeries(facts, "0.weight", runs::kUpdate, "float32", {{0, 0}, {100, 0}, {200, 0}});
  EXPECT_TRUE(Fires(facts, "zero-learning-rate"));
  EXPECT_FALSE(Fires(facts, "zeroed-updates"));
  facts.profile.series.back().points[2].absmax = 1e-3;  // the rate is that of one group of several
  EXPECT_FALSE(Fires(facts, "zero-learning-rate"));
}

TEST(ZeroRate, ALogThatRoundsItsRatesTo0ShowsNone) {
  const auto rounded = [](double digits) {
    return TurnsOf(200, [=](int64_t step) {
      const double rate = 1e-3 * (1 + std::cos(3.1416 * static_cast<double>(step) / 200));
      return CourseRow{.loss = 2.0, .lr = std::round(rate * digits) / digits};
    });
  };
  Facts facts = Healthy(rounded(1e4));
  facts.monitored = false;
  ASSERT_GT(facts.turns.zero_rate.steps, 15);
  EXPECT_FALSE(Fires(facts, "zero-learning-rate"));
  facts.turns = ScheduleTo(32, 200, [](int64_t) { return 2.0; });
  EXPECT_TRUE(Fires(facts, "zero-learning-rate"));
}

TEST(OutlierBatch, OneStepThatIsSoonOver) {
  const auto spike = [](int64_t length, double height) {
    return TurnsOf(200, [=](int64_t step) {
      return CourseRow{.loss = step >= 100 && step < 100 + length ? height : 1.0};
    });
  };
  Facts facts = Healthy(spike(1, 30));
  EXPECT_TRUE(Fires(facts, "outlier-batch"));
  EXPECT_EQ(facts.turns.spikes.front().step, 100);
  facts.turns = spike(90, 30);  // it does not come back in time
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.turns = spike(1, 1.4);  // a hard batch
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.turns = TurnsOf(200, [](int64_t step) {  // far under what the run began with
    return CourseRow{.loss = step == 0 ? 500.0 : step == 100 ? 30.0 : 1.0};
  });
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.summary.loss_first = 0;
  facts.turns = TurnsOf(200, [](int64_t step) {  // a policy's loss: its level is 0
    return CourseRow{.loss = step == 20    ? -0.6
                             : step == 100 ? 0.5
                                           : 0.01 * static_cast<double>(step % 3)};
  });
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
}

TEST(OutlierBatch, TwoOfAKindAreTheTasks) {
  for (const double second : {1.0, 8.0, 25.0}) {
    const Facts facts = Healthy(TurnsOf(300, [=](int64_t step) {
      return CourseRow{.loss = step == 100 ? 30.0 : step == 200 ? second : 1.0};
    }));
    std::vector<Claim> claims;
    DetectOutlierBatch(facts, claims);
    ASSERT_EQ(claims.size(), 1u) << second;
    EXPECT_EQ(claims[0].note, second == 25.0) << second;
    EXPECT_EQ(claims[0].open, second != 25.0) << second;
  }
}

TEST(Divergence, ALossThatIsThrownAboutAndEndsNoLower) {
  Facts facts = Healthy(
      TurnsOf(120, [](int64_t step) { return CourseRow{.loss = step % 25 == 20 ? 40.0 : 1.0}; }));
  facts.summary.loss_end = 2.5;
  facts.course.loss_greatest = 40;
  EXPECT_TRUE(Fires(facts, "diverged"));
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.summary.loss_end = 1.0;
  EXPECT_FALSE(Fires(facts, "diverged"));
}

TEST(Divergence, OfACompiledStepThatWasNotComparedTheLearningRateIsNotBlamed) {
  Facts facts = Healthy(
      TurnsOf(120, [](int64_t step) { return CourseRow{.loss = step % 25 == 20 ? 40.0 : 1.0}; }));
  facts.summary.loss_end = 2.5;
  facts.course.loss_greatest = 40;
  facts.precision = Precision::kFp32;
  const auto claim = [&]() -> Claim { return *FindClaim(RunDetectors(facts), "diverged"); };
  EXPECT_EQ(claim().strength, 1);
  EXPECT_FALSE(claim().opposes.empty());
  facts.measured.steps.emplace_back().eager = true;
  EXPECT_LT(claim().strength, 0.5);
  EXPECT_TRUE(claim().opposes.empty());
  EXPECT_NE(claim().sentence.English().find("not as torch.compile has made it"), std::string::npos);
}

TEST(ScalerOrder, EachWrongOrderOfCalls) {
  Facts facts = Healthy({});
  facts.summary.scale_first = facts.summary.scale_max = 1024;
  facts.loop.clips.push_back({3, false, 1.0, 2.0, "float32"});
  EXPECT_FALSE(Fires(facts, "clipped-while-scaled"));
  facts.loop.clips.push_back({4, true, 1.0, 2000.0, "float32"});
  EXPECT_TRUE(Fires(facts, "clipped-while-scaled"));
  EXPECT_FALSE(Fires(facts, "scaled-step"));
  facts.loop.direct_step = 0;  // then everything is scaled, and that is the fault
  facts.loop.direct_lines = {"loop.py:7", "train.py:40"};
  EXPECT_TRUE(Fires(facts, "scaled-step"));
  const Claim called = *FindClaim(RunDetectors(facts), "scaled-step");
  EXPECT_EQ(called.lines, facts.loop.direct_lines);
  EXPECT_TRUE(called.sentence.English().ends_with("It is called at loop.py:7, train.py:40."));
  EXPECT_EQ(called.place->source, "loop.py:7");
  EXPECT_FALSE(Fires(facts, "clipped-while-scaled"));
  facts.loop = {};
  facts.loop.unguarded_step = 0;  // of finite gradients nothing comes
  EXPECT_FALSE(Fires(facts, "unguarded-step"));
  facts.onset.emplace();
  facts.onset->step = 50;
  facts.onset->phase = Phase::kBackward;
  facts.bad_at_end = true;
  EXPECT_TRUE(Fires(facts, "unguarded-step"));
  facts.summary.skipped_steps = 1;  // then a scaler leaves steps out
  EXPECT_FALSE(Fires(facts, "unguarded-step"));
  facts.summary.skipped_steps = 0;
  facts.onset.reset();
  facts.bad_at_end = false;
  facts.loop = {};
  facts.loop.update_missing = 7;
  EXPECT_TRUE(Fires(facts, "missing-update"));
  facts.loop = {};
  facts.loop.gradients_replaced = 7;
  EXPECT_TRUE(Fires(facts, "gradients-replaced"));
}

TEST(ScalerOrder, ClippingByHandPinsTheScaledNorm) {
  const auto pinned = [](double norm) {
    TurnFinder finder;
    for (int64_t step = 0; step < 40; ++step) {
      runs::StepRow row;
      row.step = step;
      row.loss_scale = step < 20 ? 65536 : 131072;
      row.grad_norm = norm > 0 ? norm : 1.0 / *row.loss_scale;
      finder.Add(row);
    }
    return finder.Finish();
  };
  Facts facts = Healthy(pinned(0));
  facts.summary.scale_first = facts.summary.scale_max = 65536;
  EXPECT_TRUE(Fires(facts, "clipped-while-scaled"));
  facts.turns = pinned(1.0);  // clipped after unscaling: the norm itself is the limit
  EXPECT_FALSE(Fires(facts, "clipped-while-scaled"));
}

TEST(ScalerRestart, AJumpUpAndASearchBehindIt) {
  const auto restart = [](double to, int64_t skips) {
    return TurnsOf(120, [=](int64_t step) {
      CourseRow row;
      row.scale = step < 60 ? 512.0 : std::max(512.0, to / std::pow(2, step - 60));
      row.flags = step >= 60 && step < 60 + skips ? 4 | 8 : 0;
      return row;
    });
  };
  Facts facts = Healthy(restart(65536, 7));
  facts.summary.scale_first = facts.summary.scale_max = 512;
  EXPECT_TRUE(Fires(facts, "scaler-restarted"));
  facts.turns = restart(65536, 0);  // set by hand, and it fits
  EXPECT_FALSE(Fires(facts, "scaler-restarted"));
  facts.turns = restart(1024, 1);  // growing
  EXPECT_FALSE(Fires(facts, "scaler-restarted"));
}

TEST(ScalerRestart, ARunThatGoesOnFromAnother) {
  Facts facts = Healthy(TurnsOf(60, [](int64_t step) {
    return CourseRow{.scale = 65536.0 / std::pow(2, std::min<int64_t>(step, 7)),
                     .flags = step < 7 ? 4u | 8u : 0u};
  }));
  facts.summary.scale_first = facts.summary.scale_max = 65536;
  EXPECT_FALSE(Fires(facts, "scaler-restarted"));  // a first search is a scaler's own
  facts.parent = Parent{1, 500, 1.0, 512.0};
  EXPECT_TRUE(Fires(facts, "scaler-restarted"));
  facts.parent->last_scale = 65536;
  EXPECT_FALSE(Fires(facts, "scaler-restarted"));
}

TEST(OptimizerRestart, WithoutStateInTheMiddleAndALossThatJumps) {
  Facts facts = Healthy(TurnsOf(
      200, [](int64_t step) { return CourseRow{.loss = step >= 101 && step < 110 ? 20.0 : 1.0}; }));
  facts.loop.optimizers = {{0, "Adam", 0.1, 1e-8, 4, 0}, {100, "Adam", 0.1, 1e-8, 4, 0}};
  EXPECT_TRUE(Fires(facts, "optimizer-restarted"));
  EXPECT_FALSE(Fires(facts, "outlier-batch"));
  facts.loop.phases = {{100, 1}};
  EXPECT_TRUE(Fires(facts, "optimizer-restarted")) << "weights were loaded for it";
  facts.loop.phases = {{100, 0}};
  EXPECT_FALSE(Fires(facts, "optimizer-restarted")) << "a new phase of the training";
  facts.loop.phases.clear();
  facts.loop.optimizers[1].with_state = 4;
  EXPECT_FALSE(Fires(facts, "optimizer-restarted"));
  facts.loop.optimizers[1] = {180, "Adam", 0.1, 1e-8, 4, 0};  // and nothing happened
  EXPECT_FALSE(Fires(facts, "optimizer-restarted"));
}

TEST(LostUpdates, ANormOfExactlyZeroFromSomeStepOn) {
  const auto zero = [](int64_t steps) {
    return TurnsOf(60, [=](int64_t step) {
      CourseRow row;
      row.norm = step >= 30 && step < 30 + steps ? 0.0 : 1.0;
      return row;
    });
  };
  Facts facts = Healthy(zero(30));
  AddSeries(facts, "w", runs::kWeight, "float16", {{0, 1}});
  EXPECT_TRUE(Fires(facts, "zeroed-updates"));
  EXPECT_TRUE(Fires(facts, "half-clip-norm"));
  facts.profile.series[0].dtype = "float32";
  EXPECT_TRUE(Fires(facts, "zeroed-updates"));
  EXPECT_FALSE(Fires(facts, "half-clip-norm"));
  facts.turns = zero(2);
  EXPECT_FALSE(Fires(facts, "zeroed-updates"));
}

TEST(LostUpdates, AnInfiniteNormToClipByInHalf) {
  Facts facts = Healthy({});
  facts.loop.clips.push_back({12, false, 1.0, kInf, "float16"});
  EXPECT_TRUE(Fires(facts, "half-clip-norm"));
  facts.loop.clips[0].norm_dtype = "float32";  // a gradient is infinite, and that is another
  EXPECT_FALSE(Fires(facts, "half-clip-norm"));
}

TEST(Recurrence, WhoseGradientGrewThroughTime) {
  Facts facts = BrokenAt(60, "forward", "head");
  facts.precision = Precision::kFp32;
  AddSeries(facts, "rnn.weight_hh_l0", runs::kGradient, "float32", {{0, 1}, {50, 4000}});
  AddSeries(facts, "head.weight", runs::kGradient, "float32", {{0, 1}, {50, 3}});
  EXPECT_TRUE(Fires(facts, "recurrent-explosion"));
  facts.profile.series[1].points[1].absmax = 5000;  // all of them grew
  EXPECT_FALSE(Fires(facts, "recurrent-explosion"));
  facts.onset->layer_type = "LSTM";
  EXPECT_TRUE(Fires(facts, "recurrent-explosion"));
  facts.precision = Precision::kFp16;  // there it may be FP16's range
  EXPECT_FALSE(Fires(facts, "recurrent-explosion"));
}

}  // namespace
}  // namespace mpnanny::diagnosis
