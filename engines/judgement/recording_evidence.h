// Evidence that writes down what it is asked and what it answers, as rows of the tape.
//
// Lives for one row under judgement; borrows the evidence that answers and the tape.
#ifndef MPNANNY_ENGINES_JUDGEMENT_RECORDING_EVIDENCE_H_
#define MPNANNY_ENGINES_JUDGEMENT_RECORDING_EVIDENCE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engines/judgement/evidence.h"

namespace mpnanny::judgement {

class RecordingEvidence : public Evidence {
 public:
  // `call`: the one whose result is judged.
  RecordingEvidence(Evidence& evidence, int call, Tape& tape)
      : evidence_(evidence), call_(call), tape_(tape) {}

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

 private:
  void Write(Asked asked, int at, std::vector<double> numbers, std::vector<std::string> words = {});

  Evidence& evidence_;
  int call_;
  Tape& tape_;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_RECORDING_EVIDENCE_H_
