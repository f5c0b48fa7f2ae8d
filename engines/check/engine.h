// The static check: Python training code in, findings about mixed precision out.
//
// Plain structs, no JSON. Check() borrows everything for the call and keeps nothing; a RuleSet is
// immutable after loading. Safe from any thread. Nothing of the code that is checked is ever run.
//
// Lines and columns are 1-based, columns count Unicode code points, ends are exclusive. A notebook
// is checked as one module (an import in cell 1 is known in cell 5) and its findings carry the path
// "nb.ipynb:cell 3", where 3 counts all cells from 1, Markdown ones too, as notebook editors show
// them; lines are those of the cell.
#ifndef MPNANNY_ENGINES_CHECK_ENGINE_H_
#define MPNANNY_ENGINES_CHECK_ENGINE_H_

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/check/candidates/candidate.h"
#include "engines/check/map/map.h"
#include "engines/check/proof.h"

namespace mpnanny::check {

class RuleSet;  // rule_set.h

enum class Severity { kInfo, kWarning, kError };
const char* SeverityName(Severity severity);  // "info", "warning", "error"
// Unknown names are InvalidInput.
Result<Severity> ParseSeverity(std::string_view name);

// What a project asks of its files (pyproject.h). Its rule ids exist.
struct ProjectPolicy {
  std::vector<std::string> select;  // only these; empty: all
  std::vector<std::string> also;
  std::vector<std::string> ignore;
  std::map<std::string, Severity> severity;  // other than the rules' own
};

struct Source {
  std::string path;  // for the findings; its suffix .ipynb makes the text a notebook
  std::string text;  // bytes as in the file; need not be UTF-8
  std::shared_ptr<const ProjectPolicy> policy = nullptr;  // of its project, if that has one
  std::vector<std::string> ignore = {};                   // rules that stay silent in this file
  std::string file = {};  // where the text was read; empty: it was given
};

// A replacement that repairs the finding; all edits of a finding belong together. Offered, never
// applied.
struct Edit {
  int line = 0, column = 0, end_line = 0, end_column = 0;
  std::string text;
};

struct Finding {
  std::string rule;
  Severity severity = Severity::kWarning;
  std::string confidence;  // "high" | "medium" | "low": how sure it is that the code does what the
                           // finding says
  std::string path;
  int line = 0, column = 0, end_line = 0, end_column = 0;
  std::string message;  // what is wrong here
  std::string why;      // what happens, with the number behind it
  std::string fix;
  std::vector<Edit> edits;
  std::vector<std::string> cases;  // ids of knowledge cases
  std::string excerpt;  // the source line, trimmed, or the part of a long one around the finding;
                        // as in the file, so escape it before showing it
  int excerpt_column = 1;  // where the finding begins in it, 1-based, in code points
  std::optional<Proof> proof = std::nullopt;  // if it was tried
};

struct Options {
  Severity min_severity = Severity::kInfo;
  std::vector<std::string> rules;      // only these; empty: all
  std::vector<std::string> also;       // these too. Unknown ids in any of the lists are an error.
  std::vector<std::string> ignore;     // not these
  bool report_unused_ignores = false;  // a note for each comment that silences nothing
  unsigned threads = 0;                // how many work at once; 0: one for each core, at most 8
  bool map = false;  // tell how precision runs through the project instead of what is wrong in it
  bool skip_without_torch = true;  // do not parse what mentions neither torch nor a framework on it
  // Which findings count; null: all. For what is checked only to know the rest. Called from several
  // threads.
  std::function<bool(const Finding&)> keep = nullptr;
  // Called before every step (each file is read once and checked once), from one thread at a time:
  // how many of how many are done, and what has been found so far, in no order. May be null.
  std::function<void(size_t done, size_t total, const struct Report& so_far)> on_step = nullptr;
};

struct Report {
  std::vector<MapPlace> map;          // with Options::map, in no order; there are no findings then
  std::vector<Candidate> candidates;  // places to judge, the one to look at first first
  std::vector<Finding> findings;      // by severity (error first), then path, line, column, rule
  int files_scanned = 0;              // parsed and checked
  int files_skipped = 0;  // never mention torch, or could not be checked (then a note says why)
  int suppressed = 0;     // silenced by `# mpnanny: ignore` comments
  int not_kept = 0;       // left out by Options::keep
  std::array<int, 3> counts = {};  // by Severity, whatever min_severity leaves out of `findings`
  std::vector<std::string> notes;
};

// Largest Python file that is parsed, in bytes; deepest syntax tree that is analysed.
inline constexpr size_t kMaxSourceBytes = 2u << 20;
inline constexpr int kMaxSyntaxDepth = 600;

// Checks all sources together: what one of them says about the project (autocast dtype, GradScaler,
// saved scaler state) is known to the others. Fails only on unknown rule ids, cancellation and the
// deadline; what is wrong with a source becomes a note.
Result<Report> Check(const std::vector<Source>& sources, const Options& options,
                     const RuleSet& rules, const CancelToken& cancel);

// The order in which findings are told: by severity (error first), then path, line, column, rule.
void SortFindings(std::vector<Finding>& findings);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_ENGINE_H_
