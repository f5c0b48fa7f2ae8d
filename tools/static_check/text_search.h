// Whether a text holds a word at all, which is asked of every file many times.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_TEXT_SEARCH_H_
#define MPNANNY_TOOLS_STATIC_CHECK_TEXT_SEARCH_H_

#include <cstring>
#include <string_view>

namespace mpnanny::static_check {

// memmem() skips ahead by several bytes; find() stops at every occurrence of the first one.
inline bool Holds(std::string_view text, std::string_view word) {
  // A view of nothing may point nowhere, which memmem() must not be given.
  return text.size() >= word.size() && !text.empty() &&
         memmem(text.data(), text.size(), word.data(), word.size()) != nullptr;
}

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_TEXT_SEARCH_H_
