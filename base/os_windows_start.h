// Starting a program in Windows: its command line, its environment, its three streams.
//
// A plain value whose handles the caller closes. For base/os_windows_*.cc only.
#ifndef MPNANNY_BASE_OS_WINDOWS_START_H_
#define MPNANNY_BASE_OS_WINDOWS_START_H_

#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/result.h"

namespace mpnanny {

struct StartedProgram {
  void* process = nullptr;
  void* job = nullptr;  // holds it and all that it starts; whoever closes it ends them
  void* in = nullptr;   // our ends of the pipes
  void* out = nullptr;
  void* err = nullptr;
};

Result<StartedProgram> StartProgram(const std::vector<std::string>& words,
                                    const std::vector<EnvironmentChange>& changes);

// One command line of `words`, as C libraries take it apart again.
std::string WindowsCommandLine(const std::vector<std::string>& words);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_WINDOWS_START_H_
