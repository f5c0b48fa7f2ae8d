// From byte offsets to lines and columns, and back to the line's text.
//
// Borrows the text; immutable after construction.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_TEXT_INDEX_H_
#define MPNANNY_TOOLS_STATIC_CHECK_TEXT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mpnanny::static_check {

struct Position {
  int line = 1;    // 1-based
  int column = 1;  // 1-based, in code points
};

class TextIndex {
 public:
  explicit TextIndex(std::string_view text);
  Position At(size_t byte) const;
  // The line without its end; empty for a line that is not there.
  std::string_view Line(int line) const;

 private:
  std::string_view text_;
  std::vector<uint32_t> starts_;
};

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_TEXT_INDEX_H_
