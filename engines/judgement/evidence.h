// What the judge asks the front end, which still has the tensors: each is a question that only a
// suspicion raises, so that it is measured for few calls. An answer is a row of the tape.
#ifndef MPNANNY_ENGINES_JUDGEMENT_EVIDENCE_H_
#define MPNANNY_ENGINES_JUDGEMENT_EVIDENCE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engines/judgement/finding.h"

namespace mpnanny::judgement {

class Evidence {
 public:
  virtual ~Evidence() = default;

  // Of the call whose result is judged.
  // The slot with input `input` compared with its reference; kNone where one cannot be read.
  virtual int InputFigures(int input) = 0;
  // The slot of the whole numbers compared as numbers; kNone as above.
  virtual int IndexFigures() = 0;
  // Whether a number among the arguments is not finite, as the -inf of a mask.
  virtual bool Fills() = 0;
  // Whether the reference would be another one if the inputs that are 0 but for rounding (`noise`)
  // were 0.
  virtual bool DependsOnNoise(const std::vector<int>& noise) = 0;
  // Whether what is wrong by more than `error` are elements that are 0 but for rounding.
  virtual bool IsNoiseOfElements(double error) = 0;
  // Whether it is finite with values that round to those that came in. nullopt: `why` that cannot
  // be told, as where not all that led to it was computed in this step.
  virtual std::optional<bool> RoundingDecides(std::string& why) = 0;
  // Of the first element that is not finite: the operands, as held and as reference.
  virtual std::vector<std::array<double, 2>> Operands() = 0;

  // Of a backward pass, of the first element of its kind: where the derivative is infinite, or NaN
  // because an infinity that came in meets a 0. nullopt: it is neither.
  virtual std::optional<Singular> SingularAt() = 0;

  // Of an input that was not finite before the step.
  // Where its memory was made, if some of it was never written; nullopt if it was.
  virtual std::optional<std::string> MadeUnwritten(int input) = 0;
  virtual bool IsAboveZero(int input) = 0;  // whether any element is
  struct Owner {
    std::string name;       // "buffer running_var of BatchNorm1d", "" where nothing holds it
    bool is_state = false;  // it is trained, or was changed in place again and again
    // It may have been computed or rounded before: precision may have spoilt it.
    bool is_doubtful = false;
  };
  virtual Owner OwnerOf(int input) = 0;

  // Searches for what cures the result's error, of kind `kind` and so large. `narrow`: the error
  // came in with 16 bits, so that FP32 is to be tried first.
  struct CureAnswer {
    std::optional<Cure> cure;
    std::string why_not;
  };
  virtual CureAnswer FindCure(FindingKind kind, double before, bool narrow) = 0;
  // Whether everything runs again for it once the step is over (Judge::Cures).
  virtual bool SearchesLater() const { return false; }
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_EVIDENCE_H_
