#include "monitor/core/device/kernels.h"

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
Result<void> Check(const Description& description, const Table& table, const LaunchMemory& memory) {
  if (table.rows < 0 || table.rows > kRows)
    return InvalidInput("A table has " + std::to_string(table.rows) + " rows.");
  Table again = {};
  for (int i = 0; i < table.rows; ++i) {
    const Row& row = table.row[i];
    const std::string wrong = WrongWith(row, description.tensors);
    if (!wrong.empty())
      return InvalidInput("Row " + std::to_string(i) + " of a table cannot be read: " + wrong +
                          ".");
    if (row.slot >= memory.slot_count) {
      return InvalidInput("Row " + std::to_string(i) + " has slot " + std::to_string(row.slot) +
                          " of " + std::to_string(memory.slot_count) + ".");
    }
    if (!Append(row, again) || again.row[i].first_block != row.first_block)
      return InvalidInput("A table was not made by Append().");
  }
  if (again.blocks != table.blocks) return InvalidInput("A table was not made by Append().");
  if (memory.scratch_bytes < ScratchBytes(table.blocks)) {
    return InvalidInput("A launch of " + std::to_string(table.blocks) + " blocks wants " +
                        std::to_string(ScratchBytes(table.blocks)) +
                        " bytes of scratch memory, not " + std::to_string(memory.scratch_bytes) +
                        ".");
  }
  if (memory.slots == 0 || memory.slots % 8 != 0 || memory.scratch == 0 || memory.scratch % 8 != 0)
    return InvalidInput("Slots or scratch memory are missing or not aligned to 8 bytes.");
  return {};
}

}  // namespace

int TensorsOf(Kernel kernel) { return Describe(kernel).tensors; }
size_t SlotBytes(Kernel kernel) { return Describe(kernel).slot_bytes; }

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

Result<void> Kernels::Launch(Kernel kernel, const Table& table, const LaunchMemory& memory,
                             Driver::Stream stream) {
  if (CurrentProcess() != process_) {
    return Unavailable("This process was forked from one that uses the device.",
                       "Start worker processes that use the device by 'spawn'.");
  }
  MPN_TRY(Check(Describe(kernel), table, memory));
  if (table.rows == 0) return {};
  MPN_TRY_ASSIGN(const std::vector<Driver::Function>* functions, FunctionsOf(kernel));
  Table copy = table;
  uint64_t slots = memory.slots, scratch = memory.scratch;
  void* parameters[] = {&copy, &slots, &scratch};
  for (const Driver::Function function : *functions)
    MPN_TRY(driver_.Launch(function, table.blocks, kThreads, stream, parameters));
  return {};
}

}  // namespace mpnanny::device
