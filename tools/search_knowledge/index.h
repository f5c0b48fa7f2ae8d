// Full-text index over the knowledge cases: SQLite FTS5 in memory, ranked by BM25, with the agent's
// own findings (alert types, rules) as filters.
//
// An index owns its case library and its database, is immutable once built, and is safe from any
// thread (queries are serialised by a mutex: one takes well under a millisecond).
#ifndef MPNANNY_TOOLS_SEARCH_KNOWLEDGE_INDEX_H_
#define MPNANNY_TOOLS_SEARCH_KNOWLEDGE_INDEX_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"
#include "tools/cases/case.h"

struct sqlite3;

namespace mpnanny::search_knowledge {

// Only cases that fit every filter which is not empty.
struct Filters {
  std::string category;
  std::string severity;   // P0 | P1 | P2
  std::string precision;  // cases that list it
  std::string kind;
  std::string alert;  // cases with a signal of that alert type
  std::string rule;   // cases with a signal of that rule
  bool empty() const;
};

struct Hit {
  const cases::Case* found = nullptr;  // owned by the index
  double score = 0;                    // higher is better; comparable within one query only
  std::vector<std::string> matched;    // words of the query that title, symptom or signals hold
};

class KnowledgeIndex {
 public:
  // Builds the index over every case of `data`; broken cases are left out (library().problems()).
  static Result<std::unique_ptr<KnowledgeIndex>> Build(const DataFiles& data);
  ~KnowledgeIndex();
  KnowledgeIndex(const KnowledgeIndex&) = delete;
  KnowledgeIndex& operator=(const KnowledgeIndex&) = delete;

  // Cases for the query, best first, hits far weaker than the best left out. An id as query finds
  // that case first, an alert type or rule id the cases whose signals name it. Without words to
  // look for, every case that fits the filters, the one that the filtered signal proves most first.
  // Any text is a valid query.
  Result<std::vector<Hit>> Search(const std::string& query, const Filters& filters) const;

  const cases::CaseLibrary& library() const { return library_; }

 private:
  KnowledgeIndex() = default;
  Result<std::vector<Hit>> Ranked(const std::string& query) const;

  cases::CaseLibrary library_;
  mutable std::mutex mutex_;
  sqlite3* db_ = nullptr;  // owned; closed by the destructor
};

// The index over `data`, built at the first call and kept for the next one with the same texts.
Result<std::shared_ptr<const KnowledgeIndex>> SharedIndex(const DataFiles& data);

}  // namespace mpnanny::search_knowledge

#endif  // MPNANNY_TOOLS_SEARCH_KNOWLEDGE_INDEX_H_
