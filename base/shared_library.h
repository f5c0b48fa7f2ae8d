// A shared library that the program is not linked with, opened while it runs: what a machine may
// have or not.
//
// Owns nothing that ends: an opened library stays until the process ends, since others (a driver, a
// framework) use it as well. Safe from any thread.
#ifndef MPNANNY_BASE_SHARED_LIBRARY_H_
#define MPNANNY_BASE_SHARED_LIBRARY_H_

#include <string>

#include "base/result.h"

namespace mpnanny {

class SharedLibrary {
 public:
  // `name`: a path, or a name that the system's loader looks for. NotFound with the loader's words.
  static Result<SharedLibrary> Open(const std::string& name);

  // How this system calls the file of a library: "libduckdb.so" of "duckdb".
  static std::string FileName(const std::string& library);

  const std::string& name() const { return name_; }
  // The address of a function or a variable; null if the library has none of that name.
  void* Find(const char* symbol) const;

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}

  std::string name_;
  void* handle_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_SHARED_LIBRARY_H_
