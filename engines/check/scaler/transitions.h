// What the calls of a training step do to gradients: a table of states and transitions, and which
// event is wrong in which state.
//
// Internal to this folder. ScalerMachine decides which event a call is and on which paths it
// happens; nothing here sees code: places are numbers, scalers and optimizers are names. Plain
// values and pure functions, safe from any thread.
#ifndef MPNANNY_ENGINES_CHECK_SCALER_TRANSITIONS_H_
#define MPNANNY_ENGINES_CHECK_SCALER_TRANSITIONS_H_

#include <compare>
#include <set>
#include <string>
#include <vector>

#include "engines/check/scaler/order.h"

namespace mpnanny::check {

enum class Gradients { kNone, kScaled, kPlain };

struct ScalerName {
  std::string name;
  bool made_here = false;  // in this file, so that another such name is certainly another scaler
  auto operator<=>(const ScalerName&) const = default;
};

// A scaled backward pass, and what the text says of it ("" if it says nothing).
struct BackwardPass {
  NodeId node = kNoNode;
  std::string optimizer;  // that steps on it
  std::string scaler;
  auto operator<=>(const BackwardPass&) const = default;
};

// What is known of gradients at one point of one path.
struct GradientState {
  Gradients gradients = Gradients::kNone;
  bool escaped = false;     // they are handled in a way that is not known; for good
  bool unseen = false;      // code that is not seen may have unscaled, stepped or updated since the
                            // last backward
  bool updated = false;     // update() since the last backward
  bool moved = false;       // update() since the last scale()
  bool looked = false;      // an unscale_ or step since the last update()
  bool after_step = false;  // the gradients were used by a step and not cleared since
  ScalerName scaler;        // who scaled the gradients
  NodeId backward = kNoNode;    // the last backward
  NodeId plain = kNoNode;       // the last one that was not scaled, where no other branch scales
  NodeId mixed = kNoNode;       // a plain backward whose gradients are added to scaled ones
  NodeId plain_step = kNoNode;  // optimizer.step() on scaled gradients since the last update()
  NodeId skip = kNoNode;        // the branch that went round update() since unscale_()
  NodeId early_clip = kNoNode;  // a clip of gradients that came from outside of the function,
  NodeId early_read = kNoNode;  // another use of them, with no unscale_ before it
  std::set<std::string> unscaled, stepped;  // optimizers, since the last update()
  std::set<std::string> cleared;            // optimizers, since the last backward
  std::set<std::string> stepped_since_backward;
  std::set<std::string> used;     // optimizers that have stepped since gradients were cleared
  std::set<std::string> stale;    // of those, the ones that a backward was added to
  std::set<ScalerName> pending;   // scalers of the gradients since they were cleared or updated
  std::set<std::string> divided;  // optimizers unscaled and neither stepped nor cleared since
  // Scaled passes whose optimizer has neither stepped nor cleared since, and those of them that
  // come from before an update() after another optimizer's step.
  std::set<BackwardPass> awaiting, outdated;
  auto operator<=>(const GradientState&) const = default;
};

struct Event {
  enum class Kind {
    kScale,             // scaler.scale(loss)
    kScaledBackward,    // a backward pass of a scaled loss,
    kUnscaledBackward,  // of one that is known not to be scaled though mixed precision may be on,
    kOtherBackward,     // of any other
    kClip,              // clip_grad_norm_
    kRead,              // gradients are measured, clamped or shifted,
    kReplace,           // their NaN and inf are replaced,
    kClear,             // they are set to zero or None by hand
    kUnscale,           // scaler.unscale_(optimizer)
    kStep,              // scaler.step(optimizer)
    kUpdate,            // scaler.update()
    kSetScale,          // scaler.update(scale), which asks for nothing
    kReadScale,         // scaler.get_scale() divides what was scaled
    kNewScaler,     // GradScaler(); of several the others are taken to be new, too, which accuses
                    // nobody
    kPlainStep,     // optimizer.step()
    kExcusedStep,   // the same where gradients may be unscaled by hand, or scaler.step() is the
                    // other branch
    kWrappedStep,   // the same of a framework's optimizer, whose step is the scaler's
    kZeroGrad,      // optimizer.zero_grad(); `optimizer` is "" if it is another's
    kZeroFill,      // the same where zeros are left, not None
    kGoRound,       // a check of the gradients goes round update()
    kGoRoundClear,  // a condition goes round zero_grad(), and comes to it in time
    kMayClear,      // code that is not seen may clear gradients,
    kMayStep,       // be a step of the optimizer's own,
    kUnseen,        // unscale, step and update
    kEscape,        // gradients are handled in a way that is not known
  };
  Kind kind = Kind::kEscape;
  NodeId node = kNoNode;  // as in Violation
  NodeId inner = kNoNode;
  ScalerName scaler;  // whose method is called, or who scaled the loss of the backward pass
  std::string optimizer;
  BackwardPass pass;             // that is scaled
  bool one_optimizer = false;    // every backward pass is for the optimizer
  bool before_backward = false;  // the only backward pass for the optimizer comes below
};

// Reports what is wrong with the event in that state, and goes on to the next state. A violation
// that is a guess rests on gradients that came from outside of the function.
void Apply(const Event& event, GradientState& state, std::vector<Violation>* violations);

// A variable gets another value: nothing is known of the optimizers of that name.
void ForgetOptimizer(const std::string& key, GradientState& state);
// A loop takes its next element: what was done to the one before stays done, to "some element" of
// this loop. If the loop starts anew, it is done to all elements that are to come.
void NextElement(const std::string& key, NodeId loop, bool starts, GradientState& state);
// What is left when a function that is one whole training step is called for the next batch: what a
// check has left behind, and gradients that wait for the step of a later call.
GradientState NextBatch(const GradientState& state);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCALER_TRANSITIONS_H_
