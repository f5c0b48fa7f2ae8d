// What all sources of a check say together: in which precision the project trains, and by whose
// hands.
//
// A plain value; AddFile() adds what one file says. Frameworks are known by their imports, types by
// names in code; words of comments and docstrings do not count.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_PROJECT_FACTS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_PROJECT_FACTS_H_

#include "engines/check/facts/regions.h"
#include "engines/check/facts/scalers.h"

namespace mpnanny::check {

struct ProjectFacts {
  bool fp16_on_cuda = false;    // an autocast that is FP16 on CUDA
  bool bf16_autocast = false;   // one that is BF16
  bool other_autocast = false;  // one with any other than FP16 on CUDA, or with an unknown dtype
  bool grad_scaler = false;
  bool makes_scaler = false;      // torch's GradScaler is made somewhere
  bool own_scaler = false;        // a class of the project has unscale_() itself
  bool scaler_updates = false;    // update() on a scaler somewhere
  bool scaler_state = false;      // state_dict() of a scaler, or a framework's save, somewhere
  bool sixteen_bit = false;       // any 16-bit type is named at all
  bool lowers_precision = false;  // autocast or a cast to 16 bits stands anywhere
  bool casts_models = false;      // .half() or .bfloat16() is called: pure half, or export
  // Some file runs something under autocast and calls backward(): what is trained there may be
  // defined in any other file.
  bool trains_under_autocast = false;
  // Somebody else may scale the loss: a framework, a wrapper, a scale made by hand.
  bool scaling_elsewhere = false;
  // Frameworks that are imported.
  bool apex = false, deepspeed = false, fsdp = false, accelerate = false, lightning = false,
       hf_trainer = false;

  bool AssumeFp16() const { return fp16_on_cuda && !other_autocast; }

  // A project that never makes torch's scaler and has one of its own is under that one's rules.
  bool HasTorchScaler() const { return grad_scaler && (makes_scaler || !own_scaler); }

  void AddFile(const Syntax& syntax, const Names& names, const Regions& regions,
               const Scalers& scalers);
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_PROJECT_FACTS_H_
