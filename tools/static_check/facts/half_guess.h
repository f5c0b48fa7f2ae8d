// Whether code may well run in 16 bits where its text does not prove it: what rules ask before they
// tell something as a guess (RawFinding::guess).
//
// The place must be one that runs with a model (a method of a torch.nn.Module, a loss, attention),
// the project must lower precision somewhere, and the value must not be known to be FP32: no cast
// to it, no operator that gives it, may lie on the way. Borrows the FileFacts; a plain value.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_FACTS_HALF_GUESS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_FACTS_HALF_GUESS_H_

#include <string>
#include <string_view>

#include "tools/static_check/facts/facts.h"
#include "tools/static_check/facts/model_parts.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_set.h"

namespace mpnanny::static_check {

class HalfGuess {
 public:
  // What the project lets happen at `node`.
  HalfGuess(const FileFacts& facts, NodeId node);

  // What would hold if somebody cast the weights and inputs as a whole, in a project that has
  // 16-bit types but does not tell: for findings that say so. Not where autocast is switched on or
  // off.
  static HalfGuess IfCast(const FileFacts& facts, NodeId node);

  // The widest guess, for findings that say "if this is 16-bit": any place that may run in
  // training, in a project that lets 16 bits be chosen somewhere. Inside of a region autocast
  // decides.
  static HalfGuess Anywhere(const FileFacts& facts, NodeId node);

  // The same where nothing is trained either: for what fails wherever it is handed 16 bits.
  static HalfGuess EvenUntrained(const FileFacts& facts, NodeId node);

  // The narrower guess where it holds for the weights, else the widest.
  static HalfGuess Widest(const FileFacts& facts, NodeId node) {
    const HalfGuess guess(facts, node);
    return guess.weights() ? guess : Anywhere(facts, node);
  }

  // Autocast of some 16-bit type may be on here; weights and inputs may be 16-bit as a whole, so
  // that no operator is kept in FP32.
  bool autocast() const { return autocast_; }
  bool weights() const { return weights_; }
  // Either, and in FP16.
  bool fp16() const { return fp16_ && (autocast_ || weights_); }
  bool any() const { return autocast_ || weights_; }

  // True if the expression may be a 16-bit tensor: neither a number, nor made of indices, masks or
  // labels, nor of anything that is known to be FP32.
  bool MayBeHalf(NodeId expression) const;
  // True if something in the expression's making is known to be FP32.
  bool IsKnown(NodeId expression) const;

 private:
  enum class Kin { kNumber, kIndex, kFp32, kMaybe };
  Kin KinOf(NodeId expression, int depth) const;
  Kin KinOfName(NodeId id, int depth) const;
  Kin KinOfCall(NodeId id, int depth) const;
  // True if a call of the function in this file hands in something that is FP32.
  bool IsGivenFp32(const Function& function, std::string_view parameter, int depth) const;

  explicit HalfGuess(const FileFacts& facts) : facts_(facts) {}

  const FileFacts& facts_;
  bool autocast_ = false, weights_ = false, fp16_ = false;
  mutable int steps_ = 0;  // that one question may still take
};

// Makes the finding one that rests on what is only likely.
void MarkGuess(RawFinding& finding);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_FACTS_HALF_GUESS_H_
