// Cases as vectors of words, compared with a question by the angle between them. BM25 asks which
// case holds the rare words; this asks of which case the question's words are typical, so that a
// case with many words is no magnet.
//
// Immutable once built; safe from any thread.
#ifndef MPNANNY_TOOLS_SEARCH_KNOWLEDGE_TERM_VECTORS_H_
#define MPNANNY_TOOLS_SEARCH_KNOWLEDGE_TERM_VECTORS_H_

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mpnanny::search_knowledge {

class TermVectors {
 public:
  // For each case its short texts (titles, symptoms, phrases), each as a list of words. A word of
  // a case weighs log(1 + texts of the case that hold it) times log(all texts / texts with it).
  static TermVectors Build(const std::vector<std::vector<std::vector<std::string>>>& cases);

  // Cosine between the question's words and each case, 0 … 1, in the order of Build's cases.
  std::vector<double> Cosines(const std::vector<std::string>& words) const;

 private:
  struct Posting {
    size_t at = 0;      // which case
    double weight = 0;  // of the word in the case's vector of length 1
  };
  struct Term {
    double rarity = 0;
    std::vector<Posting> postings;
  };
  std::unordered_map<std::string, Term> words_;
  size_t cases_ = 0;
};

}  // namespace mpnanny::search_knowledge

#endif  // MPNANNY_TOOLS_SEARCH_KNOWLEDGE_TERM_VECTORS_H_
