// One source on its way through a check: its bytes decoded, parsed, and what is known of it.
//
// A Unit borrows its Source and owns the rest. Not thread-safe; different units may be read at the
// same time.
#ifndef MPNANNY_ENGINES_CHECK_UNIT_H_
#define MPNANNY_ENGINES_CHECK_UNIT_H_

#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/check/engine.h"
#include "engines/check/facts/facts.h"
#include "engines/check/inputs/notebook.h"
#include "engines/check/inputs/settings.h"

namespace mpnanny::check {

struct Unit {
  const Source* source = nullptr;
  std::vector<NotebookCell> cells;   // empty: no notebook
  std::unique_ptr<FileFacts> facts;  // of Python code
  std::string text;                  // of a configuration file or a shell script,
  std::vector<Settings> settings;    // and what it says

  bool may_lead = false;  // not parsed: nothing in it counts unless other files import through it

  bool IsChecked() const { return facts != nullptr || !settings.empty(); }
  const std::string& Text() const { return facts ? facts->syntax.text() : text; }
  std::vector<std::string> notes;  // what was wrong with it
};

// Reads, parses and builds the facts of one source. A source that cannot be checked is left
// unchecked, perhaps with a note; fails only when cancelled.
// `skip_without_torch`: what never mentions torch or a framework on it is not parsed.
Result<void> ReadUnit(const Source& source, const RuleSet& rules, bool skip_without_torch,
                      const CancelToken& cancel, Unit* unit);

// The path that findings in that line carry; `line` becomes the cell's own for a notebook.
std::string PathAt(const Unit& unit, int& line);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_UNIT_H_
