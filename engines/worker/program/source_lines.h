// The user's line of a node of TorchScript.
//
// A free function without state.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_SOURCE_LINES_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_SOURCE_LINES_H_

#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

namespace mpnanny::worker {

// "file.py:12": of the node's own range and then of the calls that lead to it, the innermost last
// (those that torch has inlined first), the first that is not torch's; else the node's own; ""
// where the archive has no lines.
std::string UsersLine(const torch::jit::Node& node,
                      const std::vector<torch::jit::SourceRange>& calls);

// The same of a traceback's text, whose innermost frame stands last.
std::string UsersLineOfTraceback(const std::string& text);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_SOURCE_LINES_H_
