// What is known about an `if` on a path: that `use_amp` was true above and therefore is true below.
//
// The largest source of false alarms is the other branch: `if use_amp:
// scaler.scale(loss).backward() else: loss.backward()` followed, lines later, by `if scaler is not
// None: scaler.unscale_(optimizer)`. Conditions that ask whether mixed precision is on (their names
// hold amp, scaler, fp16, mixed, autocast …) are therefore taken as one and the same question, and
// so are `clip`, `clip > 0` and `clip is not None`. Plain value; copied with the path it belongs
// to.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_CONDITIONS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_CONDITIONS_H_

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "engines/check/facts/path_values.h"
#include "engines/check/facts/regions.h"
#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

class Conditions {
 public:
  // Whether the condition is known to hold.
  Tri Evaluate(const Bindings& bindings, NodeId condition) const;
  // Takes it as given that the condition is `value`.
  void Assume(const Bindings& bindings, NodeId condition, bool value);
  // The variable got a new value: what was known of conditions that mention it is gone.
  void Forget(std::string_view variable);
  void Clear() {
    known_.clear();
    values_.Clear();
  }
  // What variables are known to hold, which decides conditions over them.
  const PathValues& values() const { return values_; }
  PathValues& values() { return values_; }
  // What is known of one question (questions.h), and that it was answered.
  Tri Known(std::string_view question) const;
  void Learn(std::string_view question, bool answer);
  // No answer to this question is known any more.
  void Drop(std::string_view question);
  // What is still known inside a function that is called: names mean other things there, except
  // that mixed precision is on or off, and what the object has that is `self` there ("" for none:
  // its name here).
  Conditions Inside(std::string_view self) const;
  // What a function that was called has learnt of these.
  void Return(const Conditions& inside, std::string_view self);
  // The same for a function that stands inside this one: what is not its own (`own` says which
  // names are) means the same there.
  using IsOwn = std::function<bool(std::string_view name)>;
  Conditions InClosure(const IsOwn& own) const;
  // Takes over the answers that another one knows.
  void Adopt(const Conditions& other);
  // A loss is scaled here, so mixed precision is on from here. False if it is known to be off (a
  // disabled GradScaler's scale() returns the loss as it is).
  bool AssumeMixedPrecision();

  auto operator<=>(const Conditions&) const = default;

 private:
  Tri Evaluate(const Bindings& bindings, NodeId condition, int depth, int& parts) const;
  void Assume(const Bindings& bindings, NodeId condition, bool value, int depth, int& parts);
  // Where `kind == "adam"` holds, that is what it is.
  void LearnEqual(const Bindings& bindings, NodeId comparison, bool holds);

  std::map<std::string, bool, std::less<>> known_;
  PathValues values_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_CONDITIONS_H_
