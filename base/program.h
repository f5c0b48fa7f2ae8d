// What the running program knows about itself and its terminal.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_PROGRAM_H_
#define MPNANNY_BASE_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mpnanny {

// To be called first in main(): what is read and written then is the same bytes on every system.
void PrepareStandardStreams();

// Absolute path of the running program's file, symbolic links resolved; empty where the system does
// not tell.
std::string ProgramPath();

// True if a person is likely to type there: standard input is a terminal.
bool StdinIsTerminal();

// True if standard output is a terminal: a line may be written over.
bool StdoutIsTerminal();

// True if standard error is a terminal on which a line may be written over.
bool StderrIsTerminal();

// True if standard output is a terminal that shows colours and the person has not asked for none
// (NO_COLOR).
bool StdoutTakesColour();

// Becomes the program that `words` start (the first is looked up in PATH unless it holds a slash),
// with `variables` added to the environment: same process, same descriptors. Returns only if that
// failed. Flush what is buffered before.
Error ReplaceProgram(const std::vector<std::string>& words,
                     const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PROGRAM_H_
