// What a curve shows at a glance and a long history hides: early excursions, a loss scale that is 1
// throughout, a loss that is logged as 0.
#include <gtest/gtest.h>

#include <cmath>

#include "engines/diagnosis/answer/timeline.h"
#include "engines/diagnosis/facts/step_course.h"
#include "tests/runs/detector_facts.h"

namespace mpnanny::diagnosis {
namespace {

// A loss that falls from 12 to 6, with a little noise, and a gradient norm of 1.3.
runs::StepRow Falling(int64_t step) {
  runs::StepRow row;
  row.step = step;
  row.loss = 6 + 6 * std::exp(-0.02 * static_cast<double>(step)) +
             0.02 * static_cast<double>((step * 7) % 5 - 2);
  row.grad_norm = 1.3 + 0.05 * static_cast<double>(step % 4);
  return row;
}

// … with a hump of that height, five steps wide, at a step.
template <typename F>
Facts With(int64_t steps, const F& change) {
  Facts facts;
  facts.precision = Precision::kBf16;
  TurnFinder turns;
  StepCourse course;
  for (int64_t step = 0; step < steps; ++step) {
    runs::StepRow row = Falling(step);
    change(row);
    turns.Add(row);
    course.Add(row);
  }
  facts.turns = turns.Finish();
  course.Finish(facts);
  facts.alerts = course.DerivedAlerts();
  facts.summary.steps = facts.summary.finite_losses = steps;
  facts.summary.first_step = 0;
  facts.summary.last_step = steps - 1;
  facts.summary.loss_first = 12;
  facts.summary.loss_end = 6;
  return facts;
}

auto Hump(int64_t at, double factor, double norm) {
  return [=](runs::StepRow& row) {
    const double share = 1 - std::fabs(static_cast<double>(row.step - at)) / 4;
    if (share <= 0) return;
    row.loss = *row.loss * (1 + (factor - 1) * share);
    row.grad_norm = *row.grad_norm * (1 + (norm - 1) * share);
  };
}

bool InTimeline(const Facts& facts, const std::string& words) {
  for (const Moment& moment : TimelineOf(facts, {})) {
    if (moment.what.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST(EarlyExcursion, StandsInTheTimeLineOfALongRecord) {
  for (const int64_t at : {8, 17, 30, 60}) {
    const Facts facts = With(600, Hump(at, 1.8, 17));
    ASSERT_EQ(facts.turns.excursions.size(), 1u) << at;
    const Excursion& seen = facts.turns.excursions.front();
    EXPECT_NEAR(static_cast<double>(seen.peak_step), static_cast<double>(at), 1);
    EXPECT_LT(seen.step, at);
    ASSERT_TRUE(seen.over) << at;
    EXPECT_TRUE(InTimeline(facts, "the loss rises from about")) << at;
    EXPECT_TRUE(Fires(facts, "loss-jumped")) << at;
    EXPECT_TRUE(FindClaim(RunDetectors(facts), "loss-jumped")->passing);
  }
}

TEST(EarlyExcursion, FourTimesTheLossInOneStep) {
  const Facts facts = With(600, [](runs::StepRow& row) {
    if (row.step == 30) row.loss = 4 * *row.loss;
  });
  EXPECT_EQ(facts.turns.excursions.size(), 1u);
  EXPECT_TRUE(InTimeline(facts, "three quarters of the rise are gone at step 31"));
}

TEST(EarlyExcursion, NoiseATrendAndASolvedTaskHaveNone) {
  EXPECT_TRUE(With(600, [](runs::StepRow&) {}).turns.excursions.empty());
  EXPECT_TRUE(With(600,
                   [](runs::StepRow& row) {  // a loss of single samples
                     row.loss =
                         *row.loss * (1 + 0.9 * std::sin(static_cast<double>(row.step * row.step)));
                   })
                  .turns.excursions.empty());
  EXPECT_TRUE(With(600,
                   [](runs::StepRow& row) {  // a warm-up that the loss follows slowly
                     row.loss = 3 + 0.01 * static_cast<double>(row.step);
                   })
                  .turns.excursions.empty());
  EXPECT_TRUE(With(600,
                   [](runs::StepRow& row) {  // solved, with spikes of a thousandth
                     row.loss = row.step < 200
                                    ? 0.5 * std::exp(-0.06 * static_cast<double>(row.step))
                                : row.step % 50 ? 1.5e-6
                                                : 0.005;
                   })
                  .turns.excursions.empty());
  // Losses of single batches: one that is high alone, and the next is as before.
  EXPECT_TRUE(With(600, [](runs::StepRow& row) {
                row.loss = 0.005 + 0.03 * static_cast<double>((row.step * 37) % 11 == 0);
                if (row.step == 300) row.loss = 0.09;
              }).turns.excursions.empty());
  // A hard batch whose gradient is like any other's is told and is no cause.
  const Facts calm = With(600, Hump(30, 1.8, 1));
  EXPECT_EQ(calm.turns.excursions.size(), 1u);
  EXPECT_FALSE(Fires(calm, "loss-jumped"));
}

TEST(ScaleCourse, AConstantScaleOfOneIsNoCollapse) {
  const auto track = [](double scale_from, int64_t falls_until, uint32_t flags_low) {
    ScaleCourse course;
    for (int64_t step = 0; step < 60; ++step) {
      runs::StepRow row;
      row.step = step;
      row.loss_scale = std::max(1.0, scale_from / std::pow(2, std::min(step, falls_until)));
      if (*row.loss_scale <= 1) row.flags = flags_low;
      course.Add(row);
    }
    return course.Finish();
  };
  EXPECT_FALSE(track(1, 0, 0).collapsed) << "as trainers print it in BF16";
  EXPECT_TRUE(track(65536, 16, 0).collapsed);
  EXPECT_TRUE(track(1, 0, runs::kSkipped).collapsed) << "an extract that begins when it is down";
  EXPECT_EQ(track(65536, 16, 0).collapsed_from, 16);
}

TEST(StepCourse, ALossOfZeroCountsWhereNoGradientLives) {
  const auto zeros = [](std::optional<double> norm) {
    return With(40,
                [norm](runs::StepRow& row) {
                  if (row.step >= 10) row.loss = 0;
                  if (row.step >= 10) row.grad_norm = norm;
                })
        .course;
  };
  EXPECT_EQ(zeros({}).zero_losses, 30);
  EXPECT_EQ(zeros({}).zero_from, 10);
  EXPECT_EQ(zeros(0.0).zero_losses, 30);
  EXPECT_EQ(zeros(0.7).zero_losses, 0) << "a policy's loss is 0 by construction";
}

}  // namespace
}  // namespace mpnanny::diagnosis
