// What exported programs compute with Python's own operators: sizes.
//
// A free function without state.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_PYTHON_OPERATORS_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_PYTHON_OPERATORS_H_

#include <optional>
#include <string>

#include "engines/worker/program/structures.h"

namespace mpnanny::worker {

// "_operator.add", "math.trunc", "torch.sym_max" with so many arguments, as a function of a stack;
// nullopt where it is not known.
std::optional<Structure> PythonOperator(const std::string& target, size_t arguments);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_PYTHON_OPERATORS_H_
