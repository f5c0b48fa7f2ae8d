// A tape as a file: a line for each row, which a person can read and compare.
//
//   mpnanny tape 1 step=120 first_loss=2.3
//   place op=aten.mul.Tensor forward=torch.mul file=train.py line=12
//   figures slot=0 numel=6 nonzero=6 squared_reference=91 max_reference=6 max_held=6
//   call number=1 ; memory=4 type=bfloat16 slot=0 ; memory=5
//   result call=1 memory=6 type=bfloat16 shape=2,3 slot=1
//
// A row's word, then its fields (fields.h) that have not their usual value, then its inputs. Texts
// stand in quotes where a blank, a comma or the like is in them, with \" \\ \n \t \xNN as in C.
// Empty lines and those that begin with # say nothing. Numbers come back as the bits that they
// were.
//
// Pure functions.
#ifndef MPNANNY_ENGINES_JUDGEMENT_TAPE_TEXT_H_
#define MPNANNY_ENGINES_JUDGEMENT_TAPE_TEXT_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

inline constexpr int kTapeVersion = 1;

// One line, without its end.
std::string TextOf(const Row& row);
std::string TextOf(const Tape& tape);

// What a file tells. A tape that comes back can be judged, whatever the file held: what its rows
// refer to exists (references.h).
mpnanny::Result<Tape> ReadTape(std::string_view text);

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_TAPE_TEXT_H_
