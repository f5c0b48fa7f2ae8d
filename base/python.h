// The Python that the user trains with, and our package for it.
//
// Free functions, safe from any thread but for UsePython().
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

// From now on FindPython() gives this interpreter, whatever the file; "" finds one again. For a
// process's start, before its threads: what `serve --python` names.
void UsePython(const std::string& python);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PYTHON_H_
