// The table of hazards: which operator, on what kind of operand, may go wrong in 16 bits, and the
// question that a reader has to decide. One matcher (find_candidates.h) runs all rows.
//
// Constant data; safe from any thread.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_HAZARDS_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_HAZARDS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "engines/check/candidates/operand_forms.h"

namespace mpnanny::check {

// What decides whether a value is 16-bit there.
enum class Judged : uint8_t {
  kLeft,
  kRight,
  kEither,   // the one of which less is known
  kMixed,    // goes wrong where one is 16-bit and the other is not
  kNothing,  // whatever the types are
};

// What happens, worst first.
enum class Harm : uint8_t { kRaises, kNonFinite, kWrong, kRounded };

// In which projects it counts.
enum class Where : uint8_t {
  kFp16,   // BF16 has the range for it
  k16Bit,  // either type
  kAny,    // whatever the precision is
};

struct Hazard {
  std::string_view rule;   // the page that explains it: rules/<rule>.md
  std::string_view names;  // operators, separated by spaces
  // Whether the operands have the form that makes it a hazard; null: any has.
  bool (*when)(const FileFacts& facts, ValueTypes& types, const Occurrence& at);
  Judged judged;
  Harm harm;
  Where where;
  // The operator whose place in autocast's table counts: under autocast one of its FP32 operators
  // is safe. "": the occurrence's own; "any": the hazard stands whatever autocast does;
  // "converts": autocast gives the operands one type, so that it is safe under it; "on": it stands
  // only where autocast is on; "input": as "", but a 16-bit input has lost it before.
  std::string_view autocast;
  std::string_view what;      // "exp is infinite above 11.09 in FP16"
  std::string_view question;  // what decides
};

std::span<const Hazard> Hazards();

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_HAZARDS_H_
