// Programs of torch.export (.pt2) as programs.
//
// A free function; nothing of the file is executed while it is loaded.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_H_

#include <string>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

// Throws ModelProblem for a file that is none, is damaged, or has something that is not followed.
Program LoadExported(const std::string& path);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_H_
