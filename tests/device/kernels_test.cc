// The whole path of a launch, from a table to slots, on stand-ins for CUDA's driver and NVRTC that
// run the kernels on the CPU; and each of their calls failing.
#include "monitor/core/device/kernels.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/shared_library.h"
#include "numerics/device/rows.h"

namespace mpnanny::device {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A site-packages that has the stand-in where torch's wheel has NVRTC.
class Wheels {
 public:
  explicit Wheels(const std::string& place = "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
                  const std::string& library = MPNANNY_STAND_IN_NVRTC) {
    std::string name = std::filesystem::temp_directory_path() / "wheels-XXXXXX";
    root_ = mkdtemp(name.data());
    const std::filesystem::path path = root_ / place;
    std::filesystem::create_directories(path.parent_path());
    if (!library.empty()) std::filesystem::create_symlink(library, path);
  }
  ~Wheels() { std::filesystem::remove_all(root_); }
  Wheels(const Wheels&) = delete;
  Wheels& operator=(const Wheels&) = delete;
  std::string root() const { return root_; }

 private:
  std::filesystem::path root_;
};

class DeviceKernels : public testing::Test {
 protected:
  DeviceKernels() {
    Call<void()>(driver_, "stand_in_reset")();
    Call<void()>(nvrtc_, "stand_in_reset")();
    scratch_.resize(ScratchBytes(4096) / 8 + 1);
  }
  ~DeviceKernels() override {
    Call<void()>(driver_, "stand_in_reset")();
    Call<void()>(nvrtc_, "stand_in_reset")();
  }

  template <typename Function>
  static Function* Call(const SharedLibrary& library, const char* name) {
    return reinterpret_cast<Function*>(library.Find(name));
  }
  int Made(const char* name) {
    return Call<int(const char*)>(driver_, "stand_in_made")(name) +
           Call<int(const char*)>(nvrtc_, "stand_in_made")(name);
  }
  void Fail(const char* name, int result) {
    const bool is_drivers = std::string(name).starts_with("cu");
    Call<void(const char*, int)>(is_drivers ? driver_ : nvrtc_, "stand_in_fail")(name, result);
  }
  void UseContext(int number) { Call<void(int)>(driver_, "stand_in_context")(number); }
  void UseArchitecture(int number) { Call<void(int)>(driver_, "stand_in_architecture")(number); }

  Result<std::unique_ptr<Kernels>> Open(const std::string& cache = "") {
    return Kernels::Open({wheels_.root()}, cache, MPNANNY_STAND_IN_DRIVER);
  }
  template <typename Slot>
  LaunchMemory MemoryOf(std::vector<Slot>& slots) {
    return {reinterpret_cast<uint64_t>(slots.data()), static_cast<int>(slots.size()),
            reinterpret_cast<uint64_t>(scratch_.data()), scratch_.size() * 8};
  }
  static Row RowOf(const std::vector<float>& values, int slot) {
    Row row = {};
    row.address[0] = reinterpret_cast<uint64_t>(values.data());
    row.dtypes[0] = static_cast<unsigned char>(DType::kFloat32);
    row.elements = static_cast<long long>(values.size());
    row.slot = slot;
    return row;
  }
  // One row, of values that lie as long as the test.
  std::vector<Row> Rows(int slot = 0) { return {RowOf(values_, slot)}; }

  const SharedLibrary driver_ = *SharedLibrary::Open(MPNANNY_STAND_IN_DRIVER);
  const SharedLibrary nvrtc_ = *SharedLibrary::Open(MPNANNY_STAND_IN_NVRTC);
  const Wheels wheels_;
  const std::vector<float> values_ = {1, -2, 4};
  std::vector<uint64_t> scratch_;
};

TEST_F(DeviceKernels, OneLaunchGivesTheFlagsOfManyTensors) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels) << kernels.error().Text();
  std::vector<std::vector<float>> tensors;
  constexpr int kTensors = kFlagsRows + 1;
  for (int i = 0; i < kTensors; ++i) {
    tensors.emplace_back(static_cast<size_t>(i) * 997, static_cast<float>(i));
    if (i % 8 == 1) tensors.back()[7] = kNan;
  }
  std::vector<Row> rows;
  for (int i = 0; i < kTensors; ++i) rows.push_back(RowOf(tensors[static_cast<size_t>(i)], 2 + i));
  std::vector<FlagsSlot> slots(kTensors + 2);
  int stream = 0;
  const std::span<const Row> all = rows;
  EXPECT_EQ(*(*kernels)->Launch(Kernel::kFlags, all.first(kFlagsRows), MemoryOf(slots), &stream),
            1);
  EXPECT_EQ(Made("cuLaunchKernel on a stream"), 1);
  EXPECT_EQ(*(*kernels)->Launch(Kernel::kFlags, rows, MemoryOf(slots), &stream), 2);
  EXPECT_EQ(Made("cuLaunchKernel on a stream"), 3);
  for (int i = 0; i < kTensors; ++i) {
    const FlagsSlot& slot = slots[static_cast<size_t>(2 + i)];
    EXPECT_EQ(slot.elements, i * 997);
    EXPECT_EQ(slot.nan, i % 8 == 1 ? 1 : 0);
    EXPECT_EQ(slot.greatest, i);
    EXPECT_EQ(slot.squares, 1.0 * i * i * static_cast<double>(slot.elements - slot.nan));
  }
}

