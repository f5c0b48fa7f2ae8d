// The simple values that a path knows its local variables to have: what `need = True`,
// `bad = torch.zeros(1)` or `kind = "adam"` leave behind until something else is assigned.
//
// With them a path that contradicts itself is seen to be none: a flag that is cleared beside the
// call it guards, a condition over what is constantly zero. Counters are none of these: what is
// computed from a variable's own value is not known. Plain value; copied with the path it belongs
// to.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_PATH_VALUES_H_
#define MPNANNY_ENGINES_CHECK_FACTS_PATH_VALUES_H_

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

// None, a Boolean, a number (never NaN) or a string.
struct PathConstant {
  enum class Kind { kNone, kNumber, kText };
  Kind kind = Kind::kNone;
  double number = 0;    // True is 1
  std::string text;     // with its quotes taken off
  bool tensor = false;  // of one element, which others may write into
  auto operator<=>(const PathConstant&) const = default;
  bool IsTrue() const { return kind == Kind::kText ? !text.empty() : number != 0; }
};

class PathValues {
 public:
  void Set(std::string_view variable, PathConstant value);
  void Forget(std::string_view variable);
  template <typename Test>
  void ForgetIf(Test test) {
    std::erase_if(known_, [&](const auto& one) { return test(std::string_view(one.first)); });
  }
  void Clear() { known_.clear(); }
  bool empty() const { return known_.empty(); }
  // The variable's value; null if it is not known.
  const PathConstant* Of(std::string_view variable) const;
  // What the expression gives: literals, known variables, comparisons, arithmetic, max(), x.item()
  // and tensors of one element that are made from these. nullopt if it is not known.
  std::optional<PathConstant> Evaluate(const Bindings& bindings, NodeId expression,
                                       int depth = 6) const;
  auto operator<=>(const PathValues&) const = default;

 private:
  std::optional<PathConstant> OfCall(const Bindings& bindings, NodeId call, int depth) const;
  std::map<std::string, PathConstant, std::less<>> known_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_PATH_VALUES_H_
