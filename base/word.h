// A closed vocabulary as an enum with one table of names, and a word that a file tells of it.
//
//   enum class Phase { kForward, kBackward };
//   template <>
//   struct Vocabulary<Phase> {
//     static constexpr const char* kNames[] = {"forward", "backward"};
//   };
//
// Text becomes a value where it comes in (a database, JSON, Python) and a value becomes text where
// it goes out; between the two nothing compares text. Plain values, safe from any thread.
#ifndef MPNANNY_BASE_WORD_H_
#define MPNANNY_BASE_WORD_H_

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mpnanny {

// To be specialised for each vocabulary: kNames in the order of the enumerators, which count
// from 0.
template <typename E>
struct Vocabulary;

template <typename E>
constexpr const char* NameOf(E value) {
  return Vocabulary<E>::kNames[static_cast<size_t>(value)];
}

// nullopt: no word of the vocabulary.
template <typename E>
constexpr std::optional<E> FindNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(Vocabulary<E>::kNames); ++i) {
    if (name == Vocabulary<E>::kNames[i]) return static_cast<E>(i);
  }
  return std::nullopt;
}

// A word as a file tells it: one of the vocabulary's, none, or one that this version does not know
// (of a later monitor), which equals no enumerator and keeps its text.
template <typename E>
class Word {
 public:
  Word() = default;  // none
  Word(E value) : value_(value) {}
  explicit Word(std::string text) : value_(FindNamed<E>(text)) {
    if (!value_) unknown_ = std::move(text);
  }

  std::optional<E> value() const { return value_; }
  // "" if there is none. What a file tells is raw: show it through EscapeControl.
  std::string_view text() const { return value_ ? std::string_view(NameOf(*value_)) : unknown_; }
  operator std::string_view() const { return text(); }
  bool empty() const { return !value_ && unknown_.empty(); }

  friend bool operator==(const Word& a, const Word& b) = default;
  friend bool operator==(const Word& a, E b) { return a.value_ == b; }

 private:
  std::optional<E> value_;
  std::string unknown_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_WORD_H_
