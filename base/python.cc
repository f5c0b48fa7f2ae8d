#include "base/python.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "base/program.h"
#include "base/text.h"

namespace mpnanny {

namespace {

#ifdef _WIN32
constexpr char kInterpreter[] = "Scripts/python.exe";
constexpr char kSystemPython[] = "python";
#else
constexpr char kInterpreter[] = "bin/python";
constexpr char kSystemPython[] = "python3";
#endif

// Where pip puts packages beside a program in `bin`: an environment's, the user's, the system's.
std::vector<std::filesystem::path> PackageFolders(const std::filesystem::path& bin) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(bin.parent_path() / "lib", error)) {
    if (!entry.path().filename().generic_string().starts_with("python3")) continue;
    folders.push_back(entry.path() / "site-packages");
    folders.push_back(entry.path() / "dist-packages");
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

bool HoldsPackage(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "mpnanny" / "_launch" / "sitecustomize.py", error);
}

}  // namespace

Result<std::filesystem::path> FindPythonPackage(const std::string& given) {
#ifndef __linux__
  if (given.empty()) {
    return Unavailable("The monitor, which watches a training, is made for Linux only.",
                       "Run the training with the mpnanny of that machine.");
  }
#endif
  std::vector<std::filesystem::path> places;
  std::error_code error;
  if (!given.empty()) {
    places = {std::filesystem::absolute(given, error)};
  } else if (const std::filesystem::path program = ProgramPath(); !program.empty()) {
    const std::filesystem::path bin = program.parent_path();
    // Of a build, of a release archive, of a wheel.
    places = {bin.parent_path() / "python", bin, bin.parent_path()};
    for (const std::filesystem::path& folder : PackageFolders(bin)) {
      if (HoldsPackage(folder)) places.push_back(folder);
    }
  }
  std::string looked;
  for (const std::filesystem::path& place : places) {
    if (HoldsPackage(place)) return place;
    looked += (looked.empty() ? "" : ", ") + EscapeControl(place.generic_string(), 300);
  }
  return NotFound("The Python package mpnanny is not in " + looked + ".",
                  "Build it (./scripts/build), or pass --package DIR, the folder that holds it.");
}

namespace {

// Written before threads begin.
std::string& PythonInUse() {
  static std::string python;
  return python;
}

}  // namespace

void UsePython(const std::string& python) { PythonInUse() = python; }

std::string FindPython(const std::string& file) {
  if (!PythonInUse().empty()) return PythonInUse();
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(file).parent_path();
  while (!file.empty() && !folder.empty()) {
    for (const char* name : {".venv", "venv"}) {
      const std::filesystem::path python = folder / name / kInterpreter;
      if (std::filesystem::exists(python, error)) return python.generic_string();
    }
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* const environment = std::getenv(name);
    if (environment == nullptr || *environment == '\0') continue;
    const auto python = std::filesystem::path(environment) / kInterpreter;
    if (std::filesystem::exists(python, error)) return python.generic_string();
  }
  return kSystemPython;
}

}  // namespace mpnanny
