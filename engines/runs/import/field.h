// What the names in a log stand for, and numbers as logs spell them.
//
// Pure functions on text from outside: nothing of it is taken for more than a number. Safe from any
// thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_FIELD_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_FIELD_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny::imports {

enum class Field { kNone, kEpoch, kStep, kLoss, kGradNorm, kScale, kLr, kEvalLoss };
inline constexpr size_t kFields = 8;  // with kNone

// What a key in lower case stands for, by its words. The loss of an evaluation is one of its own:
// it is not the training's course. Other figures of an evaluation are none.
Field FieldOf(std::string_view key);

// Whose loss it is where two learn by each other: a generator's or an actor's, a discriminator's or
// a critic's ("g_loss", "critic loss"). `key` in lower case.
struct Players {
  bool one = false, other = false;
  void Add(std::string_view loss_key);
  void Add(const Players& more) {
    one = one || more.one;
    other = other || more.other;
  }
  bool Both() const { return one && other; }
};

// True if one of the key's words says that its figure is not of the training, or not over its
// steps: "val loss", "lm loss vs samples".
bool IsAside(std::string_view key);

// How well a key names its field: the best of several wins, of equals the first. The total stands
// for the loss, a component ("loss_cls", "aux loss") only where there is no total; a step's figure
// stands before the mean of an epoch.
int RankOf(Field field, std::string_view key);

// A number at `at`, in any spelling of nan and inf ("NaN", "-inf", "nan.0", "1.#QNAN",
// "tensor(nan)", "Infinity"), but no word that begins like one ("InfoNCE", "inf_guard"); moves `at`
// past it.
std::optional<double> NumberAt(std::string_view text, size_t& at);

// The number that the whole text is, blanks aside.
std::optional<double> NumberOf(std::string_view text);

// True if a step number can be kept as a whole number.
bool IsCount(const std::optional<double>& step);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_FIELD_H_
