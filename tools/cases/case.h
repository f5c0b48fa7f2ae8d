// A knowledge case as data: what knowledge/cases/<id>.md says. Shared by search_knowledge (finds cases), diagnose_run
// (ranks them by how well their signals fit a run) and static_check (links findings to them).
//
// Plain values; CaseLibrary is immutable after Load(). Safe from any thread.
#ifndef MPNANNY_TOOLS_CASES_CASE_H_
#define MPNANNY_TOOLS_CASES_CASE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"

namespace mpnanny::cases {

// One element of a case's signature: what would be seen if the case is what happened. The grammar is closed (see
// knowledge/README.md); rules, detectors and ranking share it.
//   alert:TYPE                      an alert of that type
//   rule:id                         a static finding of that rule
//   stat: metric op value [glob]    a statistic of a layer that fits the glob ("stat: absmax > 60000 *.wo")
//   scale: declining|collapsed|stuck
//   log: pattern                    a line of a log holds the words, in order ('*' any run of characters)
struct Signal {
  enum class Kind { kAlert, kRule, kStat, kScale, kLog };
  Kind kind = Kind::kAlert;
  std::string name;        // alert type, rule id, metric, scale state or log pattern
  std::string op;          // stat only: < <= > >= == !=
  double value = 0;        // stat only
  std::string layer_glob;  // stat and alert: optional, "" fits every layer
  double weight = 1;       // > 0; what this signal is worth against the case's others
  std::string text;        // as written, for people
};

// Parses one signal as it stands in front matter ("stat: absmax > 60000 *.wo"); the error names what is allowed.
Result<Signal> ParseSignal(std::string_view text, double weight);

struct Case {
  std::string id;
  std::string kind;        // failure | concept
  std::string title, symptom, title_zh, symptom_zh;
  std::string category;    // knowledge/README.md lists them
  std::string severity;    // P0 | P1 | P2 = error | warning | info
  std::string difficulty;  // easy | medium | hard (to detect)
  std::vector<std::string> precision, components, detectable_by, evidence, related;
  std::vector<Signal> signals;
  std::string body;        // Markdown after the front matter
  std::string fix;         // the text of its "Fix" section
};

Result<Case> ParseCase(std::string_view text, std::string_view name);

class CaseLibrary {
 public:
  // Reads every knowledge/cases/*.md of `data`. A broken case is left out and named in problems().
  static CaseLibrary Load(const DataFiles& data);

  const Case* Find(std::string_view id) const;           // null if there is none
  const std::vector<Case>& all() const { return cases_; }  // sorted by id
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<Case> cases_;
  std::vector<std::string> problems_;
};

}  // namespace mpnanny::cases

#endif  // MPNANNY_TOOLS_CASES_CASE_H_
