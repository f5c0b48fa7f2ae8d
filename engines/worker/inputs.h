// Inputs in words, as docs/auto_diff.md describes them: `float16[8,3]~normal(0,1)`, `x.npy`, `0.5`.
//
// Free functions without state. The same word and seed give the same bits as in Python
// (monitor/python/mpnanny/programs/specification.py).
#ifndef MPNANNY_ENGINES_WORKER_INPUTS_H_
#define MPNANNY_ENGINES_WORKER_INPUTS_H_

#include <string>
#include <vector>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// `name`: of an argument that is given by name; "" of a positional one.
struct Input {
  std::string name, words;
  IValue value;
};

// Throws ModelProblem where a word is neither a description nor a file that can be read.
std::vector<Input> MakeInputs(const std::vector<std::string>& words, int64_t seed);

// A value for each argument of the program; throws ModelProblem where one is missing or too many
// are given.
std::vector<IValue> Bound(const Program& program, const std::vector<Input>& inputs);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_INPUTS_H_
