// Regular expressions over layer names, matched in linear time whatever the pattern.
//
// Patterns come from clients and names from files, so neither may make a match slow or deep: a set
// of states is followed through the name (Thompson 1968), without backtracking or recursion on the
// name. A Pattern is an immutable value; safe from any thread.
#ifndef MPNANNY_TOOLS_QUERY_STATS_PATTERN_H_
#define MPNANNY_TOOLS_QUERY_STATS_PATTERN_H_

#include <bitset>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny::query_stats {

class Pattern {
 public:
  // Literals, ".", "[a-z]", "[^…]", "\d", "\w", "\s" and their capitals, "^", "$", "(…)", "|", "*",
  // "+", "?", "{2,5}". InvalidInput says what is wrong and where; 1,000 bytes and 1,000 states at
  // most.
  static Result<Pattern> Create(std::string_view text);

  // True if some part of `name` fits.
  bool Finds(std::string_view name) const;

 private:
  friend class PatternParser;
  struct State {
    enum Kind { kBytes, kSplit, kStart, kEnd, kMatch } kind = kMatch;
    std::bitset<256> bytes;  // kBytes
    int next = -1, other = -1;
  };
  void Follow(int state, bool at_start, bool at_end, std::vector<char>& on,
              std::vector<int>& list) const;

  std::vector<State> states_;
  int start_ = 0;
};

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_PATTERN_H_
