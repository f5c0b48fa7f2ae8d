// What an operator's figures say: whether it made an error, and which kind of it.
//
// Borrows the step's calls, findings and figures.
#ifndef MPNANNY_ENGINES_JUDGEMENT_OPERATOR_JUDGE_H_
#define MPNANNY_ENGINES_JUDGEMENT_OPERATOR_JUDGE_H_

#include <optional>
#include <string>
#include <vector>

#include "engines/judgement/calls.h"
#include "engines/judgement/evidence.h"
#include "engines/judgement/findings.h"
#include "engines/judgement/why.h"

namespace mpnanny::judgement {

class Slots;

class OperatorJudge {
 public:
  OperatorJudge(Calls& calls, Findings& findings, Slots& slots)
      : calls_(calls), findings_(findings), slots_(slots) {}

  // Judges a result. Returns whether the reference has to begin anew, as what is held: it is not
  // finite where the held value is.
  bool Take(const Result& row, Evidence& evidence);
  void Take(const Indices& row, Evidence& evidence);

  int compared() const { return compared_; }
  const Verdict& verdict() const { return verdict_; }  // on the newest row

 private:
  // One result under judgement.
  struct Subject {
    const Result& row;
    CallRecord& call;
    Evidence& evidence;
    std::vector<KnownInput*> sources;
    ReferenceError found;
    double error = 0;
    int origin = kNone;  // the finding that its worst input carries
  };
  struct InputError {
    double error = 0;  // the largest
    int rank = 0;      // 0 finite, 1 infinite, 2 NaN, 3 not finite here only
  };

  const ReferenceError* FiguresOf(const Subject& result, KnownInput& input);
  int IndexOf(const Subject& result, const KnownInput& input) const;
  const KnownInput* WorstOf(const Subject& result) const;
  InputError ErrorOfInputs(const Subject& result);
  bool IsNoise(const Subject& result, const KnownInput* carried, double rounding);
  bool Cancels(const Subject& result, double rounding);
  bool SumsToNothing(const Subject& result);
  bool IsNoiseOfElements(const Subject& result);

  int NonFinite(const Subject& result);
  int FromOutside(const Subject& result);
  bool MeetsZero(const Subject& result);
  void Exclude(int made, const Subject& result);
  void Show(int made, const Subject& result);
  int Wrong(const Subject& result);
  void FollowLoop(const Subject& result, double error);
  int Flushed(const Subject& result);
  int WrongIntegers(const Subject& result);
  int Add(FindingKind kind, const Subject& result, double share, double error_in, double error_out);
  int NoneBecause(Why why);  // no finding is made
  void SearchCure(int made, const Subject& result);
  void CureLoop(Finding& made, const Subject& result);

  Calls& calls_;
  Findings& findings_;
  Slots& slots_;
  int compared_ = 0;
  Verdict verdict_;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_OPERATOR_JUDGE_H_
