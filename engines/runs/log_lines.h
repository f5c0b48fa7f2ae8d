// The lines of a log that its steps stand in. Where a log does not print the number of a step, its
// reader can look up a line and no step: a text about such a log names lines.
//
// A value; shares the database of the run that it was made of. One owner on one thread.
#ifndef MPNANNY_ENGINES_RUNS_LOG_LINES_H_
#define MPNANNY_ENGINES_RUNS_LOG_LINES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

class LogLines {
 public:
  LogLines() = default;  // of no log: knows no line
  // `pasted`: the log itself, where it is no file; null for others.
  explicit LogLines(const Source& source, const std::string* pasted = nullptr);

  // Of the run's step, from 1; nullopt where it stands in no line, or the format has none.
  std::optional<int64_t> Of(int64_t step) const;
  // Whether three quarters of the lines and more print the number of their step, or a bar of
  // progress beside them does.
  bool say_their_steps() const { return say_their_steps_; }

  struct Line {
    int64_t number = 0;
    std::string text;  // escaped, at most 160 bytes
  };
  // The lines that `text` names, itself or by their steps, word for word; at most four. None where
  // the log cannot be read again.
  std::vector<Line> NamedIn(std::string_view text) const;

  // Where the log does not print the numbers of its steps: `text` (English or Chinese) with the
  // line in place of each step, "line 70" for "step 61".
  std::string Located(std::string text) const;
  // All texts in `json`.
  void Locate(Json& json) const;

 private:
  void ReadTexts(std::vector<Line>& named) const;

  std::shared_ptr<Database> database_;
  int64_t run_id_ = 0;
  bool say_their_steps_ = true;
  std::string path_;
  std::shared_ptr<const std::string> pasted_;
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_LOG_LINES_H_
