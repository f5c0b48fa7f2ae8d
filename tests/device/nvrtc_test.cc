// The kernels compiled by a real NVRTC, where MPNANNY_NVRTC names a folder that has one (a
// site-packages; scripts/test --all installs them). No device is needed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "monitor/core/device/compiler.h"

namespace mpnanny::device {
namespace {

TEST(RealNvrtc, CompilesEveryKernelForEveryArchitectureThatItKnows) {
  const char* const folder = std::getenv("MPNANNY_NVRTC");
  if (folder == nullptr) GTEST_SKIP() << "MPNANNY_NVRTC is not set";
  const auto compiler = Compiler::Open({folder});
  ASSERT_TRUE(compiler) << compiler.error().Text();
  EXPECT_TRUE(compiler->library().starts_with(folder)) << compiler->library();
  int compiled = 0;
  // 70 is no longer known to CUDA 13; 999 is newer than all, and gets PTX.
  for (const int architecture : {70, 80, 90, 100, 120, 999}) {
    for (const char* name : {"flags", "figures", "compare", "change"}) {
      const std::string path = std::string("numerics/device/kernels/") + name + ".h";
      const auto start = std::chrono::steady_clock::now();
      std::string log;
      const auto code = compiler->Compile(path, architecture, &log);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (architecture == 70 && !code) {
        EXPECT_NE(code.error().message.find("knows no sm_70"), std::string::npos);
        continue;
      }
      ASSERT_TRUE(code) << code.error().Text();
      ++compiled;
      EXPECT_EQ(code->find(architecture == 999 ? ".version"
                                               : "\x7f"
                                                 "ELF") != std::string::npos,
                true);
      EXPECT_NE(code->find(std::string("mpn_") + name), std::string::npos);
      std::cout << "sm_" << architecture << " " << name << ": " << code->size() << " bytes, "
                << took.count() << " s\n";
      // "Used 38 registers …", "0 bytes spill stores": what ptxas says of each kernel.
      for (size_t at = log.find("Used "); at != std::string::npos; at = log.find("Used ", at + 1))
        std::cout << "  " << log.substr(at, log.find('\n', at) - at) << "\n";
      // A few words that no loop needs may lie in memory; more would cost time.
      for (size_t at = log.find(" bytes spill stores"); at != std::string::npos;
           at = log.find(" bytes spill stores", at + 1)) {
        EXPECT_LE(std::stoi(log.substr(log.rfind(' ', at - 1))), 32) << log;
      }
    }
  }
  EXPECT_GE(compiled, 20);
}

}  // namespace
}  // namespace mpnanny::device
