// CUDA's driver, found while the program runs: nothing of CUDA is needed to build mpnanny.
//
// Only the calls that launching takes. Each gives a Result with the driver's own words and what to
// do. Immutable after Open(); safe from any thread, as the driver is.
#ifndef MPNANNY_MONITOR_CORE_DEVICE_DRIVER_H_
#define MPNANNY_MONITOR_CORE_DEVICE_DRIVER_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/shared_library.h"

namespace mpnanny::device {

class Driver {
 public:
  using Context = void*;
  using Module = void*;
  using Function = void*;
  using Stream = void*;

  // `name`: for tests; what the loader finds else.
  static Result<Driver> Open(const std::string& name = "libcuda.so.1");

  int version() const { return version_; }  // 12040 is 12.4

  // That of this thread. Unavailable: it has none, since it has not used a device.
  Result<Context> CurrentContext() const;
  // Of the device of this thread's context: 90 is sm_90.
  Result<int> Architecture() const;

  // In this thread's context. The module is never unloaded: it ends with the context.
  Result<Module> Load(const std::string& image) const;
  Result<Function> Find(Module module, const char* name) const;
  // `parameters`: a pointer to each, copied by the call.
  Result<void> Launch(Function function, int blocks, int threads, Stream stream,
                      void** parameters) const;

 private:
  Driver() = default;
  Error Failed(const char* call, int result) const;

  int (*context_get_current_)(Context*) = nullptr;
  int (*context_get_device_)(int*) = nullptr;
  int (*device_get_attribute_)(int*, int, int) = nullptr;
  int (*module_load_data_)(Module*, const void*) = nullptr;
  int (*module_get_function_)(Function*, Module, const char*) = nullptr;
  int (*launch_kernel_)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, Stream, void**, void**) = nullptr;
  int (*get_error_name_)(int, const char**) = nullptr;
  int (*get_error_string_)(int, const char**) = nullptr;
  int version_ = 0;
};

}  // namespace mpnanny::device

#endif  // MPNANNY_MONITOR_CORE_DEVICE_DRIVER_H_
