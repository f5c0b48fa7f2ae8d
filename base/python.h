// The Python that the user trains with, and our package for it.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_PYTHON_H_
#define MPNANNY_BASE_PYTHON_H_

#include <filesystem>
#include <string>

#include "base/result.h"

namespace mpnanny {

// The folder that holds the package `mpnanny`: `given`, or as a build leaves it, or right beside
// the program.
Result<std::filesystem::path> FindPythonPackage(const std::string& given);

// The interpreter of the project that `file` belongs to: bin/python of a folder .venv or venv
// beside it or above it, of the virtual environment or conda environment that is active, or python3
// (which is looked up in PATH when it is started). `file` may be empty.
std::string FindPython(const std::string& file);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PYTHON_H_
