// A file's bytes as the UTF-8 text that Python would see.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_DECODE_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_DECODE_H_

#include <optional>
#include <string>
#include <string_view>

namespace mpnanny::check {

struct Decoded {
  std::string text;  // UTF-8 without byte order mark; every line ends with '\n' or "\r\n"
  std::string note;  // what could not be read as it is meant; empty: nothing
};

// Follows byte order marks (UTF-8, UTF-16, UTF-32) and the encoding that a comment in the first two
// lines declares. What cannot be read becomes '?', a stray NUL a space. nullopt: a binary file.
std::optional<Decoded> DecodeSource(std::string_view bytes);

// A '\r' alone becomes '\n': it ends a line of Python, too.
void EndLines(std::string& text);

// True if the bytes begin with the byte order mark of UTF-16 or UTF-32.
bool HasWideMark(std::string_view bytes);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_DECODE_H_
