// Device kernels from text to a device's code, by the NVRTC that comes with torch's CUDA wheels.
//
// Immutable after Open(); Compile() is safe from any thread, needs no device, and takes a second or
// so: a caller that must not wait calls it beside the training.
#ifndef MPNANNY_MONITOR_CORE_DEVICE_COMPILER_H_
#define MPNANNY_MONITOR_CORE_DEVICE_COMPILER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/data_files.h"
#include "base/result.h"
#include "base/shared_library.h"

namespace mpnanny {
// The text of the kernels (generated): table.h and kernels/ of numerics/device.
std::span<const EmbeddedFile> EmbeddedDeviceKernels();
}  // namespace mpnanny

namespace mpnanny::device {

class Compiler {
 public:
  // `folders`: where wheels are installed (site-packages); the loader's own places come after them.
  // Unavailable: none has an NVRTC that can be used.
  static Result<Compiler> Open(const std::vector<std::string>& folders);

  const std::string& library() const { return library_.name(); }
  const std::string& version() const { return version_; }  // "12.9"

  // What the code depends on: the text of all files, this NVRTC, the architecture.
  uint64_t KeyOf(const std::string& path, int architecture) const;

  // The code of an embedded file for an architecture (90: sm_90), as the driver loads it: for
  // one that is newer than this NVRTC as PTX, which the driver translates. `log`: set to what ptxas
  // says of registers and spills, if there is one.
  Result<std::string> Compile(const std::string& path, int architecture,
                              std::string* log = nullptr) const;

 private:
  using Program = void*;

  explicit Compiler(SharedLibrary library) : library_(std::move(library)) {}
  static Result<Compiler> Take(SharedLibrary library);
  Error Failed(const char* call, int result) const;
  Result<std::string> Compile(Program program, int architecture, bool as_ptx,
                              std::string* log) const;
  std::string LogOf(Program program) const;

  SharedLibrary library_;
  std::string version_;
  std::vector<int> architectures_;  // rising
  int (*create_program_)(Program*, const char*, const char*, int, const char* const*,
                         const char* const*) = nullptr;
  int (*compile_program_)(Program, int, const char* const*) = nullptr;
  int (*destroy_program_)(Program*) = nullptr;
  int (*get_log_size_)(Program, size_t*) = nullptr;
  int (*get_log_)(Program, char*) = nullptr;
  int (*get_cubin_size_)(Program, size_t*) = nullptr;
  int (*get_cubin_)(Program, char*) = nullptr;
  int (*get_ptx_size_)(Program, size_t*) = nullptr;
  int (*get_ptx_)(Program, char*) = nullptr;
  const char* (*get_error_string_)(int) = nullptr;
};

}  // namespace mpnanny::device

#endif  // MPNANNY_MONITOR_CORE_DEVICE_COMPILER_H_
