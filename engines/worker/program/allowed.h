// Which operators a model may use.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_ALLOWED_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_ALLOWED_H_

#include <string>
#include <string_view>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// `name` as torch writes it, "aten::softmax". Throws ModelProblem for what a model has no business
// with (files, Python), and for namespaces that are not torch's own.
void CheckAllowed(std::string_view name, const Site& site);

// "aten::softmax" and "int" as answers show it: "aten.softmax.int".
std::string ShownOperator(std::string_view name, std::string_view overload);

// "aten.softmax.int (attention, model.py:12)".
std::string ShownSite(const Site& site);

// Whether a source line is the user's and not of torch.
bool IsUsersFile(std::string_view file);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_ALLOWED_H_
