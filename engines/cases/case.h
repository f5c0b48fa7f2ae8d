// A knowledge case as data: what knowledge/cases/<id>.md says. Shared by search_knowledge (finds
// cases), diagnose_run (ranks them by how well their signals fit a run) and static_check (links
// findings to them). knowledge/README.md documents the file's form.
//
// Plain values; CaseLibrary is immutable after Load(). Safe from any thread.
#ifndef MPNANNY_ENGINES_CASES_CASE_H_
#define MPNANNY_ENGINES_CASES_CASE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"
#include "engines/cases/signal.h"

namespace mpnanny::cases {

inline constexpr std::string_view kCaseFolder = "knowledge/cases/";

struct Case {
  std::string id;
  std::string kind;  // failure | concept
  std::string title, symptom, title_zh, symptom_zh, fix_zh;
  std::string category;             // this and the other words: engines/cases/vocabulary.h
  std::string severity;             // P0 | P1 | P2 = error | warning | info
  std::string difficulty;           // easy | medium | hard (to detect)
  std::vector<std::string> posted;  // how people write it, English and Chinese
  std::vector<std::string> precision, components, detectable_by, evidence, related;
  std::vector<std::string> frameworks, devices;  // where it happens
  std::vector<std::string> versions;             // affected; empty: every version (versions.h)
  std::string verified;                          // YYYY-MM-DD: when it was last checked …
  std::vector<std::string> verified_with;        // … and with what: "torch 2.13.0"
  std::vector<Signal> signals;
  std::string body;  // Markdown after the front matter
  std::string fix;   // the text of its "Fix" section
};

// Reads one case and appends everything that is wrong with its front matter to `problems`, each as
// "name: what. What to do.". The case holds what could be read; use it only if nothing was
// appended.
Case ReadCase(std::string_view text, std::string_view name, std::vector<std::string>& problems);

// ReadCase for callers who want one error (the first; it says how many more there are).
Result<Case> ParseCase(std::string_view text, std::string_view name);

// The text under "## <heading>" of a case's body, without the heading; "" if there is none.
std::string Section(std::string_view body, std::string_view heading);

// The headings of level 2 in their order; what stands in fenced code is no heading.
std::vector<std::string> Headings(std::string_view body);

class CaseLibrary {
 public:
  CaseLibrary() = default;
  // Of cases that are at hand, sorted by id.
  explicit CaseLibrary(std::vector<Case> cases) : cases_(std::move(cases)) {}
  // Reads every knowledge/cases/*.md of `data`. A broken case is left out and named in problems().
  static CaseLibrary Load(const DataFiles& data);

  const Case* Find(std::string_view id) const;             // null if there is none
  const std::vector<Case>& all() const { return cases_; }  // sorted by id
  const std::vector<std::string>& problems() const { return problems_; }
  std::vector<std::string> Ids() const;

 private:
  std::vector<Case> cases_;
  std::vector<std::string> problems_;
};

// The library of `data`, read once for as long as its cases stay the same.
std::shared_ptr<const CaseLibrary> SharedLibrary(const DataFiles& data);

}  // namespace mpnanny::cases

#endif  // MPNANNY_ENGINES_CASES_CASE_H_
