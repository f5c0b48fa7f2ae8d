// A candidate: a place where an operator may go wrong in 16 bits and the text does not decide it.
//
// Plain values. A reader decides; candidates never count as findings.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_CANDIDATE_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_CANDIDATE_H_

#include <optional>
#include <string>
#include <vector>

#include "engines/check/proof.h"

namespace mpnanny::check {

struct CandidateFact {
  std::string text;  // raw: a part of it is the user's
  int line = 0;      // 0: of no one line
};

struct Candidate {
  std::string path;  // of a notebook's cell, as findings have it
  int line = 0, end_line = 0;
  std::string rule;      // the page that explains it
  std::string hazard;    // what may go wrong; raw
  std::string question;  // what decides
  double score = 0;      // harm × likelihood, 0 to 1
  std::string code;      // the statement, raw
  std::vector<CandidateFact> known;
  std::vector<std::string> unknown;
  std::optional<Proof> proof = std::nullopt;  // if it was tried
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_CANDIDATE_H_
