// What is said of a mismatch: its shape, as it was measured, and how bad it is.
//
// Plain values.
#ifndef MPNANNY_ENGINES_MISMATCH_FINDING_H_
#define MPNANNY_ENGINES_MISMATCH_FINDING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/mismatch/call.h"

namespace mpnanny::mismatch {

enum class Shape {
  kNone,         // no more than another order of sums gives
  kRareTokens,   // as rounding to 16 bits makes it: small, of no direction, least where p is near 1
  kHead,         // the output head's format or soft cap, by trial, or something else behind it
  kStored,       // one side's log-probabilities are 16-bit numbers
  kTemperature,  // another temperature
  kTruncated,    // renormalised over what top-k or top-p keeps
  kShifted,      // one side is a token off
  kDocuments,    // tokens of a row's later documents
  kPadding,      // tokens of rows that begin with padding
  kDecoding,     // all but the first token of an answer
  kPosition,     // grows with the position, or begins at one
  kRows,         // some sequences
  kRouting,      // tokens that went to other experts
  kStale,        // grows with updates, and goes back when weights are copied
  kGrows,        // grows although weights are copied each time
  kOffset,       // of one size everywhere, from the first step on
  kNotFinite,    // a log-probability is not finite
};
inline constexpr int kShapes = static_cast<int>(Shape::kNotFinite) + 1;

std::string_view WordOf(Shape shape);  // "documents"

enum class Agreement { kAgree, kDegraded, kBroken, kNotEstablished };

std::string_view WordOf(Agreement agreement);  // "agree"

// Tokens that are quiet beside those that are not: rms of d of each, and their exposure
// (LogprobMismatch::exposure): what is nearly certain hides an error.
struct Contrast {
  double quiet = 0, loud = 0;
  int64_t quiet_tokens = 0, loud_tokens = 0;
  double quiet_exposure = 1, loud_exposure = 1;
  // How many times as large the error of a logit is. A quiet side of zero counts as the resolution
  // of FP32.
  double Ratio() const;
  // Share of Σd² that lies in the loud tokens.
  double Share() const;
};

struct Finding {
  Shape shape = Shape::kNone;
  Contrast contrast;             // of shapes that tell tokens or calls apart
  int64_t from = 0;              // first position, document or step of the loud ones
  double value = 0;              // the temperature, k, p; the share of tokens
  std::string way;               // of the head: as HeadWay::name; empty: none that was tried
  bool of_trainer = false;       // it is the trainer's side that has it
  double before = 0, after = 0;  // rms, and what is left of it when the shape is taken out
  std::optional<bool> copied;    // of kStale: whether the program says when weights are copied
  bool claimed = false;          // of kStale: it says so of each call, from the first on
};

struct Judgement {
  Agreement agreement = Agreement::kNotEstablished;
  Finding finding;
  size_t shown = 0;  // the call that is quoted: the one with the largest rms
  bool head_tried = false, head_excluded = false;  // no way of the head comes nearer
  double head_rest = 0;                            // then: what is left with the best of them
};

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_FINDING_H_
