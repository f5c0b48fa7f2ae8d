// The comments of a file that silence findings.
//
//   loss = a + b  # mpnanny: ignore[rule, other]     these rules on this statement
//   # mpnanny: ignore                                every rule; alone: on the statement below
//   # mpnanny: ignore-file[rule]                     before the first statement: the whole file
//
// Borrows the syntax and its index. Not thread-safe: it keeps count of which comments were of use.
#ifndef MPNANNY_ENGINES_CHECK_REPORT_SUPPRESSIONS_H_
#define MPNANNY_ENGINES_CHECK_REPORT_SUPPRESSIONS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/check/syntax/syntax.h"
#include "engines/check/syntax/text_index.h"

namespace mpnanny::check {

class Suppressions {
 public:
  // One rule of one comment, or all rules of a comment that names none (then `rule` is empty).
  struct Entry {
    std::string rule;
    int line = 0;
    bool whole_file = false;
    bool alone = false;  // nothing else stands in its line
    bool used = false;
  };

  // Of Python: comments that are really comments.
  Suppressions(const Syntax& syntax, const TextIndex& lines);
  // Of any other text: what follows the first '#' of a line.
  explicit Suppressions(const TextIndex& lines);

  // True if a comment silences `rule` at `node`, on any line of the statement that it belongs to
  // (of a statement with a block only its head) or alone above it.
  bool Silences(NodeId node, std::string_view rule);
  // The same where there is no syntax: lines [first, last].
  bool SilencesLines(int first, int last, std::string_view rule);

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  void Read(std::string_view comment, int line, bool alone, bool may_be_file);
  std::pair<int, int> StatementLines(NodeId node) const;

  const Syntax* syntax_ = nullptr;
  const TextIndex& lines_;
  std::vector<Entry> entries_;      // by line
  std::vector<int> comment_lines_;  // where a comment stands alone, sorted
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_REPORT_SUPPRESSIONS_H_
