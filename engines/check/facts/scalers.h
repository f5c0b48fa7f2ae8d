// The GradScalers and optimizers of a file, and every call on a scaler.
//
// A variable is a scaler if it is made by torch's GradScaler or by a class that only adds to it, or
// if it is called *scaler* and used as one (unscale_, or scale(…).backward()). A name alone is not
// enough: scikit-learn has scalers too, and wrappers that are called like functions own their
// optimizer. Borrows Bindings; immutable after construction.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_SCALERS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_SCALERS_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

struct ScalerCall {
  enum class Op { kScale, kUnscale, kStep, kUpdate, kStateDict, kGetScale };
  Op op = Op::kScale;
  NodeId call = kNoNode;
  std::string scaler;     // its key: "scaler", "self.scaler"
  std::string optimizer;  // key of the first argument of unscale_ and step
};

struct ScalerMade {
  NodeId call = kNoNode;       // GradScaler(…)
  std::string key;             // "" if it is not assigned to a name
  bool enabled_given = false;  // enabled= with anything but True
  bool enabled_false = false;  // enabled=False
};

class Scalers {
 public:
  explicit Scalers(const Bindings& bindings);

  bool IsScaler(std::string_view key) const { return keys_.contains(key); }
  bool IsOptimizer(std::string_view key) const;
  // True if the scaler is made in this file, so that two keys are certainly two objects.
  bool IsMadeHere(std::string_view key) const;

  const std::vector<ScalerCall>& calls() const { return calls_; }
  const std::vector<ScalerMade>& made() const { return made_; }
  // What wraps a GradScaler and is made here: NativeScaler(), NativeScalerWithGradNormCount(). It
  // is called like a function and owns backward and step, so it is no scaler itself.
  const std::vector<ScalerMade>& wrappers() const { return wrappers_; }
  // True if the file trains with a GradScaler or a wrapper of one that is not always off.
  bool Trains() const;
  bool Has(ScalerCall::Op op) const;
  // The call if `call` is one on a scaler, else null.
  const ScalerCall* At(NodeId call) const;
  // The key of a scaler whose scale(…) is somewhere inside the expression, "" for none.
  std::string ScaledBy(NodeId expression) const;

 private:
  const Bindings& bindings_;
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> optimizers_;
  std::vector<ScalerCall> calls_;  // by node id
  std::vector<ScalerMade> made_;
  std::vector<ScalerMade> wrappers_;
};

// "scaler" of "self.scaler", "opts" of "self.opts[0]", "scaler" of state["scaler"].
std::string_view LastComponent(std::string_view key);
// A part of `key`, so not of a temporary.
std::string_view LastComponent(std::string&& key) = delete;

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_SCALERS_H_
