// Evidence that answers from a tape: from the answers that follow the row under judgement.
//
// Lives for one row; borrows the tape's rows.
#ifndef MPNANNY_ENGINES_JUDGEMENT_REPLAYED_EVIDENCE_H_
#define MPNANNY_ENGINES_JUDGEMENT_REPLAYED_EVIDENCE_H_

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/judgement/evidence.h"

namespace mpnanny::judgement {

class ReplayedEvidence : public Evidence {
 public:
  explicit ReplayedEvidence(std::vector<const Answer*> answers) : answers_(std::move(answers)) {}

  int InputFigures(int input) override;
  int IndexFigures() override;
  bool Fills() override;
  bool DependsOnNoise(const std::vector<int>& noise) override;
  bool IsNoiseOfElements(double error) override;
  std::optional<bool> RoundingDecides(std::string& why) override;
  std::vector<std::array<double, 2>> Operands() override;
  std::optional<Singular> SingularAt() override;
  std::optional<std::string> MadeUnwritten(int input) override;
  bool IsAboveZero(int input) override;
  Owner OwnerOf(int input) override;
  CureAnswer FindCure(FindingKind kind, double before, bool narrow) override;

  int unanswered() const { return unanswered_; }

 private:
  // The first answer to this question that was not used yet; an empty one where there is none.
  // `word`: its first word, if that belongs to the question.
  const Answer& Find(Asked asked, int at, const char* word = nullptr);
  bool IsTrue(Asked asked, int at);

  std::vector<const Answer*> answers_;  // null: used
  int unanswered_ = 0;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_REPLAYED_EVIDENCE_H_
