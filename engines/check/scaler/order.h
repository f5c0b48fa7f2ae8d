// The order of a GradScaler's calls as a typestate along paths: scale → backward → unscale_ → clip
// → step → update.
//
// Every function (and the module's own code) is run abstractly, branch by branch, with what is
// known of conditions; loops twice, so that the second iteration meets the first one's leftovers,
// and a function that is one whole training step twice as well. Calls are followed a few levels
// deep through functions and methods of whichever file of the project, lambdas, functools.partial
// and names bound to any of them. What happens in code that is not seen
// (a scaler handed to somebody else) makes the path unknown and silent. Immutable after
// construction.
#ifndef MPNANNY_ENGINES_CHECK_SCALER_ORDER_H_
#define MPNANNY_ENGINES_CHECK_SCALER_ORDER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "engines/check/facts/scalers.h"

namespace mpnanny::check {

class Codebase;  // code.h

struct Violation {
  enum class Kind {
    kClipScaled,            // clipped while gradients carry the loss scale
    kClipAfterStep,         // clipped after the step that used the gradients
    kDoubleUnscale,         // unscale_ again before update
    kUnscaleAfterStep,      // unscale_ after step, before update
    kUpdateWithoutStep,     // update on scaled gradients that nobody has unscaled or stepped on
    kSkippedUpdate,         // after unscale_ a check for bad values goes round update
    kStepWithoutUpdate,     // step again before update
    kPlainStepScaled,       // optimizer.step() on gradients that carry the loss scale
    kPlainStepUpdated,      // the same, and update() follows, which raises
    kPlainStepAfterScaler,  // optimizer.step() in addition to scaler.step(optimizer)
    kOtherScaler,           // unscale_ or step on a scaler that did not scale the loss
    kUpdateBetween,         // step or unscale_ after update, on gradients of before it
    kGradientsRead,         // measured, clamped or shifted while they carry the loss scale
    kNanReplaced,           // NaN and inf of gradients replaced before the scaler has looked
    kStaleGradients,        // backward on top of gradients that a step has used
    kPlainBackward,         // scaler.step() or unscale_() on gradients that were never scaled
    kPlainLoss,             // any plain backward with mixed precision perhaps on
    kScaleAfterUpdate,      // a scaled value divided by the scale of after update
    kMixedScales,           // gradients of two scalers added up for one optimizer
    kPlainAdded,            // a plain backward on top of scaled gradients, or the other way round
    kStepOnNone,            // step() on cleared gradients, whose backward comes after it
    kUnscaledTwice,         // unscale_ on gradients that an earlier unscale_ has divided already
  };
  Kind kind = Kind::kClipScaled;
  NodeId node =
      kNoNode;  // the call to be named; of a helper's call the place where the helper is called
  NodeId inner = kNoNode;  // the call itself; kNoNode if it stands in another file
  std::string scaler;      // the scaler that scaled the loss
  std::string optimizer;
  bool guess = false;  // code that calls this one may have done what is missed here
};

class ScalerOrder {
 public:
  ScalerOrder() = default;  // nothing is wrong
  // Of the file of that number.
  ScalerOrder(const Codebase& all, size_t number, const CancelToken& cancel);
  const std::vector<Violation>& violations() const { return violations_; }

 private:
  std::vector<Violation> violations_;
};

// clip_grad_norm_ and its kin.
std::span<const std::string_view> ClipNames();
// True for clip_grad_norm_ and its kin, under whatever import.
bool IsClip(const Names& names, NodeId call);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCALER_ORDER_H_
