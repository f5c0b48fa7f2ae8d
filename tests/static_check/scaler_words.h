// Sequences of events in words, "backward clip unscale step", and what transitions.h says is wrong
// with them.
#ifndef MPNANNY_TESTS_STATIC_CHECK_SCALER_WORDS_H_
#define MPNANNY_TESTS_STATIC_CHECK_SCALER_WORDS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "engines/check/scaler/transitions.h"

namespace mpnanny::check {

using Wrong = std::vector<std::string>;

// "step:b/t" is scaler t's step of optimizer b, "backward:b" a pass for b's step. Where nothing is
// said, the scaler is s and the optimizer a, or that of the next step.
struct Word {
  std::string event, optimizer = "a", scaler = "s";
};

inline std::vector<Word> WordsOf(const std::string& text) {
  static const std::regex kWord("([^ :/]+)(:([^ /]+))?(/([^ ]+))?");
  std::vector<Word> words;
  for (std::sregex_iterator it(text.begin(), text.end(), kWord), end; it != end; ++it) {
    Word word;
    word.event = it->str(1);
    if ((*it)[2].matched) word.optimizer = it->str(3);
    if ((*it)[4].matched) word.scaler = it->str(5);
    words.push_back(word);
  }
  return words;
}

// In the order of Event::Kind and of Violation::Kind.
inline constexpr const char* kEvents[] = {
    "scale",          "backward",     "plain",      "any",        "clip",
    "read",           "replace",      "clear",      "unscale",    "step",
    "update",         "set_scale",    "read_scale", "new_scaler", "plain_step",
    "excused_step",   "wrapped_step", "zero_grad",  "zero_fill",  "go_round",
    "go_round_clear", "may_clear",    "may_step",   "unseen",     "escape"};

inline constexpr const char* kViolations[] = {"clip-scaled",         "clip-after-step",
                                              "double-unscale",      "unscale-after-step",
                                              "update-without-step", "skipped-update",
                                              "step-without-update", "plain-step-scaled",
                                              "plain-step-updated",  "plain-step-after-scaler",
                                              "other-scaler",        "update-between",
                                              "gradients-read",      "nan-replaced",
                                              "stale-gradients",     "plain-backward",
                                              "plain-loss",          "scale-after-update",
                                              "mixed-scales",        "plain-added",
                                              "step-on-none",        "unscaled-twice"};

inline Event::Kind KindNamed(const std::string& name) {
  const auto* const it = std::find(std::begin(kEvents), std::end(kEvents), name);
  EXPECT_NE(it, std::end(kEvents)) << name;
  return static_cast<Event::Kind>(it - kEvents);
}

// self.s may be the same scaler as another name.
inline ScalerName Made(const std::string& name) {
  return {name, name.find('.') == std::string::npos};
}

inline bool IsBackward(const Word& word) {
  return word.event == "backward" || word.event == "plain" || word.event == "any";
}

inline bool Uses(const Word& word) { return word.event == "step" || word.event == "unscale"; }

// What goes wrong, "clip-scaled 3" for the third word, with "?" where it is a guess. What the text
// around an event says is what stands in the sequence.
inline Wrong WrongIn(const std::string& text, GradientState* state) {
  const std::vector<Word> words = WordsOf(text);
  const bool one_optimizer = std::all_of(words.begin(), words.end(),
                                         [](const Word& word) { return word.optimizer == "a"; });
  std::vector<Violation> violations;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto here = words.begin() + static_cast<std::ptrdiff_t>(i);
    Event event;
    event.kind = KindNamed(here->event);
    event.node = event.inner = static_cast<NodeId>(i + 1);
    if (!IsBackward(*here) || here->event == "backward") event.scaler = Made(here->scaler);
    event.optimizer = here->optimizer == "all" ? "" : here->optimizer;
    const auto use = std::find_if(here, words.end(), Uses);
    const std::string next = use == words.end() ? "" : use->optimizer;
    event.pass = {event.node, here->optimizer == "a" ? next : here->optimizer, here->scaler};
    event.one_optimizer = one_optimizer;
    event.before_backward = one_optimizer && std::none_of(words.begin(), here, IsBackward) &&
                            std::any_of(here, words.end(), IsBackward);
    Apply(event, *state, &violations);
  }
  Wrong wrong;
  for (const Violation& violation : violations)
    wrong.push_back(std::string(kViolations[static_cast<size_t>(violation.kind)]) + " " +
                    std::to_string(violation.node) + (violation.guess ? "?" : ""));
  return wrong;
}

inline Wrong WrongIn(const std::string& text) {
  GradientState state;
  return WrongIn(text, &state);
}

}  // namespace mpnanny::check

#endif  // MPNANNY_TESTS_STATIC_CHECK_SCALER_WORDS_H_
