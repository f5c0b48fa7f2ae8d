// The exception that ended a training, read from the traceback that Python printed into its log; or
// that the system killed it, as launchers and batch systems tell.
//
// A value owned by one reader; the text is data from outside.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_TRACEBACK_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_TRACEBACK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mpnanny::imports {

struct PrintedError {
  std::string error, text;  // "RuntimeError" and its first line; raw
  std::string source;       // file:line of the innermost frame outside of installed packages; raw
  int64_t line = 0;         // of the log, where it says so
};

class TracebackReader {
 public:
  // `number`: of the line in its file. `has_loss`: it shows a loss, so the training goes on.
  void Add(std::string_view line, int64_t number, bool has_loss);

  // The first error after the last line that shows a loss; a launcher's error about a child, an
  // interrupt and an exit are none. nullopt if the log does not end with one.
  std::optional<PrintedError> Take() const;

 private:
  std::string prefix_;  // of the traceback's lines: "[rank0]: "
  bool inside_ = false;
  std::string source_;
  std::optional<PrintedError> found_;
  int64_t losses_since_ = 0;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_TRACEBACK_H_
