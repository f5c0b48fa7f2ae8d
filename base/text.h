// Small text functions that several parts need. What comes out of user files is data: EscapeControl
// makes it safe to show.
//
// Free functions without state.
#ifndef MPNANNY_BASE_TEXT_H_
#define MPNANNY_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny {

// Makes text from outside safe inside an answer: control characters, bidirectional overrides,
// zero-width characters and bytes that are not UTF-8 become \xNN or \u{…}; more than `max_bytes`
// are cut with "…" at a character's border. With `keep_newlines`, '\n' and '\t' stay (for source
// excerpts).
std::string EscapeControl(std::string_view text, size_t max_bytes = 2000,
                          bool keep_newlines = false);

// The code point at byte `i`, which moves past it; nullopt (and one byte further) where the text is
// not UTF-8.
std::optional<uint32_t> DecodeUtf8(std::string_view text, size_t& i);

// True if `text` is well-formed UTF-8.
bool IsUtf8(std::string_view text);

// With A to Z as a to z. Every other byte stays as it is, whatever the locale.
std::string LowerCase(std::string_view text);

// Number of Unicode code points (columns count these).
size_t CountCodePoints(std::string_view utf8);

// The candidates nearest to `word` by edit distance, best first, at most `most`, and only those
// near enough to be meant.
std::vector<std::string> NearestNames(std::string_view word,
                                      const std::vector<std::string>& candidates, size_t most = 3);

// "did you mean 'a' or 'b'?" or "" when nothing is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

// NotFound for a name that does not exist: "There is no rule 'x'." with what was perhaps meant, or
// else all that there are, if they are few.
Error NoSuchName(std::string_view what, std::string_view name,
                 const std::vector<std::string>& known);

std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// `word` as one word of a POSIX shell's command line: as it stands where no character means
// something to the shell, else in single quotes.
std::string ShellQuote(std::string_view word);

// All words, quoted one by one, with spaces between them.
std::string ShellCommand(const std::vector<std::string>& words);

// Shell-style match of a whole name: '*' any run of characters, '?' one. Linear time in practice
// (single backtrack point); no regular expression, so no pattern makes it slow.
bool MatchesGlob(std::string_view pattern, std::string_view name);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_TEXT_H_