TEST_F(DeviceKernels, EveryKernelGivesItsSlots) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  const std::vector<double> reference = {1, -2.5, std::nan("")};
  Row row = RowOf(values_, 0);
  row.options = kRestarts;
  row.address[1] = reinterpret_cast<uint64_t>(reference.data());
  row.dtypes[1] = static_cast<unsigned char>(DType::kFloat64);
  const std::vector<Row> rows = {row};
  std::vector<CompareSlot> compared(1);
  ASSERT_TRUE((*kernels)->Launch(Kernel::kCompare, rows, MemoryOf(compared), nullptr));
  EXPECT_EQ(Made("cuLaunchKernel"), 2);
  EXPECT_EQ(ErrorOf(compared[0]).squared_error, 0.25);
  EXPECT_EQ(ErrorOf(compared[0]).reference_only, 1);
  EXPECT_EQ(reference[1], -2);  // put right, as was asked for
  EXPECT_EQ(reference[2], 4);

  std::vector<FiguresSlot> figures(1);
  ASSERT_TRUE((*kernels)->Launch(Kernel::kFigures, rows, MemoryOf(figures), nullptr));
  EXPECT_EQ(StatsOf(figures[0]).mean, 1);
  EXPECT_EQ(ExponentsOf(figures[0])[128], 1);

  const std::vector<double> was = {1, 1, 1}, now = {1, 2, 0.5};
  const std::vector<float> before = {1, 1, 1}, after = {1, 1, 0.75};
  Row change = RowOf(before, 0);
  int i = 0;
  for (const void* each :
       {static_cast<const void*>(before.data()), static_cast<const void*>(after.data()),
        static_cast<const void*>(was.data()), static_cast<const void*>(now.data())}) {
    change.address[i] = reinterpret_cast<uint64_t>(each);
    change.dtypes[i] = static_cast<unsigned char>(i < 2 ? DType::kFloat32 : DType::kFloat64);
    ++i;
  }
  const std::vector<Row> changes = {change};
  std::vector<ChangeSlot> changed(1);
  ASSERT_TRUE((*kernels)->Launch(Kernel::kChange, changes, MemoryOf(changed), nullptr));
  EXPECT_EQ(ChangeOf(changed[0]).moved, 2);
  EXPECT_EQ(ChangeOf(changed[0]).lost, 1);
  EXPECT_EQ(ChangeOf(changed[0]).kept_change, 0.25);
  for (const Kernel kernel : kAllKernels) EXPECT_GT(SlotBytes(kernel), 0u);
}

TEST_F(DeviceKernels, EachIsCompiledOnceForAnArchitectureAndLoadedOnceForAContext) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  std::vector<FlagsSlot> slots(1);
  const auto launch = [&] {
    EXPECT_TRUE((*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr));
  };
  EXPECT_TRUE((*kernels)->Compile(Kernel::kFlags, 90));
  EXPECT_EQ(Made("cuModuleLoadData"), 0);
  launch();
  launch();
  EXPECT_EQ(Made("nvrtcCompileProgram"), 1);
  EXPECT_EQ(Made("nvrtcDestroyProgram"), 1);
  EXPECT_EQ(Made("cuModuleLoadData"), 1);
  UseContext(1);
  launch();
  EXPECT_EQ(Made("nvrtcCompileProgram"), 1);
  EXPECT_EQ(Made("cuModuleLoadData"), 2);
  EXPECT_EQ(slots[0].least, -2);
}

