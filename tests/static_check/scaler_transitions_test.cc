// The table of scaler/transitions.h: sequences of events, and what is wrong with them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/check/scaler/transitions.h"
#include "tests/static_check/scaler_words.h"

namespace mpnanny::check {
namespace {

struct Sequence {
  const char* events;
  Wrong wrong;
};

void Expect(const std::vector<Sequence>& sequences) {
  for (const auto& [events, wrong] : sequences) EXPECT_EQ(WrongIn(events), wrong) << events;
}

TEST(ScalerTransitions, RightOrders) {
  for (const char* events : {
           "zero_grad scale backward step update zero_grad scale backward step update",
           "zero_grad scale backward unscale clip read replace step update",
           "backward backward unscale clip step update zero_grad backward",
           "backward unscale update zero_grad backward unscale step update",
           // Two optimizers and one update.
           "backward unscale:a unscale:b clip step:a step:b update",
           "backward step:a backward step:b update",
           "zero_grad:a backward step:a zero_grad:b backward step:b update",
           // Two scalers, each with gradients of its own.
           "backward/s step:a/s update/s zero_grad:a backward/t step:b/t update/t",
           // No scaler.
           "any clip read replace plain_step zero_grad any plain_step",
           "zero_grad zero_fill clear set_scale",
       })
    EXPECT_EQ(WrongIn(events), Wrong{}) << events;
}

TEST(ScalerTransitions, GradientsThatCarryTheScale) {
  Expect({
      {"backward clip unscale step", {"clip-scaled 2"}},
      {"backward read unscale step", {"gradients-read 2"}},
      {"backward replace unscale step", {"nan-replaced 2"}},
      {"backward unscale clip read replace", {}},
      {"backward zero_grad clip read replace", {}},
      {"backward clear clip read replace", {}},
      {"backward step clip", {"clip-after-step 3"}},
      {"backward step read replace", {}},
      {"backward step zero_grad clip", {}},
      // Who was unscaled may have been another optimizer, until that one has stepped.
      {"backward unscale:b clip", {}},
      {"backward unscale:b step:b backward clip", {"clip-scaled 5"}},
      {"backward unscale:b step:a clip", {}},
  });
}

// Where the scaler steps, they carried the scale, unless code outside has unscaled.
TEST(ScalerTransitions, GradientsFromOutside) {
  Expect({
      {"clip step", {"clip-scaled 1?"}},
      {"read step", {"gradients-read 1?"}},
      {"clip clip read read step", {"clip-scaled 1?", "gradients-read 3?"}},
      {"clip plain_step", {}},
      {"replace step", {}},
      {"clip read unscale step", {}},
      {"unscale clip read step", {}},
      {"unscale:b clip read step", {}},
      {"clip read unscale:all step", {}},
      {"clip read zero_grad step", {}},
      {"clip read any step", {}},
      {"unseen clip read any step", {}},
      {"clip read step update step", {"clip-scaled 1?", "gradients-read 2?"}},
      {"step clip read update step", {}},
      {"step update zero_grad clip step", {"clip-scaled 4?"}},
  });
  // In a helper it is not known that the gradients are those of the function.
  Event clip;
  clip.kind = Event::Kind::kClip;
  clip.node = 1;
  clip.inner = 2;
  GradientState state;
  std::vector<Violation> violations;
  Apply(clip, state, &violations);
  EXPECT_EQ(WrongIn("step", &state), Wrong{});
}

TEST(ScalerTransitions, Unscale) {
  Expect({
      {"backward unscale unscale", {"double-unscale 3"}},
      {"backward unscale:a unscale:b", {}},
      {"backward unscale:all unscale:all", {}},
      {"backward unscale step update zero_grad backward unscale", {}},
      {"backward step unscale", {"unscale-after-step 3"}},
      {"backward unscale step unscale", {"double-unscale 4"}},
      // torch raises: nothing that follows can happen.
      {"backward unscale unscale step step clip", {"double-unscale 3"}},
      {"backward step unscale clip step", {"unscale-after-step 3"}},
      // A check went round update().
      {"backward unscale go_round zero_grad backward unscale", {"skipped-update 3"}},
      {"backward unscale go_round go_round zero_grad backward unscale", {"skipped-update 3"}},
      {"backward unscale go_round update zero_grad backward unscale unscale", {"double-unscale 8"}},
      {"go_round backward unscale unscale", {"double-unscale 4"}},
      // Divided twice, though the scaler does not know.
      {"backward unscale new_scaler unscale", {"unscaled-twice 4"}},
      {"backward unscale update backward unscale", {"unscaled-twice 5"}},
      {"backward unscale update unscale", {}},
      {"backward unscale step update backward unscale", {"stale-gradients 5"}},
      {"backward unscale new_scaler zero_grad backward unscale", {}},
      {"backward unscale new_scaler may_step unscale", {}},
      {"backward unscale go_round new_scaler zero_grad backward unscale unscale",
       {"double-unscale 8"}},
  });
}

TEST(ScalerTransitions, StepAndUpdate) {
  Expect({
      {"backward step step", {"step-without-update 3"}},
      {"backward step zero_grad backward step", {"step-without-update 5"}},
      {"backward step:all step:all", {}},
      {"backward step step clip unscale", {"step-without-update 3"}},
      {"backward step new_scaler step", {}},
      {"backward update", {"update-without-step 2"}},
      {"backward update update step", {"update-without-step 2"}},
      {"backward step update update", {}},
      {"backward unscale update update", {}},
      {"backward step update zero_grad backward update", {"update-without-step 6"}},
      {"backward set_scale", {}},
      {"backward set_scale update", {}},
      {"any update", {}},
      // Gradients of before the update() of another optimizer's step.
      {"backward step:b update step:a", {"update-between 4"}},
      {"backward step:b update unscale:a", {"update-between 4"}},
      {"backward step:b step:a update step:a", {}},
      {"backward update step:a", {"update-without-step 2"}},
      {"backward step:b backward update step:a", {"update-between 5"}},
      {"backward step:b backward set_scale step:a", {"update-between 5"}},
      {"backward step:b backward update zero_grad:c step:a", {}},
      {"backward step:b backward update zero_grad:c backward step:a", {}},
      {"backward unscale:b backward update step:a", {}},
      {"zero_grad backward step:b zero_grad backward/t update/s step:a/t", {}},
      {"zero_grad backward step:b zero_grad backward/t update/t step:a/t", {"update-between 7"}},
  });
}

// A pass that waits for its step while update() runs, and whose gradients are cleared then.
TEST(ScalerTransitions, ClearedGradientsWaitForNoStep) {
  for (const std::string clear : {"zero_grad:g", "zero_grad:all"}) {
    GradientState state;
    EXPECT_EQ(WrongIn("step:d " + clear + " backward:g update", &state), Wrong{});
    EXPECT_EQ(WrongIn("step:d " + clear + " backward:g step:g", &state), Wrong{}) << clear;
  }
  GradientState state;
  EXPECT_EQ(WrongIn("step:d zero_grad:g backward:g update", &state), Wrong{});
  EXPECT_EQ(WrongIn("step:d zero_grad:d backward:g step:g", &state), Wrong{"update-between 4"});
}

TEST(ScalerTransitions, GradientsOfBefore) {
  Expect({
      {"backward step update backward step", {"stale-gradients 4"}},
      {"backward step update backward unscale", {"stale-gradients 4"}},
      {"backward step update backward backward step", {"stale-gradients 5"}},
      {"backward step update backward step:b", {}},
      {"backward step update zero_grad backward step", {}},
      {"backward step update backward zero_grad backward step", {}},
      {"backward step update clear backward step", {}},
      {"backward step update may_clear backward step", {}},
      {"backward step update unseen backward step", {}},
      {"backward step update go_round_clear backward step", {}},
      {"backward step update backward go_round_clear step", {}},
      {"backward step update any backward step", {}},
      // Cleared gradients, whose backward pass comes below.
      {"zero_grad step backward", {"step-on-none 2"}},
      {"zero_grad step", {}},
      {"zero_grad:b step backward", {}},
      {"zero_grad:all step backward", {}},
      {"zero_fill step backward", {}},
      {"step backward", {}},
  });
}

TEST(ScalerTransitions, LossesWithoutScale) {
  Expect({
      {"plain", {"plain-loss 1"}},
      {"plain step", {"plain-loss 1", "plain-backward 1"}},
      {"plain unscale", {"plain-loss 1", "plain-backward 1"}},
      {"plain plain_step", {"plain-loss 1"}},
      {"any step", {}},
      {"plain zero_grad step", {"plain-loss 1"}},
      {"plain any step", {"plain-loss 1"}},
      // On top of scaled gradients, or below them.
      {"backward plain step", {"plain-added 2"}},
      {"backward plain unscale", {"plain-added 2"}},
      {"plain backward step", {"plain-loss 1", "plain-added 1"}},
      {"backward plain zero_grad step", {}},
      {"backward plain step:b", {}},
      {"backward any step", {}},
      {"any backward step", {}},
      {"backward step update zero_grad plain", {"plain-loss 5"}},
      {"backward step update plain", {"plain-loss 4"}},
      {"backward update plain", {"update-without-step 2"}},
  });
}

TEST(ScalerTransitions, SeveralScalers) {
  Expect({
      {"backward/s step/t", {"other-scaler 2"}},
      {"backward/s unscale/t", {"other-scaler 2"}},
      {"backward/s step/self.t", {}},
      {"backward/self.s step/t", {}},
      {"any step/t", {}},
      {"backward/s backward/t step/s", {"mixed-scales 3"}},
      {"backward/s backward/t unscale/t", {"mixed-scales 3"}},
      {"backward/s backward/self.t step/s", {}},
      {"backward/s zero_grad backward/t step/t", {}},
      {"backward/s step:a/s update/s backward/t step:b/t", {}},
      {"backward/s unscale:a/s update/s backward/t step:b/t", {"mixed-scales 5"}},
  });
}

TEST(ScalerTransitions, StepsOfTheOptimizerItself) {
  Expect({
      {"backward plain_step", {"plain-step-scaled 2"}},
      {"backward plain_step update", {"plain-step-scaled 2", "plain-step-updated 2"}},
      {"backward plain_step update update", {"plain-step-scaled 2", "plain-step-updated 2"}},
      {"backward plain_step set_scale update", {"plain-step-scaled 2"}},
      {"backward plain_step step update", {"plain-step-scaled 2"}},
      {"backward unscale:b plain_step:a update", {"plain-step-scaled 3"}},
      {"backward step:b plain_step:a update", {"plain-step-scaled 3"}},
      {"backward unscale plain_step update", {}},
      {"backward unseen backward plain_step update", {"plain-step-scaled 4"}},
      {"backward step plain_step", {"plain-step-after-scaler 3"}},
      {"backward step excused_step", {"plain-step-after-scaler 3"}},
      {"backward step zero_grad plain_step", {}},
      {"backward excused_step", {}},
      {"backward excused_step update", {"update-without-step 3"}},
      {"any plain_step", {}},
      // The framework's step is the scaler's.
      {"backward wrapped_step update", {}},
      {"wrapped_step backward update", {"update-without-step 3"}},
  });
}

TEST(ScalerTransitions, ScaleOfAfterUpdate) {
  Expect({
      {"scale update read_scale", {"scale-after-update 3"}},
      {"scale set_scale read_scale", {"scale-after-update 3"}},
      {"scale read_scale update", {}},
      {"scale update scale read_scale", {}},
  });
}

TEST(ScalerTransitions, CodeThatIsNotSeen) {
  Expect({
      {"backward escape clip step step plain_step backward clip", {}},
      {"backward unseen clip update step step", {}},
      // The next backward pass makes gradients that are known.
      {"backward unseen backward clip", {"clip-scaled 4"}},
      {"backward unscale step unseen backward unscale step", {}},
      {"backward unscale unseen backward unscale step", {}},
      {"backward unseen backward update", {}},
      {"backward unseen plain step", {}},
      {"unseen plain", {"plain-loss 2"}},
      {"plain unseen backward step", {"plain-loss 1"}},
      {"backward may_clear clip", {"clip-scaled 3"}},
      {"backward may_step clip", {"clip-scaled 3"}},
  });
}

// The names of who is wrong.
TEST(ScalerTransitions, TellsScalerAndOptimizer) {
  GradientState state;
  Event event;
  event.node = 0;
  std::vector<Violation> violations;
  const auto happen = [&](Event::Kind kind, const std::string& scaler,
                          const std::string& optimizer) {
    event.kind = kind;
    event.scaler = Made(scaler);
    event.optimizer = optimizer;
    ++event.node;
    event.inner = event.node + 100;
    Apply(event, state, &violations);
  };
  happen(Event::Kind::kScaledBackward, "s", "");
  happen(Event::Kind::kPlainStep, "", "o");
  happen(Event::Kind::kZeroGrad, "", "o");
  happen(Event::Kind::kUnscaledBackward, "", "");
  happen(Event::Kind::kStep, "t", "p");
  happen(Event::Kind::kZeroGrad, "", "p");
  event.before_backward = true;
  happen(Event::Kind::kStep, "u", "p");
  ASSERT_EQ(violations.size(), 5U);
  EXPECT_EQ(violations[0].scaler + " " + violations[0].optimizer, "s o");
  EXPECT_EQ(violations[0].node, 2U);
  EXPECT_EQ(violations[0].inner, 102U);
  EXPECT_EQ(violations[2].scaler + " " + violations[2].optimizer, "t p");
  EXPECT_EQ(violations[2].node, 4U);
  EXPECT_EQ(violations[2].inner, 4U);  // not of the step
  EXPECT_EQ(violations[3].scaler + " " + violations[3].optimizer, "u p");
}

TEST(ScalerTransitions, AVariableIsAnotherOptimizer) {
  for (const char* name : {"o", "o.inner", "o[0]", "all[o]"}) {
    GradientState state;
    const std::string unscale = std::string("unscale:") + name;
    EXPECT_EQ(WrongIn("backward " + unscale, &state), Wrong{});
    GradientState other = state;
    ForgetOptimizer("o", state);
    EXPECT_EQ(WrongIn(unscale, &state), Wrong{}) << name;
    ForgetOptimizer("p", other);
    ForgetOptimizer("o.i", other);
    EXPECT_EQ(WrongIn(unscale, &other), Wrong{"double-unscale 1"}) << name;
  }
}

TEST(ScalerTransitions, ElementsOfALoop) {
  const auto next = [](NodeId loop, bool starts, GradientState* state) {
    NextElement("o", loop, starts, *state);
    ForgetOptimizer("o", *state);
  };
  GradientState state;
  EXPECT_EQ(WrongIn("backward unscale:o", &state), Wrong{});
  // The next element is another one.
  next(7, false, &state);
  EXPECT_EQ(WrongIn("clip unscale:o", &state), Wrong{});
  next(7, false, &state);
  EXPECT_EQ(WrongIn("go_round zero_grad backward", &state), Wrong{});
  // The loop runs again without an update(): each element is unscaled twice.
  GradientState other = state;
  next(7, true, &state);
  EXPECT_EQ(WrongIn("unscale:o", &state), Wrong{"skipped-update 1"});
  // Another loop may be one of other elements.
  next(8, true, &other);
  EXPECT_EQ(WrongIn("unscale:o", &other), Wrong{});
}

TEST(ScalerTransitions, TheNextBatch) {
  const auto then = [](const std::string& before, const std::string& next) {
    GradientState state;
    EXPECT_EQ(WrongIn(before, &state), Wrong{}) << before;
    state = NextBatch(state);
    return WrongIn(next, &state);
  };
  EXPECT_EQ(then("backward unscale go_round", "backward unscale"), Wrong{"skipped-update 3"});
  EXPECT_EQ(then("backward unscale step update", "backward unscale step update"), Wrong{});
  EXPECT_EQ(then("backward", "clip plain_step update step"), Wrong{"clip-scaled 1?"});
  EXPECT_EQ(then("backward escape unscale go_round", "backward unscale"), Wrong{});
  EXPECT_EQ(then("backward unscale go_round unseen", "backward unscale"), Wrong{});
}

}  // namespace
}  // namespace mpnanny::check
