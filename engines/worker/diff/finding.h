// What a run has shown: operators that make errors, and what all operators add to the error.
//
// Plain values.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_FINDING_H_
#define MPNANNY_ENGINES_WORKER_DIFF_FINDING_H_

#include <ATen/core/TensorBody.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/run_words.h"
#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// What was computed again in a wider type, and what that made of the error.
struct Cure {
  std::vector<std::string> lines;  // in the order in which they run
  std::vector<std::string> operators;
  c10::ScalarType type = c10::ScalarType::Float;
  double error_before = 0, error_after = 0;
};

// Where the error of a finding gets to.
struct Reach {
  std::string what;  // "output", "state" (a buffer), "index" (whole numbers made of it)
  std::string name;  // of the output or state; of an index its line
  double error = 0;
};

// One operator at one line. Figures are of its worst call, but for the number and what a cure is
// measured against: those are of its first.
struct Finding {
  FindingKind kind = FindingKind::kAmplified;
  Site site;
  std::string line;  // LineOf() its node
  int number = 0;    // of the operator in its run
  size_t output = 0;
  std::vector<c10::ScalarType> input_types;
  c10::ScalarType held_type = c10::ScalarType::Float;
  std::string shape;
  double share = 0;      // of the elements
  double magnitude = 0;  // largest of the reference
  double error_in = 0, error_out = 0;
  int count = 1;
  at::Tensor reference;    // of the first call
  double first_error = 0;  // its error: the share of wrong whole numbers, infinite, or relative
  std::optional<Cure> cure;
  std::vector<Reach> reaches;

  // Of what went in and of the result: the largest relative error of one rounding.
  double HalfUlp() const;
  bool IsNarrow() const;  // one of them has 16 bits
};

// What an operator at a line adds, over all its calls.
struct Row {
  Site site;
  int number = 0;  // of its first call
  int count = 0;
  double local = 0, accumulated = 0, absmax = 0, squared_local = 0, wrong_whole = 0;
  int64_t nonfinite = 0;
};

// Whole numbers or booleans that are others than those of the references.
struct Decision {
  Site site;
  int number = 0;
  std::string dtype, shape;
  double share = 0;
  bool is_cast = false;
};

// A call, for the way back from an error to where it came in.
struct CallRecord {
  std::string line, op;
  double error = 0;                    // of what it made; infinite where that is not finite
  double entered = 0;                  // before a loop over this line began
  std::vector<int> producers;          // numbers of the calls that made its inputs
  std::vector<c10::ScalarType> types;  // of its floating-point results
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_FINDING_H_
