// What a shadow step writes down: what ran and what was measured, in the order in which it
// happened. The judge reads nothing else, so that a tape tells the whole of a finding.
//
// Plain rows with numbers; text stands in the rows of places and names alone. Memory is known by a
// number that its reference gets when it is made: memory whose reference begins anew has another
// one. Figures are known by their slot. `kNone` stands for what is not there.
#ifndef MPNANNY_ENGINES_JUDGEMENT_TAPE_H_
#define MPNANNY_ENGINES_JUDGEMENT_TAPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/run_words.h"
#include "engines/judgement/element.h"
#include "numerics/format_error.h"
#include "numerics/reference_error.h"

namespace mpnanny::judgement {

inline constexpr int kNone = -1;

// One operator at one place of the program; places are numbered from 0.
struct Place {
  std::string op;       // as it ran: of a backward pass the derivative's operator
  std::string forward;  // the forward operator that the line calls
  Phase phase = Phase::kForward;
  std::string file;  // "" where it is not known
  int line = 0;
  std::optional<std::string> module;

  std::string Source() const { return file.empty() ? "" : file + ":" + std::to_string(line); }
  // The operator without its overload: "aten::sub" of "aten.sub.Tensor".
  std::string Schema() const;
  // The operator, the line, the phase and the module: what two places are the same by.
  std::string Key() const;
};

// A comparison of what is held with its reference, or of one that could not be made (numel 0).
struct Figures {
  int slot = kNone;
  ReferenceError found;
};

// Memory that has an error from the beginning, of inputs that were rounded on their way in.
struct Enters {
  int64_t memory = kNone;
  double error = 0;
};

// A floating-point tensor among the arguments of a call, as it was before the call.
struct Input {
  int64_t memory = kNone;
  Element type = Element::kFloat32;
  int64_t offset = 0;    // of its first element in the memory
  int position = kNone;  // in a list of tensors
  int slot = kNone;      // where the same values were compared before
  bool read = true;      // false: only written
};

// An operator is about to run, or has just run: before its results.
struct Call {
  int number = kNone;
  int place = kNone;
  bool kept = true;  // its arguments are kept, so that it can be computed again
  std::vector<Input> inputs;
};

struct Result {
  int call = kNone;
  int index = 0;  // among the results
  int64_t memory = kNone;
  Element type = Element::kFloat32;
  std::vector<int64_t> shape;
  int position = kNone;  // in the lists of the call
  int slot = kNone;
  double rounding = 0;   // of the operator itself: part of the error below which a reference may be
                         // its own rounding
  bool written = false;  // an argument that the operator has changed
  std::string state;     // the parameter or buffer that it wrote, else ""
};

// Whole numbers that an operator has made of others: places among numbers, counts, ids.
struct Indices {
  int call = kNone;
  int index = 0;
  Element type = Element::kInt64;
  std::vector<int64_t> shape;
  double share = 0;  // that are others with the references
};

// A mask that the operator has made.
struct Mask {
  int call = kNone;
  int mask = kNone;  // its number
  double share = 0;  // of its elements that are others with the references
};
// The program asks for its value, or chooses values by it, at this line.
struct Decided {
  int mask = kNone;
  std::string source;
};

// The program reads a number.
struct Read {
  int64_t memory = kNone;
  std::string source;
};

// A value goes on to an operator that is not followed.
struct Leaves {
  int64_t memory = kNone;
  int place = kNone;  // of that operator
  Element type = Element::kFloat32;
  int64_t offset = 0;
};

// What other formats would make of a value that has left a layer.
struct Formats {
  int layer = kNone;  // as the judge has numbered it
  FormatErrors found;
};

// This input of a call is data where it meets what is trained.
struct Fed {
  int call = kNone;
  int input = kNone;
};

// A loss is about to be derived; without memory where it is not followed.
struct Loss {
  int64_t memory = kNone;
  int slot = kNone;
  double size = 0;     // of one that is not followed
  bool alone = false;  // each operator was followed by itself
};

// What a module gives back, and a gradient, of a pass that was run again.
struct Output {
  int64_t memory = kNone;
  std::string name;  // "" where it needs none
  int slot = kNone;  // what is given, which may be a part of its memory
};
struct GradientAgain {
  std::string name;
  int64_t memory = kNone;
};

// An optimizer is about to use gradients, which follow; or a scaler has left it out.
struct Optimizer {
  std::optional<double> skipped_at;  // the loss scale, of a step that was left out
  bool alone = false;
};
struct Gradient {
  std::string name;
  int64_t memory = kNone;
  int slot = kNone;
};
struct OptimizerEnds {};

// What an operator in place did to what outlives the step.
struct Change {
  int call = kNone;
  int made = kNone;  // the call that made what it copies, else the call itself
  int index = 0;     // among what the operator writes
  int64_t memory = kNone;
  Element type = Element::kFloat32;
  std::vector<int64_t> shape;
  std::string name;       // of a parameter or buffer, else ""
  int slot = kNone;       // the tensor compared with its reference afterwards
  int seen = kNone;       // the number of this tensor and line in the step
  bool in_parts = false;  // other lines change other parts of its memory
  ChangeError found;
};

// What the lines that change a weight come to together, of some of its numbers.
struct Together {
  std::string name;
  ChangeError found;
};

// A line, or several together, by which a change got lost: what its tensor holds afterwards.
struct LostLine {
  int seen = kNone;  // as Change::seen; kNone: of several lines
  std::string name;
  bool excused = false;  // another state holds what is missing
  double magnitude = 0;  // largest of the reference
  double mean = 0;       // of the reference's magnitudes
  double held_sum = 0;   // of the held magnitudes
};
// A weight that mostly stays where it is by chance, as with stochastic rounding.
struct KeptAtRandom {
  std::string name;
};

// A buffer at the step's end.
struct State {
  std::string name;
  int64_t memory = kNone;
  int slot = kNone;
};

// What the front end answered when the judge asked (evidence.h).
enum class Asked {
  kInput,
  kIndexFigures,
  kFills,
  kDependsOnNoise,
  kNoiseOfElements,
  kRoundingDecides,
  kOperands,
  kMadeUnwritten,
  kAboveZero,
  kOwner,
  kCure,
  kSingular
};
struct Answer {
  Asked asked = Asked::kInput;
  int call = kNone;
  int at = kNone;  // the input
  std::vector<double> numbers;
  std::vector<std::string> words;
};

using Row = std::variant<Place, Figures, Enters, Call, Result, Indices, Mask, Decided, Read, Leaves,
                         Formats, Fed, Loss, Output, GradientAgain, Optimizer, Gradient,
                         OptimizerEnds, Change, Together, LostLine, KeptAtRandom, State, Answer>;

struct Tape {
  int step = 0;                      // of the training
  std::optional<double> first_loss;  // the magnitude of the run's first losses
  std::vector<Row> rows;

  void Add(Row row) { rows.push_back(std::move(row)); }
};

}  // namespace mpnanny::judgement

namespace mpnanny {
template <>
struct Vocabulary<judgement::Asked> {
  static constexpr const char* kNames[] = {"input",
                                           "index_figures",
                                           "fills",
                                           "depends_on_noise",
                                           "noise_of_elements",
                                           "rounding_decides",
                                           "operands",
                                           "made_unwritten",
                                           "above_zero",
                                           "owner",
                                           "cure",
                                           "singular"};
};
}  // namespace mpnanny

#endif  // MPNANNY_ENGINES_JUDGEMENT_TAPE_H_
