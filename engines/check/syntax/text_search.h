// Whether a text holds a word at all, which is asked of every file many times.
//
// Free functions, and a WordIndex that makes them quick for one text on one thread.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_TEXT_SEARCH_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_TEXT_SEARCH_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace mpnanny::check {

// Which four bytes follow one another in a text: what tells at once that most words are not in it.
// While it lives, Holds() on its thread asks it about the text and every part of it. Borrows the
// text; neither nests nor moves.
class WordIndex {
 public:
  explicit WordIndex(std::string_view text) : text_(text) {
    // About four bits a byte, as far as they fit into the fastest memory.
    const size_t bits = std::clamp<size_t>(std::bit_ceil(4 * text.size()), 64, 64 * bits_.size());
    shift_ = 32 - std::countr_zero(bits);
    std::fill_n(bits_.begin(), bits / 64, 0);
    for (size_t i = 0; i + 4 <= text.size(); ++i) {
      const uint32_t at = Place(text.data() + i);
      bits_[at / 64] |= uint64_t{1} << (at % 64);
    }
    current_ = this;
  }
  ~WordIndex() { current_ = nullptr; }
  WordIndex(const WordIndex&) = delete;
  WordIndex& operator=(const WordIndex&) = delete;

  // True if it is known that the word is not in `text`. False says nothing.
  static bool Excludes(std::string_view text, std::string_view word) {
    return current_ != nullptr && current_->Covers(text) && current_->Lacks(word);
  }

 private:
  uint32_t Place(const char* bytes) const {
    uint32_t four = 0;
    std::memcpy(&four, bytes, sizeof four);
    return (four * 0x9E3779B1u) >> shift_;
  }
  bool Covers(std::string_view text) const {
    return text.data() >= text_.data() && text.data() + text.size() <= text_.data() + text_.size();
  }
  bool Lacks(std::string_view word) const {
    for (size_t i = 0; i + 4 <= word.size(); ++i) {
      const uint32_t at = Place(word.data() + i);
      if ((bits_[at / 64] >> (at % 64) & 1) == 0) return true;
    }
    return false;
  }

  static constinit inline thread_local const WordIndex* current_ = nullptr;
  const std::string_view text_;
  int shift_ = 0;
  std::array<uint64_t, 1024> bits_;
};

// memmem() skips ahead by several bytes; find() stops at every occurrence of the first one.
inline bool Holds(std::string_view text, std::string_view word) {
  // A view of nothing may point nowhere, which memmem() must not be given: not as a text, not as a
  // word. No word at all is in every text that is one.
  if (text.empty() || word.empty()) return !text.empty();
  if (text.size() < word.size() || WordIndex::Excludes(text, word)) return false;
#ifdef _WIN32  // has no memmem()
  return text.find(word) != std::string_view::npos;
#else
  return memmem(text.data(), text.size(), word.data(), word.size()) != nullptr;
#endif
}

// The same for any of several words: a list or an array of them.
template <typename Words = std::initializer_list<std::string_view>>
bool HoldsAny(std::string_view text, const Words& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return Holds(text, word); });
}

// Whether `word` is in a list or an array of words.
template <typename Words>
bool IsOneOf(const Words& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_TEXT_SEARCH_H_
