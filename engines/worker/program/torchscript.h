// TorchScript archives (torch.jit.save) as programs.
//
// A free function. Loading an archive already executes code of it: only in a confined process.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_TORCHSCRIPT_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_TORCHSCRIPT_H_

#include <functional>
#include <string>
#include <vector>

#include "engines/worker/program/program.h"

namespace mpnanny::worker {

struct TorchScriptModel {
  Program program;
  // The library's own forward pass, to be measured against.
  std::function<IValue(std::vector<IValue>)> forward;
};

// Throws ModelProblem, or what torch throws, for an archive that cannot be loaded.
TorchScriptModel LoadTorchScript(const std::string& path);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_TORCHSCRIPT_H_
