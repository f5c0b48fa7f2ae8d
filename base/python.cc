#include "base/python.h"

#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/program.h"
#include "base/text.h"

namespace mpnanny {

Result<std::filesystem::path> FindPythonPackage(const std::string& given) {
  std::vector<std::filesystem::path> places;
  std::error_code error;
  if (!given.empty()) {
    places = {std::filesystem::absolute(given, error)};
  } else if (const std::filesystem::path program = ProgramPath(); !program.empty()) {
    const std::filesystem::path bin = program.parent_path();
    places = {bin.parent_path() / "python", bin};
  }
  std::string looked;
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::exists(place / "mpnanny" / "_launch" / "sitecustomize.py", error)) {
      return place;
    }
    looked += (looked.empty() ? "" : ", ") + EscapeControl(place.string(), 300);
  }
  return NotFound("The Python package mpnanny is not in " + looked + ".",
                  "Build it (./scripts/build), or pass --package DIR, the folder that holds it.");
}

std::string FindPython(const std::string& file) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(file).parent_path();
  while (!file.empty() && !folder.empty()) {
    for (const char* name : {".venv", "venv"}) {
      const std::filesystem::path python = folder / name / "bin" / "python";
      if (std::filesystem::exists(python, error)) return python.string();
    }
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* const environment = std::getenv(name);
    if (environment == nullptr || *environment == '\0') continue;
    const auto python = std::filesystem::path(environment) / "bin" / "python";
    if (std::filesystem::exists(python, error)) return python.string();
  }
  return "python3";
}

}  // namespace mpnanny