TEST_F(DeviceKernels, WhatWasCompiledOnceIsKeptInTheFolder) {
  const std::string cache = wheels_.root() + "/cache";
  const auto compile = [&](int architecture) {
    const auto kernels = Open(cache);
    EXPECT_TRUE((*kernels)->Compile(Kernel::kFlags, architecture));
    return Made("nvrtcCompileProgram");
  };
  EXPECT_EQ(compile(90), 1);
  EXPECT_EQ(compile(90), 1);
  EXPECT_EQ(compile(80), 2);
  EXPECT_EQ(compile(80), 2);
  // A damaged file is compiled again, and mended.
  for (const auto& file : std::filesystem::directory_iterator(cache))
    std::ofstream(file.path(), std::ios::app) << "x";
  EXPECT_EQ(compile(90), 3);
  EXPECT_EQ(compile(90), 3);
  for (const auto& file : std::filesystem::directory_iterator(cache))
    std::filesystem::resize_file(file.path(), 3);
  EXPECT_EQ(compile(80), 4);
  const auto kernels = Open(cache);
  std::vector<FlagsSlot> slots(1);
  EXPECT_TRUE((*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr));
  EXPECT_EQ(slots[0].greatest, 4);
}

TEST_F(DeviceKernels, AFolderThatIsOpenToOthersKeepsNothing) {
  const std::string cache = wheels_.root() + "/open";
  std::filesystem::create_directory(cache);
  std::filesystem::permissions(cache, std::filesystem::perms(0777));
  EXPECT_TRUE((*Open(cache))->Compile(Kernel::kFlags, 90));
  EXPECT_TRUE(std::filesystem::is_empty(cache));
  EXPECT_TRUE((*Open("/nowhere/at/all"))->Compile(Kernel::kFlags, 90));
}

TEST_F(DeviceKernels, ManyThreadsCompileOnce) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] { EXPECT_TRUE((*kernels)->Compile(kAllKernels[i % 4], 80)); });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(Made("nvrtcCompileProgram"), 4);
}

TEST_F(DeviceKernels, ADeviceThatIsNewerThanNvrtcGetsPtxAndAnOlderOneNothing) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  std::vector<FlagsSlot> slots(1);
  UseArchitecture(120);
  EXPECT_TRUE((*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr));
  EXPECT_EQ(Made("nvrtcGetPTX"), 1);
  EXPECT_EQ(slots[0].greatest, 4);
  UseContext(1);
  UseArchitecture(70);
  const auto old = (*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().message, "NVRTC 12.9 knows no sm_70.");
  // 86 is not in the list: code of 80 as PTX.
  EXPECT_TRUE((*kernels)->Compile(Kernel::kFlags, 86));
  EXPECT_EQ(Made("nvrtcGetPTX"), 2);
}

TEST_F(DeviceKernels, EachFailureOfTheDriverSaysWhichCallAndWhatToDo) {
  for (const char* call : {"cuInit", "cuDriverGetVersion"}) {
    Call<void()>(driver_, "stand_in_reset")();
    Fail(call, 3);
    const auto kernels = Open();
    ASSERT_FALSE(kernels);
    EXPECT_EQ(kernels.error().kind, ErrorKind::kUnavailable);
    EXPECT_EQ(kernels.error().message, std::string(call) + " failed: CUDA_ERROR_NOT_INITIALIZED.");
  }
  for (const char* call : {"cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute",
                           "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"}) {
    SCOPED_TRACE(call);
    Call<void()>(driver_, "stand_in_reset")();
    const auto kernels = Open();
    ASSERT_TRUE(kernels);
    Fail(call, 2);
    std::vector<FlagsSlot> slots(1);
    const auto failed = (*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message,
              std::string(call) + " failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory).");
    EXPECT_NE(failed.error().hint.find("no memory left"), std::string::npos);
    Fail(call, 0);  // and it works as soon as the driver does
    EXPECT_TRUE((*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr));
    EXPECT_EQ(slots[0].squares, 21);
  }
  Fail("cuLaunchKernel", 719);
  std::vector<FlagsSlot> slots(1);
  const auto lost = (*Open())->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().message, "cuLaunchKernel failed: error 719.");
  EXPECT_NE(lost.error().hint.find("CUDA_LAUNCH_BLOCKING"), std::string::npos);
}

TEST_F(DeviceKernels, EachFailureOfNvrtcSaysWhichCall) {
  for (const char* call : {"nvrtcVersion", "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"}) {
    Call<void()>(nvrtc_, "stand_in_reset")();
    Fail(call, 6);
    const auto kernels = Open();
    ASSERT_FALSE(kernels);
    EXPECT_NE(kernels.error().message.find(call), std::string::npos) << kernels.error().message;
  }
  for (const char* call :
       {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"}) {
    SCOPED_TRACE(call);
    Call<void()>(nvrtc_, "stand_in_reset")();
    const auto kernels = Open();
    ASSERT_TRUE(kernels);
    Fail(call, 6);
    const auto failed = (*kernels)->Compile(Kernel::kChange, 90);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::kUnavailable);
    EXPECT_NE(failed.error().message.find(std::string(call) + " of "), std::string::npos);
    EXPECT_NE(failed.error().message.find("NVRTC_ERROR_COMPILATION"), std::string::npos);
    EXPECT_EQ(Made("nvrtcDestroyProgram"), std::string(call) == "nvrtcCreateProgram" ? 0 : 1);
    Fail(call, 0);  // it is tried once: a training must not wait for it at each step
    EXPECT_FALSE((*kernels)->Compile(Kernel::kChange, 90));
  }
}

