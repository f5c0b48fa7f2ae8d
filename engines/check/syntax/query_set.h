// All rules' queries compiled into one tree-sitter query, and the predicates that tree-sitter
// leaves to its user.
//
// Most patterns ask for a name (#eq?, #any-of?, #resolves-to? of an identifier): only the places
// where such a name stands are matched; a pattern that asks for none makes every file be walked
// whole. Immutable after Compile(); safe from any thread (each Matches()
// has its own cursor).
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_QUERY_SET_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_QUERY_SET_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/check/facts/facts.h"
#include "engines/check/rule_set.h"
#include "engines/check/syntax/tree_sitter.h"

namespace mpnanny::check {

struct QueryText {
  size_t rule = 0;   // index into the rule set
  std::string path;  // for error messages
  std::string text;
};

// Where a pattern was found.
struct QueryMatch {
  uint32_t pattern = 0;
  NodeId finding = kNoNode;
};

class QuerySet {
 public:
  // Fails, with file and line, on a query that does not compile, one without @finding, a capture
  // that is neither @finding nor used by a predicate, an unknown predicate or one with wrong
  // arguments.
  static Result<std::unique_ptr<QuerySet>> Compile(const std::vector<QueryText>& queries);

  // What the queries match in one file, as far as that file tells. Its syntax must still have its
  // tree.
  std::vector<QueryMatch> Matches(const FileFacts& facts) const;
  // False if a pattern asks for no name, which makes every file be walked whole.
  bool ask_for_names() const { return !whole_; }
  // The findings among them, now that the project is known.
  void Report(const FileFacts& facts, const std::vector<QueryMatch>& matches,
              std::vector<RawFinding>* findings) const;

 private:
  enum class Test { kEqual, kMatch, kAnyOf, kResolvesTo, kInAutocast, kNoGrad, kLowPrecision };
  struct Predicate {
    Test test = Test::kEqual;
    bool negated = false;
    bool any = false;  // one of the nodes of a quantified capture is enough
    uint32_t capture = 0;
    std::optional<uint32_t> other;  // #eq? @a @b
    std::vector<std::string> arguments;
  };
  Result<void> ReadPredicates(uint32_t pattern, const QueryText& query);
  // Adds the names that a pattern, whose source is `text`, asks for; false if it asks for none.
  bool AddWords(uint32_t pattern, std::string_view text);
  void Match(const FileFacts& facts, TSQueryCursor* cursor, uint32_t begin, uint32_t end,
             std::vector<QueryMatch>* matches) const;
  bool Holds(const Predicate& predicate, const TSQueryMatch& match, const FileFacts& facts) const;
  bool HoldsFor(const Predicate& predicate, NodeId node, std::string_view other,
                const FileFacts& facts) const;

  TsQuery query_;
  uint32_t finding_ = 0;                            // capture id of @finding
  std::vector<size_t> rules_;                       // by pattern
  std::vector<std::vector<Predicate>> predicates_;  // by pattern
  std::set<std::string, std::less<>> words_;        // identifiers one of which every match holds
  std::set<std::string, std::less<>> resolved_;     // those that an import may give another name
  bool whole_ = false;                              // a pattern asks for no name
};

// The form of #match?: alternatives divided by '|'; each may begin with '^' and end with '$'; ".*"
// stands for anything, all else is literal. Not a regular expression: it takes linear time on any
// input.
bool MatchesSimplePattern(std::string_view pattern, std::string_view text);
// False if the pattern holds characters that a regular expression would give a meaning and this
// form does not.
bool IsSimplePattern(std::string_view pattern);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_QUERY_SET_H_
