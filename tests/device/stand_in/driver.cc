// In place of libcuda.so.1: its device is the CPU, its memory the process's, and its kernels are
// the text of numerics/device in emulation. What "compiled" code names, it runs.
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "tests/device/stand_in/stand_in.h"
#include "tests/numerics/device_emulation.h"

namespace {

using mpnanny::device::FlagsTable;
using mpnanny::device::Scratch;
using mpnanny::device::Table;

constexpr int kInvalidValue = 1, kInvalidImage = 200, kNotFound = 500, kInvalidDevice = 101;

int contexts[2];  // their addresses are what is handed out
std::atomic<int> current = 0, architecture = 90;
std::atomic<bool> idle = false;

int SlotOf(const FlagsTable& table, int row) { return table.first_slot + row; }
int SlotOf(const Table& table, int row) { return table.row[row].slot; }

// False: not for so many blocks.
template <typename Slot, auto kKernel, typename AnyTable = Table>
bool Run(const void* at, int blocks, void* slots, Scratch* scratch) {
  const AnyTable& table = *static_cast<const AnyTable*>(at);
  if (table.blocks != blocks) return false;
  if (idle) {
    for (int i = 0; i < table.rows; ++i)
      std::memset(static_cast<Slot*>(slots) + SlotOf(table, i), 0, sizeof(Slot));
    return true;
  }
  mpnanny::device::emulation::Launch(kKernel, table, static_cast<Slot*>(slots), scratch);
  return true;
}
struct Function {
  const char* file;
  const char* name;
  bool (*run)(const void* table, int blocks, void* slots, Scratch* scratch);
};
const Function kFunctions[] = {
    {"flags.h", "mpn_flags",
     Run<mpnanny::device::FlagsSlot, mpnanny::device::mpn_flags, FlagsTable>},
    {"figures.h", "mpn_figures", Run<mpnanny::device::FiguresSlot, mpnanny::device::mpn_figures>},
    {"compare.h", "mpn_compare", Run<mpnanny::device::CompareSlot, mpnanny::device::mpn_compare>},
    {"compare.h", "mpn_compare_flushed",
     Run<mpnanny::device::CompareSlot, mpnanny::device::mpn_compare_flushed>},
    {"change.h", "mpn_change", Run<mpnanny::device::ChangeSlot, mpnanny::device::mpn_change>},
};

#define STAND_IN_MAKE(name) \
  if (const int result = stand_in::TheCalls().Make(name); result != 0) return result

}  // namespace

STAND_IN_CALL void stand_in_reset() {
  stand_in::TheCalls().Reset();
  current = 0;
  architecture = 90;
  idle = false;
}
// 0 and 1: the context of all threads; -1: they have none.
STAND_IN_CALL void stand_in_context(int number) { current = number; }
STAND_IN_CALL void stand_in_architecture(int number) { architecture = number; }

// Launches are counted, and all that is found is 0: what the host does alone can be timed.
STAND_IN_CALL void stand_in_idle(int on) { idle = on != 0; }

STAND_IN_CALL int cuInit(unsigned flags) {
  STAND_IN_MAKE("cuInit");
  return flags == 0 ? 0 : kInvalidValue;
}
STAND_IN_CALL int cuDriverGetVersion(int* version) {
  STAND_IN_MAKE("cuDriverGetVersion");
  *version = 12040;
  return 0;
}
STAND_IN_CALL int cuCtxGetCurrent(void** context) {
  STAND_IN_MAKE("cuCtxGetCurrent");
  *context = current < 0 ? nullptr : &contexts[current];
  return 0;
}
STAND_IN_CALL int cuCtxGetDevice(int* device) {
  STAND_IN_MAKE("cuCtxGetDevice");
  *device = current;
  return 0;
}
STAND_IN_CALL int cuDeviceGetAttribute(int* value, int attribute, int device) {
  STAND_IN_MAKE("cuDeviceGetAttribute");
  if (device != current) return kInvalidDevice;
  if (attribute != 75 && attribute != 76) return kInvalidValue;
  *value = attribute == 75 ? architecture / 10 : architecture % 10;
  return 0;
}
STAND_IN_CALL int cuModuleLoadData(void** module, const void* image) {
  STAND_IN_MAKE("cuModuleLoadData");
  // "cubin 90 numerics/device/kernels/flags.h", as the stand-in for NVRTC makes it.
  const std::string text = static_cast<const char*>(image);
  const std::string cubin = "cubin " + std::to_string(architecture) + " ";
  if (!text.starts_with(cubin) && !text.starts_with("ptx ")) return kInvalidImage;
  static std::mutex lock;
  static std::deque<std::string> modules;  // as long as the process, which is their context's life
  const std::lock_guard<std::mutex> locked(lock);
  *module = &modules.emplace_back(text.substr(text.rfind('/') + 1));
  return 0;
}
STAND_IN_CALL int cuModuleGetFunction(void** function, void* module, const char* name) {
  STAND_IN_MAKE("cuModuleGetFunction");
  for (const Function& each : kFunctions) {
    if (*static_cast<std::string*>(module) == each.file && std::strcmp(name, each.name) == 0) {
      *function = const_cast<Function*>(&each);
      return 0;
    }
  }
  return kNotFound;
}
STAND_IN_CALL int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z,
                                 unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                 unsigned shared, void* stream, void** parameters, void** extra) {
  STAND_IN_MAKE(stream == nullptr ? "cuLaunchKernel" : "cuLaunchKernel on a stream");
  const Function& run = *static_cast<Function*>(function);
  STAND_IN_MAKE(run.name);
  if (y != 1 || z != 1 || threads_x != 256 || threads_y != 1 || threads_z != 1 || shared != 0 ||
      extra != nullptr) {
    return kInvalidValue;
  }
  return run.run(parameters[0], static_cast<int>(x), *static_cast<void**>(parameters[1]),
                 *static_cast<Scratch**>(parameters[2]))
             ? 0
             : kInvalidValue;
}
STAND_IN_CALL int cuGetErrorName(int result, const char** text) {
  *text = result == 2   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 3 ? "CUDA_ERROR_NOT_INITIALIZED"
                        : nullptr;
  return *text == nullptr ? kInvalidValue : 0;
}
STAND_IN_CALL int cuGetErrorString(int result, const char** text) {
  *text = result == 2 ? "out of memory" : nullptr;
  return *text == nullptr ? kInvalidValue : 0;
}