TEST_F(DeviceKernels, NvrtcIsFoundBesideTorchOrWhereTheLoaderLooks) {
  for (const char* place : {"nvidia/cu13/lib/libnvrtc.so.13",
                            "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "libnvrtc.so.11.2"}) {
    const Wheels wheels(place);
    const auto compiler = Compiler::Open({"/nowhere", wheels.root()});
    ASSERT_TRUE(compiler) << place;
    EXPECT_EQ(compiler->library(), wheels.root() + "/" + place);
    EXPECT_EQ(compiler->version(), "12.9");
  }
}

TEST_F(DeviceKernels, WhatIsNoNvrtcAndNoDriverIsNotTaken) {
  const Wheels other("nvidia/cu13/lib/libnvrtc.so.13", MPNANNY_STAND_IN_DRIVER);
  const auto compiler = Compiler::Open({other.root()});
  ASSERT_FALSE(compiler);
  EXPECT_NE(compiler.error().message.find("has no nvrtcVersion"), std::string::npos);
  const auto driver = Driver::Open(MPNANNY_STAND_IN_NVRTC);
  ASSERT_FALSE(driver);
  EXPECT_NE(driver.error().message.find("has no cuInit"), std::string::npos);
  const auto none = Kernels::Open({wheels_.root()}, "", "libcuda-that-is-not-here.so.1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(none.error().message.find("libcuda-that-is-not-here.so.1"), std::string::npos);
}

TEST_F(DeviceKernels, AThreadWithoutAContextIsTold) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  UseContext(-1);
  std::vector<FlagsSlot> slots(1);
  const auto failed = (*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "This thread has no CUDA context.");
}

TEST_F(DeviceKernels, AForkedChildLaunchesNothing) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  std::vector<FlagsSlot> slots(1);
  const pid_t child = fork();
  if (child == 0) {
    const auto failed = (*kernels)->Launch(Kernel::kFlags, Rows(), MemoryOf(slots), nullptr);
    const bool told = !failed && failed.error().message.find("forked") != std::string::npos;
    _exit(told && Made("cuLaunchKernel") == 0 && Made("cuCtxGetCurrent") == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DeviceKernels, WhatWouldReadOrWriteElsewhereIsRefused) {
  const auto kernels = Open();
  ASSERT_TRUE(kernels);
  std::vector<FlagsSlot> slots(2);
  const LaunchMemory memory = MemoryOf(slots);
  const auto refuse = [&](const std::vector<Row>& rows, const LaunchMemory& given,
                          const char* why) {
    const auto failed = (*kernels)->Launch(Kernel::kFlags, rows, given, nullptr);
    ASSERT_FALSE(failed) << why;
    EXPECT_EQ(failed.error().kind, ErrorKind::kInvalidInput);
    EXPECT_NE(failed.error().message.find(why), std::string::npos) << failed.error().message;
  };
  refuse(Rows(2), memory, "slot 2 of 2");
  refuse(Rows(-1), memory, "no slot");
  std::vector<Row> rows = Rows();
  rows[0].dtypes[0] = 9;
  refuse(rows, memory, "unknown dtype 9");
  rows = Rows();
  rows[0].address[0] = 0;
  refuse(rows, memory, "no memory");
  rows = Rows();
  rows[0].elements = -1;
  refuse(rows, memory, "negative number");
  rows[0].elements = 1LL << 60;
  refuse(rows, memory, "too large");
  LaunchMemory small = memory;
  small.scratch_bytes = ScratchBytes(1) - 1;
  refuse(Rows(), small, "bytes of scratch memory");
  LaunchMemory missing = memory;
  missing.slots = 0;
  refuse(Rows(), missing, "missing");
  LaunchMemory shifted = memory;
  shifted.scratch += 4;
  refuse(Rows(), shifted, "aligned");
  EXPECT_EQ(Made("cuLaunchKernel"), 0);
  EXPECT_TRUE((*kernels)->Launch(Kernel::kFlags, {}, memory, nullptr));  // nothing to do
  EXPECT_EQ(Made("cuLaunchKernel"), 0);
}

}  // namespace
}  // namespace mpnanny::device
