// Search over the knowledge cases: full text (SQLite FTS5 in memory, ranked by BM25) and the angle
// between vectors of words (term_vectors.h), both over what people say and over what they mean
// (terms.h); with the agent's own findings (alert types, rules) as filters, and with an opinion
// whether the question is about any case at all (subject.h).
//
// An index owns its case library and its database, is immutable once built, and is safe from any
// thread (queries are serialised by a mutex: one takes well under a millisecond).
#ifndef MPNANNY_TOOLS_SEARCH_KNOWLEDGE_INDEX_H_
#define MPNANNY_TOOLS_SEARCH_KNOWLEDGE_INDEX_H_

#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"
#include "engines/cases/case.h"
#include "tools/search_knowledge/subject.h"
#include "tools/search_knowledge/term_vectors.h"
#include "tools/search_knowledge/terms.h"
#include "tools/search_knowledge/words.h"

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

struct SearchResult {
  std::vector<Hit> hits;  // best first, hits far weaker than the best left out
  // False: no case is about the query, and `hits` are its nearest by words, two at most.
  bool about = true;
  std::vector<std::string> unknown;  // words of the query that no case holds
};

class KnowledgeIndex {
 public:
  // Builds the index over every case of `data`; broken cases are left out (library().problems()).
  static Result<std::unique_ptr<KnowledgeIndex>> Build(const DataFiles& data);
  ~KnowledgeIndex();
  KnowledgeIndex(const KnowledgeIndex&) = delete;
  KnowledgeIndex& operator=(const KnowledgeIndex&) = delete;

  // Cases for the query. An id as query finds
  // that case first, an alert type or rule id the cases whose signals name it. Without words to
  // look for, every case that fits the filters, the one that the filtered signal proves most first.
  // Any text is a valid query.
  Result<SearchResult> Search(const std::string& query, const Filters& filters) const;

  const cases::CaseLibrary& library() const { return library_; }

 private:
  KnowledgeIndex() = default;
  Result<std::vector<double>> Bm25(const std::string& query, const QueryWords& words) const;
  Result<SearchResult> Ranked(const std::string& query, const QueryWords& words) const;
  std::vector<std::string> UnknownWords(const QueryWords& words) const;

  cases::CaseLibrary library_;
  Terms terms_;
  TermVectors vectors_;
  Subject subject_;
  std::unordered_set<std::string> words_;  // that any case holds
  mutable std::mutex mutex_;
  sqlite3* db_ = nullptr;  // owned; closed by the destructor
};

// The index over `data`, built at the first call and kept for the next one with the same texts.
Result<std::shared_ptr<const KnowledgeIndex>> SharedIndex(const DataFiles& data);

}  // namespace mpnanny::search_knowledge

#endif  // MPNANNY_TOOLS_SEARCH_KNOWLEDGE_INDEX_H_
