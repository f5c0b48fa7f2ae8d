// The device kernels of numerics/device, ready to launch: compiled at first use, loaded once for
// each context, on any stream.
//
// All memory is the caller's, who knows the framework's allocator: slots, and scratch memory that
// is 0 before its first use and belongs to one stream at a time. A launch copies its table and
// waits for nothing. Safe from any thread. Where it fails the slots hold nothing of use, and the
// error says why the caller has to do without.
#ifndef MPNANNY_MONITOR_CORE_DEVICE_KERNELS_H_
#define MPNANNY_MONITOR_CORE_DEVICE_KERNELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "monitor/core/device/compiler.h"
#include "monitor/core/device/driver.h"
#include "monitor/core/device/image_cache.h"
#include "numerics/device/table.h"

namespace mpnanny::device {

enum class Kernel { kFlags, kFigures, kCompare, kChange };
inline constexpr Kernel kAllKernels[] = {Kernel::kFlags, Kernel::kFigures, Kernel::kCompare,
                                         Kernel::kChange};

int TensorsOf(Kernel kernel);     // addresses that it reads of a row
size_t SlotBytes(Kernel kernel);  // of FlagsSlot, FiguresSlot …
size_t ScratchFor(Kernel kernel, std::span<const Row> rows);

// Device memory, by its address.
struct LaunchMemory {
  uint64_t slots = 0;
  int slot_count = 0;
  uint64_t scratch = 0;
  uint64_t scratch_bytes = 0;  // at least ScratchFor(rows)
};

class Kernels {
 public:
  // `folders`: see Compiler. `cache`: see ImageCache. `driver`: for tests.
  static Result<std::unique_ptr<Kernels>> Open(const std::vector<std::string>& folders,
                                               const std::string& cache = "",
                                               const std::string& driver = "libcuda.so.1");
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  const Compiler& compiler() const { return compiler_; }
  const Driver& driver() const { return driver_; }

  // Compiles what Launch() would compile at its first call; needs no context, takes a second or so.
  // It is tried once: an error stays.
  Result<void> Compile(Kernel kernel, int architecture);

  // On the device of this thread's context, after what is on `stream`. Gives the number of
  // launches: one for every kRows rows, of `flags` kFlagsRows if their slots follow each other; of
  // `compare` two.
  Result<int> Launch(Kernel kernel, std::span<const Row> rows, const LaunchMemory& memory,
                     Driver::Stream stream);

 private:
  Kernels(Driver driver, Compiler compiler, const std::string& cache, int64_t process)
      : driver_(driver), compiler_(std::move(compiler)), cache_(cache), process_(process) {}
  const Result<std::string>& ImageOf(Kernel kernel, int architecture);
  Result<std::string> MakeImage(Kernel kernel, int architecture) const;
  Result<const std::vector<Driver::Function>*> FunctionsOf(Kernel kernel);
  template <typename AnyTable>
  Result<int> LaunchTables(Kernel kernel, std::span<const Row> rows, const LaunchMemory& memory,
                           Driver::Stream stream);

  const Driver driver_;
  const Compiler compiler_;
  const ImageCache cache_;
  const int64_t process_;  // a forked child cannot use the parent's device
  struct Image {
    std::once_flag once;  // so that one that is compiled does not hold up others
    Result<std::string> code = Internal("not compiled");
  };

  std::mutex images_lock_, functions_lock_;
  std::map<std::pair<Kernel, int>, Image> images_;  // by architecture
  std::map<std::pair<Driver::Context, Kernel>, std::vector<Driver::Function>> functions_;
};

}  // namespace mpnanny::device

#endif  // MPNANNY_MONITOR_CORE_DEVICE_KERNELS_H_
