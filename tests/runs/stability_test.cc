// What makes a run's numbers sound or not, figure by figure: the rules behind run_summary's
// `stable` and `reasons`, over summaries that are put together by hand.
#include "engines/diagnosis/summary/stability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mpnanny::summary {
namespace {

// 1,000 steps whose loss fell from 4 to 1.
Summary Sound() {
  Summary s;
  s.steps = 1000;
  s.first_step = 0, s.last_step = 999;
  s.finite_losses = 1000;
  s.loss_first = 4, s.loss_last = 1.25, s.loss_min = 1, s.loss_min_step = 990;
  s.loss_start = 4, s.loss_end = 1.25;
  return s;
}

AlertGroup Group(const std::string& type, const std::string& severity, int64_t count,
                 int64_t first_step, int64_t discarded = 0) {
  AlertGroup group;
  group.type = Word<AlertType>(type), group.severity = Word<Severity>(severity);
  group.count = count, group.discarded = discarded, group.first_step = first_step;
  return group;
}

runs::Run Ended(runs::Status status, const std::string& reason = "") {
  runs::Run run;
  run.status = status, run.end_reason = Word<EndReason>(reason);
  return run;
}

Summary Judged(Summary s, const runs::Run& run = Ended(runs::Status::kClosed)) {
  JudgeStability(run, s);
  return s;
}

using Sentences = std::vector<std::string>;
const Sentences kSound = {"Every recorded loss is finite: 4 at first, 1.25 at the end.",
                          "No ERROR alert in 1000 steps."};

Sentences With(Sentences sentences, const std::string& more) {
  sentences.push_back(more);
  return sentences;
}

// --- the loss scale ---

struct Scale {
  double first, last;
  int64_t falls, rises, skipped_at_end;
  ScaleState state;
};

TEST(Stability, TheScaleIsJudgedByWhereItEndsAndHowItCameThere) {
  const Scale kTable[] = {
      {65536, 65536, 0, 0, 0, ScaleState::kHealthy},
      // Start-up: halved until gradients fit, and that was it.
      {65536, 1024, 6, 0, 0, ScaleState::kHealthy},
      // At 1 or below, and what overflows goes on there: skips, or falls that nothing makes up for.
      {65536, 1, 16, 0, 0, ScaleState::kCollapsed},
      {65536, 0.5, 17, 0, 0, ScaleState::kCollapsed},
      {2, 1, 1, 0, 3, ScaleState::kCollapsed},
      {2, 1, 1, 0, 2, ScaleState::kHealthy},
      {2, 1, 3, 0, 0, ScaleState::kCollapsed},
      {2, 1, 4, 2, 0, ScaleState::kHealthy},
      {2, 1, 5, 2, 0, ScaleState::kCollapsed},
      // Just above 1 it has not collapsed, but keeps falling.
      {65536, 1.5, 15, 0, 9, ScaleState::kDeclining},
      {65536, 127, 9, 0, 0, ScaleState::kDeclining},
      {65536, 127, 5, 0, 0, ScaleState::kDeclining},
      {65536, 127, 4, 0, 0, ScaleState::kHealthy},
      // Low is what is below 128, and below a hundredth of a very large first scale.
      {12000, 128, 7, 0, 0, ScaleState::kHealthy},
      {12000, 127, 7, 0, 0, ScaleState::kDeclining},
      {1 << 20, 10485, 7, 0, 0, ScaleState::kDeclining},
      {1 << 20, 10486, 7, 0, 0, ScaleState::kHealthy},
      // One that was set low on purpose and ends there again is no fall.
      {64, 64, 6, 6, 0, ScaleState::kHealthy},
      {64, 100, 6, 7, 0, ScaleState::kHealthy},
  };
  for (const Scale& row : kTable) {
    Summary s = Sound();
    s.scale_first = row.first, s.scale_last = row.last;
    s.scale_falls = row.falls, s.scale_rises = row.rises, s.skipped_at_end = row.skipped_at_end;
    EXPECT_EQ(JudgeScale(s), row.state)
        << row.first << " to " << row.last << ", " << row.falls << " falls";
  }
  EXPECT_EQ(JudgeScale(Sound()), ScaleState::kNone);
  Summary half = Sound();
  half.scale_first = 2;
  EXPECT_EQ(JudgeScale(half), ScaleState::kNone);
}

TEST(Stability, ASoundScaleIsToldAndAFallenOneIsAReason) {
  Summary s = Sound();
  s.scale_first = 65536, s.scale_last = 4096, s.scale_falls = 5, s.scale_rises = 1;
  const Summary sound = Judged(s);
  EXPECT_EQ(sound.stable, true);
  EXPECT_EQ(sound.reasons, With(kSound, "The loss scale is in order: 4096, 5 falls, 1 rise."));
  s.scale_last = 64, s.scale_falls = 10, s.scale_rises = 0;
  const Summary falling = Judged(s);
  EXPECT_EQ(falling.stable, false);
  EXPECT_EQ(falling.reasons, Sentences({"The loss scale keeps falling: 65536 at first, 64 at the "
                                        "end, 10 falls, 0 rises."}));
  s.scale_last = 0.25, s.scale_falls = 18;
  const Summary collapsed = Judged(s);
  EXPECT_EQ(collapsed.stable, false);
  EXPECT_EQ(collapsed.reasons, Sentences({"The loss scale collapsed: 65536 at first, 0.25 at the "
                                          "end, 18 falls, 0 rises."}));
}

// --- skipped steps ---

TEST(Stability, SkipsAreTooManyBeyondStartUpAndOneInTwoHundred) {
  struct {
    int64_t steps, skipped, at_end;
    bool too_many;
  } const kTable[] = {
      {1000, 0, 0, false},
      {1000, 21, 0, false},  // 16 of start-up and 5 of 1,000 steps
      {1000, 22, 0, true},
      {100'000, 516, 0, false},
      {100'000, 517, 0, true},
      {1000, 8, 8, false},
      {1000, 9, 9, true},  // it has not come to an end
      // A run that is all start-up is not known to be wrong.
      {10, 10, 10, false},
      {11, 10, 10, true},
  };
  for (const auto& row : kTable) {
    Summary s = Sound();
    s.steps = row.steps, s.skipped_steps = row.skipped, s.skipped_at_end = row.at_end;
    EXPECT_EQ(TooManySkips(s), row.too_many)
        << row.skipped << " of " << row.steps << ", " << row.at_end << " at the end";
    EXPECT_EQ(Judged(s).stable, !row.too_many);
  }
}

TEST(Stability, SkippedStepsAreCountedInWords) {
  Summary s = Sound();
  s.skipped_steps = 40;
  EXPECT_EQ(Judged(s).reasons, Sentences({"40 optimizer steps of 1000 were skipped."}));
  s.skipped_at_end = 2;
  EXPECT_EQ(Judged(s).reasons, Sentences({"40 optimizer steps of 1000 were skipped."}));
  s.skipped_at_end = 3;
  EXPECT_EQ(Judged(s).reasons,
            Sentences({"40 optimizer steps of 1000 were skipped, among them the last 3."}));
}

// --- gradients without a scaler ---

TEST(Stability, BadGradientsCountWhereNoScalerSkipsThem) {
  struct {
    int64_t bad, at_end;
    bool too_many;
  } const kTable[] = {{0, 0, false}, {21, 0, false}, {22, 0, true}, {1, 1, true}};
  for (const auto& row : kTable) {
    Summary s = Sound();
    s.nonfinite_gradient_steps = row.bad, s.nonfinite_gradients_at_end = row.at_end;
    s.first_nonfinite_gradient = 17;
    EXPECT_EQ(TooManyBadGradients(s), row.too_many) << row.bad;
    Summary scaled = s;
    scaled.scale_first = 1024;
    EXPECT_FALSE(TooManyBadGradients(scaled));
    Summary skipping = s;
    skipping.skipped_steps = 1;
    EXPECT_FALSE(TooManyBadGradients(skipping));
  }
}

TEST(Stability, BadGradientsAreAReasonOrWereLeftOut) {
  Summary s = Sound();
  s.nonfinite_gradient_steps = 30, s.first_nonfinite_gradient = 17;
  const Summary bad = Judged(s);
  EXPECT_EQ(bad.stable, false);
  EXPECT_EQ(bad.reasons, Sentences({"Gradients are not finite in 30 steps, first at step 17, and "
                                    "no loss scaler skipped them."}));
  s.nonfinite_gradient_steps = 1;
  const std::string left_out =
      "Gradients were not finite in 1 step, first at step 17, and did not come into the weights: "
      "losses stayed finite and later gradients are.";
  EXPECT_EQ(DiscardedText(s).English(), left_out);
  const Summary sound = Judged(s);
  EXPECT_EQ(sound.stable, true);
  EXPECT_EQ(sound.reasons, With(kSound, left_out));
  // Of a scaler that is what it is for.
  s.scale_first = s.scale_last = 1024;
  const Sentences scaled = Judged(s).reasons;
  EXPECT_EQ(std::count(scaled.begin(), scaled.end(), left_out), 0);
}

// --- the loss ---

TEST(Stability, ALossRoseThatEndsAtTwiceItsStartAndThriceItsLeast) {
  struct {
    double start, end, least;
    int64_t losses;
    bool rose;
  } const kTable[] = {
      {4, 1, 1, 1000, false},
      {4, 8.1, 2.6, 1000, true},
      {4, 8, 2, 1000, false},
      {4, 7.9, 1, 1000, false},
      {4, 9, 3, 1000, false},
      {4, 9, 3.1, 1000, false},
      {4, 9.1, 3, 1000, true},
      {4, 40, 2, 40, true},
      {4, 40, 2, 39, false},
      // Losses below zero, and those that begin at zero, have a distance as well.
      {-4, -8, -9, 1000, false},
      {-4, 0, -9, 1000, false},
      {-1, 4, -1, 1000, true},
      {-4, 0.1, -0.01, 1000, true},
      {0, 0, 0, 1000, false},
      {0, 0.5, 0, 1000, true},
  };
  for (const auto& row : kTable) {
    Summary s = Sound();
    s.loss_start = row.start, s.loss_end = row.end, s.loss_min = row.least;
    s.finite_losses = row.losses;
    EXPECT_EQ(LossRose(s), row.rose) << row.start << " to " << row.end << ", least " << row.least;
  }
  Summary unknown = Sound();
  unknown.loss_end = 100;
  EXPECT_TRUE(LossRose(unknown));
  Summary no_start = unknown, no_end = unknown;
  no_start.loss_start.reset();
  no_end.loss_end.reset();
  EXPECT_FALSE(LossRose(no_start));
  EXPECT_FALSE(LossRose(no_end));
}

TEST(Stability, ARisingLossIsToldWithItsFigures) {
  Summary s = Sound();
  s.loss_end = 100, s.loss_min = 0.5, s.loss_min_step = 300;
  const Summary risen = Judged(s);
  EXPECT_EQ(risen.stable, false);
  EXPECT_EQ(risen.reasons, Sentences({"The loss rose: about 4 at first, about 100 at the end, "
                                      "least 0.5 at step 300."}));
}

TEST(Stability, LossesThatAreNotFiniteAreAReasonWithTheirRanks) {
  Summary s = Sound();
  s.nonfinite_losses = 1, s.first_nonfinite_loss = 500;
  const Summary one = Judged(s);
  EXPECT_EQ(one.stable, false);
  EXPECT_EQ(one.reasons, Sentences({"The loss is not finite in 1 step, first at step 500."}));
  s.nonfinite_losses = 2;
  s.first_nonfinite_ranks = {1};
  runs::Run run = Ended(runs::Status::kClosed);
  run.world_size = 4;
  EXPECT_EQ(Judged(s, run).reasons,
            Sentences({"The loss is not finite in 2 steps, first at step 500 on rank 1."}));
}

TEST(Stability, ARunWithoutALossSaysSo) {
  Summary s;
  s.steps = 1;
  EXPECT_EQ(Judged(s).stable, true);
  EXPECT_EQ(Judged(s).reasons,
            Sentences({"No loss was recorded; nothing else speaks against the run.",
                       "No ERROR alert in 1 step."}));
}

// --- alerts ---

TEST(Stability, ErrorsDecideAndWarningsAreTold) {
  Summary s = Sound();
  s.alerts = {Group("NAN", "ERROR", 1, 5), Group("INF", "ERROR", 2, 6),
              Group("LOSS_SPIKE", "WARNING", 1, 3), Group("GRAD_VANISH", "WARNING", 4, 9),
              Group("UNTRAINED", "INFO", 1, 0)};
  const Summary bad = Judged(s);
  EXPECT_EQ(bad.stable, false);
  EXPECT_EQ(bad.reasons,
            Sentences({"3 ERROR alerts: NAN from step 5, INF from step 6.",
                       "5 WARNING alerts: LOSS_SPIKE from step 3, GRAD_VANISH from step 9."}));
  s.alerts.erase(s.alerts.begin(), s.alerts.begin() + 2);
  const Summary sound = Judged(s);
  EXPECT_EQ(sound.stable, true);
  EXPECT_EQ(sound.reasons, With(kSound,
                                "5 WARNING alerts: LOSS_SPIKE from step 3, GRAD_VANISH "
                                "from step 9."));
}

TEST(Stability, AlertsAboutGradientsThatWereLeftOutDoNotDecide) {
  Summary s = Sound();
  s.alerts = {Group("INF", "ERROR", 3, 5, 3)};
  EXPECT_EQ(Judged(s).stable, true);
  EXPECT_EQ(Judged(s).reasons, kSound);
  s.alerts = {Group("INF", "ERROR", 3, 5, 2)};
  EXPECT_EQ(Judged(s).stable, false);
  EXPECT_EQ(Judged(s).reasons, Sentences({"1 ERROR alert: INF from step 5."}));
}

TEST(Stability, WhatShadowStepsMeasuredDecidesThoughItIsAWarning) {
  Summary s = Sound();
  s.alerts = {Group("SHADOW_ERROR", "WARNING", 2, 5), Group("PROTOCOL", "WARNING", 1, 7)};
  const Summary bad = Judged(s);
  EXPECT_EQ(bad.stable, false);
  EXPECT_EQ(bad.reasons, Sentences({"Shadow steps measured a fault: SHADOW_ERROR from step 5, "
                                    "PROTOCOL from step 7."}));
  // As an ERROR it is one of those; a remark decides nothing.
  s.alerts = {Group("SHADOW_ERROR", "ERROR", 1, 5)};
  EXPECT_EQ(Judged(s).reasons, Sentences({"1 ERROR alert: SHADOW_ERROR from step 5."}));
  s.alerts = {Group("SHADOW_ERROR", "INFO", 1, 5)};
  EXPECT_EQ(Judged(s).stable, true);
  s.alerts = {Group("LOSS_SPIKE", "WARNING", 1, 5)};
  EXPECT_EQ(Judged(s).stable, true);
}

// --- how it ended, and the diagnosis' verdict ---

TEST(Stability, HowARunEndedIsToldAndDoesNotDecide) {
  const struct {
    runs::Run run;
    std::string sentence;
  } kTable[] = {
      {Ended(runs::Status::kException), "The training ended with an exception."},
      {Ended(runs::Status::kKilled),
       "The training process was killed or went away without closing the run."},
      {Ended(runs::Status::kKilled, "signal"), kEndedBySignal},
  };
  for (const auto& row : kTable) {
    const Summary s = Judged(Sound(), row.run);
    EXPECT_EQ(s.stable, true);
    EXPECT_EQ(s.reasons, With(kSound, row.sentence));
    EXPECT_EQ(Judged(Summary(), row.run).reasons,
              Sentences({"No step was recorded.", row.sentence}));
  }
  EXPECT_EQ(Judged(Sound(), Ended(runs::Status::kClosed)).reasons, kSound);
  EXPECT_EQ(Judged(Summary(), Ended(runs::Status::kClosed)).stable, std::nullopt);
}

TEST(Stability, TheDiagnosisDecidesWhereItHasJudged) {
  struct {
    std::string verdict;
    bool has_bad_loss;
    std::optional<bool> stable;
    bool tells_its_end;
  } const kTable[] = {
      {"healthy", false, true, false},        {"healthy", true, true, false},
      {"broken", false, false, true},         {"degraded", false, false, true},
      {"not_established", false, true, true}, {"not_established", true, false, true},
  };
  for (const auto& row : kTable) {
    Summary s = Sound();
    if (row.has_bad_loss) s.nonfinite_losses = 1, s.first_nonfinite_loss = 500;
    s.verdict = {FindNamed<Health>(row.verdict), "What the diagnosis says."};
    s = Judged(s, Ended(runs::Status::kException));
    EXPECT_EQ(s.stable, row.stable) << row.verdict;
    ASSERT_GE(s.reasons.size(), 2u);
    EXPECT_EQ(s.reasons.front(), "What the diagnosis says.");
    EXPECT_EQ(s.reasons.back() == "The training ended with an exception.", row.tells_its_end)
        << row.verdict;
  }
}

TEST(Stability, ARunWithoutStepsIsJudgedByTheDiagnosisAlone) {
  struct {
    std::string verdict;
    std::optional<bool> stable;
    std::string reason;
  } const kTable[] = {
      {"broken", false, "It failed."},
      {"degraded", false, "It failed."},
      {"not_established", std::nullopt, "No step was recorded."},
      {"", std::nullopt, "No step was recorded."},
  };
  for (const auto& row : kTable) {
    Summary s;
    s.verdict = {FindNamed<Health>(row.verdict), "It failed."};
    s = Judged(s, Ended(runs::Status::kClosed));
    EXPECT_EQ(s.stable, row.stable) << row.verdict;
    EXPECT_EQ(s.reasons, Sentences({row.reason})) << row.verdict;
  }
}

}  // namespace
}  // namespace mpnanny::summary
