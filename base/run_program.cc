#include "base/child_process.h"

namespace mpnanny {

Result<ProgramOutput> RunProgram(const std::vector<std::string>& words,
                                 std::chrono::milliseconds limit,
                                 const std::vector<EnvironmentChange>& changes) {
  MPN_TRY_ASSIGN(auto child, ChildProcess::Start(words, changes));
  child->CloseInput();
  const auto until = ChildProcess::Clock::now() + limit;
  ProgramOutput output;
  while (output.out.size() <= ChildProcess::kMostLineBytes) {
    const ChildProcess::Line line = child->ReadLine(until);
    output.out += line.text;
    if (line.status != ChildProcess::ReadStatus::kLine) break;
    output.out += '\n';
  }
  output.exit_code = child->Wait(until);
  output.err = child->errors();
  return output;
}

}  // namespace mpnanny
