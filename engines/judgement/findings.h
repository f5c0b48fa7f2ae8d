// The findings of one step, one for each kind and place.
//
// Owns them; neither their numbers nor their addresses change.
#ifndef MPNANNY_ENGINES_JUDGEMENT_FINDINGS_H_
#define MPNANNY_ENGINES_JUDGEMENT_FINDINGS_H_

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "engines/judgement/finding.h"

namespace mpnanny::judgement {

class Findings {
 public:
  // The number of the finding of this kind at this place (`same`: Calls::SamePlace): `made`, or
  // the one that was there before, with the worse figures.
  int Add(int same, Finding made);

  // Finding `origin` gets to `what`, and so do those whose error it works on. kNone: nobody does.
  void Reaches(int origin, Reached what, const std::string& name, double error);

  Finding& operator[](int number) { return all_[static_cast<size_t>(number)]; }
  const Finding& operator[](int number) const { return all_[static_cast<size_t>(number)]; }
  std::deque<Finding>& all() { return all_; }
  const std::deque<Finding>& all() const { return all_; }

 private:
  std::deque<Finding> all_;
  std::map<std::pair<FindingKind, int>, int> known_;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_FINDINGS_H_
