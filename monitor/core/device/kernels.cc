#include "monitor/core/device/kernels.h"

#include <algorithm>

#include "base/process_info.h"
#include "numerics/device/rows.h"

namespace mpnanny::device {
namespace {

struct Description {
  const char* path;
  std::vector<const char*> functions;  // in the order of their launches
  int tensors;
  size_t slot_bytes;
};

const Description& Describe(Kernel kernel) {
  static const Description kDescriptions[] = {
      {"numerics/device/kernels/flags.h", {"mpn_flags"}, 1, sizeof(FlagsSlot)},
      {"numerics/device/kernels/figures.h", {"mpn_figures"}, 1, sizeof(FiguresSlot)},
      {"numerics/device/kernels/compare.h",
       {"mpn_compare", "mpn_compare_flushed"},
       2,
       sizeof(CompareSlot)},
      {"numerics/device/kernels/change.h", {"mpn_change"}, 4, sizeof(ChangeSlot)},
  };
  return kDescriptions[static_cast<int>(kernel)];
}

// What would make a kernel read or write where it must not.
Result<void> Check(const Description& description, std::span<const Row> rows,
                   const LaunchMemory& memory) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string wrong = WrongWith(rows[i], description.tensors);
    if (!wrong.empty())
      return InvalidInput("Row " + std::to_string(i) + " of a table cannot be read: " + wrong +
                          ".");
    if (rows[i].slot >= memory.slot_count) {
      return InvalidInput("Row " + std::to_string(i) + " has slot " + std::to_string(rows[i].slot) +
                          " of " + std::to_string(memory.slot_count) + ".");
    }
  }
  if (memory.slots == 0 || memory.slots % 8 != 0 || memory.scratch == 0 || memory.scratch % 8 != 0)
    return InvalidInput("Slots or scratch memory are missing or not aligned to 8 bytes.");
  return {};
}

// Calls `use(table)` with as many tables as the rows take, until it fails. False: a row is too
// large for a launch.
template <typename AnyTable, typename Use>
Result<bool> ForEachTable(std::span<const Row> rows, Use use) {
  AnyTable table = {};
  for (size_t i = 0; i < rows.size();) {
    table.rows = table.blocks = 0;
    while (i < rows.size() && Append(rows[i], table)) ++i;
    if (table.rows == 0) return false;
    MPN_TRY(use(table));
  }
  return true;
}

template <typename AnyTable>
int MostBlocks(std::span<const Row> rows) {
  int blocks = 0;
  (void)ForEachTable<AnyTable>(rows, [&](const AnyTable& table) -> Result<void> {
    blocks = std::max(blocks, table.blocks);
    return {};
  });
  return blocks;
}

}  // namespace

int TensorsOf(Kernel kernel) { return Describe(kernel).tensors; }
size_t SlotBytes(Kernel kernel) { return Describe(kernel).slot_bytes; }
size_t ScratchFor(Kernel kernel, std::span<const Row> rows) {
  return ScratchBytes(kernel == Kernel::kFlags ? MostBlocks<FlagsTable>(rows)
                                               : MostBlocks<Table>(rows));
}

Result<std::unique_ptr<Kernels>> Kernels::Open(const std::vector<std::string>& folders,
                                               const std::string& cache,
                                               const std::string& driver) {
  MPN_TRY_ASSIGN(const Driver opened, Driver::Open(driver));
  MPN_TRY_ASSIGN(Compiler compiler, Compiler::Open(folders));
  return std::unique_ptr<Kernels>(
      new Kernels(opened, std::move(compiler), cache, CurrentProcess()));
}

Result<void> Kernels::Compile(Kernel kernel, int architecture) {
  if (const Result<std::string>& image = ImageOf(kernel, architecture); !image)
    return image.error();
  return {};
}

const Result<std::string>& Kernels::ImageOf(Kernel kernel, int architecture) {
  Image* image = nullptr;
  {
    const std::lock_guard<std::mutex> lock(images_lock_);
    image = &images_[{kernel, architecture}];  // stays where it is
  }
  std::call_once(image->once, [&] { image->code = MakeImage(kernel, architecture); });
  return image->code;
}

Result<std::string> Kernels::MakeImage(Kernel kernel, int architecture) const {
  const char* const path = Describe(kernel).path;
  const uint64_t key = compiler_.KeyOf(path, architecture);
  if (auto kept = cache_.Read(key)) return *std::move(kept);
  auto made = compiler_.Compile(path, architecture);
  if (made) cache_.Write(key, *made);
  return made;
}

Result<const std::vector<Driver::Function>*> Kernels::FunctionsOf(Kernel kernel) {
  MPN_TRY_ASSIGN(const Driver::Context context, driver_.CurrentContext());
  const std::lock_guard<std::mutex> lock(functions_lock_);
  const auto key = std::make_pair(context, kernel);
  auto found = functions_.find(key);
  if (found == functions_.end()) {
    MPN_TRY_ASSIGN(const int architecture, driver_.Architecture());
    const Result<std::string>& image = ImageOf(kernel, architecture);
    if (!image) return image.error();
    MPN_TRY_ASSIGN(const Driver::Module module, driver_.Load(*image));
    std::vector<Driver::Function> functions;
    for (const char* name : Describe(kernel).functions) {
      MPN_TRY_ASSIGN(const Driver::Function function, driver_.Find(module, name));
      functions.push_back(function);
    }
    found = functions_.emplace(key, std::move(functions)).first;
  }
  return &found->second;
}

Result<int> Kernels::Launch(Kernel kernel, std::span<const Row> rows, const LaunchMemory& memory,
                            Driver::Stream stream) {
  if (CurrentProcess() != process_) {
    return Unavailable("This process was forked from one that uses the device.",
                       "Start worker processes that use the device by 'spawn'.");
  }
  if (rows.empty()) return 0;
  MPN_TRY(Check(Describe(kernel), rows, memory));
  return kernel == Kernel::kFlags ? LaunchTables<FlagsTable>(kernel, rows, memory, stream)
                                  : LaunchTables<Table>(kernel, rows, memory, stream);
}

template <typename AnyTable>
Result<int> Kernels::LaunchTables(Kernel kernel, std::span<const Row> rows,
                                  const LaunchMemory& memory, Driver::Stream stream) {
  MPN_TRY_ASSIGN(const std::vector<Driver::Function>* functions, FunctionsOf(kernel));
  int launches = 0;
  const auto launch = [&](AnyTable& table) -> Result<void> {
    if (const size_t wanted = ScratchBytes(table.blocks); memory.scratch_bytes < wanted) {
      return InvalidInput("A launch of " + std::to_string(table.blocks) + " blocks wants " +
                          std::to_string(wanted) + " bytes of scratch memory, not " +
                          std::to_string(memory.scratch_bytes) + ".");
    }
    uint64_t slots = memory.slots, scratch = memory.scratch;
    void* parameters[] = {&table, &slots, &scratch};
    for (const Driver::Function function : *functions) {
      MPN_TRY(driver_.Launch(function, table.blocks, kThreads, stream, parameters));
      ++launches;
    }
    return {};
  };
  MPN_TRY_ASSIGN(const bool all, ForEachTable<AnyTable>(rows, launch));
  if (!all) return InvalidInput("A tensor is too large for a launch.");
  return launches;
}

}  // namespace mpnanny::device
