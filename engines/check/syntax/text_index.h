// From byte offsets to lines and columns, and back to the line's text.
//
// Borrows the text; immutable after construction.
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_TEXT_INDEX_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_TEXT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mpnanny::check {

struct Position {
  int line = 1;    // 1-based
  int column = 1;  // 1-based, in code points
};

class TextIndex {
 public:
  explicit TextIndex(std::string_view text);
  Position At(size_t byte) const;
  // The line alone: a column is counted through wide characters.
  int LineAt(size_t byte) const;
  int line_count() const { return static_cast<int>(starts_.size()); }
  // The line without its end; empty for a line that is not there.
  std::string_view Line(int line) const;

 private:
  size_t CodePointsBefore(size_t byte) const;

  std::string_view text_;
  std::vector<uint32_t> starts_;
  // Code points before every 4096th byte; empty where every byte is one. A line may be a megabyte
  // long and hold thousands of findings.
  std::vector<uint32_t> points_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_TEXT_INDEX_H_
