// What a condition asks, so that the same question in other words is known again.
//
// `if use_amp`, `if scaler is not None` and `if not args.no_amp` ask one question, `if clip > 0`
// and `if clip` another. Pure functions over Bindings.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_QUESTIONS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_QUESTIONS_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "engines/check/syntax/bindings.h"

namespace mpnanny::check {

// The question of every condition that asks whether mixed precision is on.
inline constexpr std::string_view kMixedPrecision = "<mixed precision is on>";

struct Question {
  std::string key;       // equal for equal questions; "" if the answer may differ the next time
  bool positive = true;  // false if the condition holds when the answer is no
};

// Looks through parentheses, `not`, exists(), and comparisons with None, True, False and 0.
// `*positive` is flipped where the result asks for the opposite.
NodeId Core(const Bindings& bindings, NodeId condition, bool* positive);

// What a condition asks that Core() returned.
Question Ask(const Bindings& bindings, NodeId condition);

// While one lives, Ask() on its thread works out each condition once, however many paths come to
// it. The Bindings that are asked about must outlive it; not nested.
class QuestionMemo {
 public:
  QuestionMemo();
  ~QuestionMemo();
  QuestionMemo(const QuestionMemo&) = delete;
  QuestionMemo& operator=(const QuestionMemo&) = delete;

 private:
  friend Question Ask(const Bindings& bindings, NodeId condition);
  std::map<std::pair<const Bindings*, NodeId>, Question> known_;
};

// What `if name` asks.
Question AskOfName(std::string_view name);

// The boolean expression that a name stands for: it is bound to it once, and nothing that the
// expression mentions gets another value further down. kNoNode if there is none.
NodeId Meaning(const Bindings& bindings, NodeId name);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_QUESTIONS_H_
