// Is a question about what the cases are about at all? Learned from two sets of texts: what the
// cases say of themselves, and questions about other subjects (knowledge/search/other_subjects.txt), by
// naive Bayes over words: a word speaks for the cases by the logarithm of how much more often they
// hold it. Words that neither holds count a little against it.
//
// Immutable once learned; safe from any thread.
#ifndef MPNANNY_TOOLS_SEARCH_KNOWLEDGE_SUBJECT_H_
#define MPNANNY_TOOLS_SEARCH_KNOWLEDGE_SUBJECT_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mpnanny::search_knowledge {

inline constexpr std::string_view kOtherSubjectsFile = "knowledge/search/other_subjects.txt";

class Subject {
 public:
  // `ours`: one short text each (a title, a phrase); `others`: one question a line.
  static Subject Learn(const std::vector<std::string>& ours, std::string_view others);

  // Above 0 the words speak for the cases, below for something else. The sum over the question's
  // words, divided by the root of their number, so that long questions are not certain by length.
  double LogOdds(std::string_view question) const;

  // True if a case or a question about other subjects holds the word (lower case).
  bool Knows(const std::string& word) const { return weights_.contains(word); }

 private:
  std::unordered_map<std::string, double> weights_;
};

}  // namespace mpnanny::search_knowledge

#endif  // MPNANNY_TOOLS_SEARCH_KNOWLEDGE_SUBJECT_H_
