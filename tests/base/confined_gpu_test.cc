// What a program that may use a GPU gets besides, and what it does not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/confinement.h"
#include "base/os_confined_devices.h"
#include "tests/base/confined_call.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

class ConfinedGpu : public ConfinedCall {
 protected:
  void SetUp() override {
    ConfinedCall::SetUp();
    limits_.gpu = true;
  }
};

bool FailsWith(int error, long result) { return result == -1 && errno == error; }

// Only what a machine cannot count may lack.
TEST_F(ConfinedGpu, MemoryThatIsNotCountedIsSaidAndRefusesNothing) {
  const ConfinedEnd end = Run([] { return 5; });
  EXPECT_FALSE(end.refused);
  EXPECT_EQ(end.exit_code, 5);
  for (const Lack each : end.missing) EXPECT_EQ(each, Lack::kMemory);
}

TEST_F(ConfinedGpu, AnythingElseThatLacksStillRefuses) {
  for (const Without each : {Without::kNamespaces, Without::kLandlock, Without::kFilters})
    EXPECT_TRUE(Run([] { return 5; }, each).refused);
  limits_.allow_weaker = true;  // a socket could be bound to a name of the machine
  const std::vector<Lack> missing = Run([] { return 5; }, Without::kNamespaces).missing;
  EXPECT_EQ(std::count(missing.begin(), missing.end(), Lack::kNetwork), 1);
}

TEST_F(ConfinedGpu, ASocketReachesNobody) {
  const std::string path = (folder_ / "service").string();
  EXPECT_EQ(Run([&] {
              if (!FailsWith(EACCES, socket(AF_INET, SOCK_STREAM, 0))) return 1;
              if (!FailsWith(EACCES, socket(AF_NETLINK, SOCK_RAW, 0))) return 2;
              if (!FailsWith(EACCES, socket(AF_UNIX, SOCK_DGRAM, 0))) return 3;
              const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
              sockaddr_un name{AF_UNIX, "\0cuda-uvmfd-1-2"};
              const auto* const address = reinterpret_cast<const sockaddr*>(&name);
              if (bind(made, address, offsetof(sockaddr_un, sun_path) + 15) != 0) return 4;
              if (listen(made, 1) != 0) return 5;
              if (!FailsWith(EACCES, accept(made, nullptr, nullptr))) return 6;
              const int other = socket(AF_UNIX, SOCK_STREAM, 0);
              path.copy(name.sun_path, sizeof name.sun_path - 1);
              if (!FailsWith(ECONNREFUSED, connect(other, address, sizeof name))) return 7;
              if (bind(other, address, sizeof name) == 0) return 8;  // outside of its folder
              const msghdr message{};
              int pair[2];
              if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 9;
              return FailsWith(EACCES, sendmsg(pair[0], &message, 0)) ? 0 : 10;
            }).exit_code,
            0);
}

// As libcuda names its threads, from another one. What is not a process's stays shut, and so does
// the keeper, which has the number 1.
TEST_F(ConfinedGpu, NamesItsThreadsAndChangesNothingElseInProc) {
  EXPECT_EQ(
      Run([] {
        prctl(PR_SET_DUMPABLE, 1);  // a program that was started by exec is
        int failed = 0;
        const std::string task = "/proc/self/task/" + std::to_string(getpid()) + "/comm";
        std::thread([&] {
          const int comm = open(task.c_str(), O_RDWR);
          failed = write(comm, "cuda", 4) == 4 ? 0 : 1;
        }).join();
        if (failed != 0) return 1;
        for (const char* each : {"/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory",
                                 "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity"}) {
          if (open(each, O_WRONLY) >= 0) return 2;
        }
        for (const char* each : {"/proc/1/mem", "/proc/1/environ", "/proc/1/maps"}) {
          if (open(each, O_RDONLY) >= 0) return 3;
        }
        kill(1, SIGKILL);
        if (open("/proc/new", O_CREAT | O_WRONLY, 0600) >= 0) return 4;
        return mount("proc", "/proc", "proc", 0, nullptr) == 0 ? 5 : 0;
      }).exit_code,
      0);
}

TEST_F(ConfinedGpu, OnlyReservedAddressesAreFree) {
  limits_.memory_bytes = 64ull << 20;
  EXPECT_EQ(Run([] {
              constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
              if (mmap(nullptr, 1ull << 40, PROT_NONE, kReserved, -1, 0) == MAP_FAILED) return 1;
              const auto writable = PROT_READ | PROT_WRITE;
              if (mmap(nullptr, 8ull << 30, writable, kReserved, -1, 0) == MAP_FAILED) return 2;
              usleep(200'000);  // to be looked at
              return 0;
            }).exit_code,
            0);
}

// Of shared memory: tests/sandbox/gpu_test.py, since only what has become a program can be looked
// at.
TEST_F(ConfinedGpu, WhoTakesTooMuchIsEnded) {
  constexpr size_t kMuch = 96 << 20;
  limits_.memory_bytes = 64ull << 20;
  EXPECT_EQ(Run([] {
              const std::vector<char> held(kMuch, 1);
              sleep(10);
              return static_cast<int>(held.front());
            }).exceeded,
            "memory");
  EXPECT_EQ(Run([] {  // huge pages are kept for it from the start
              return FailsWith(ENOSYS, syscall(SYS_memfd_create, "huge", MFD_HUGETLB)) ? 0 : 4;
            })
                .exit_code,
            0);
}

// Device files are a matter of the whole machine: here by their names alone.
TEST(GpuFiles, AreDevicesAndNoOtherFiles) {
  const fs::path devices = fs::path(testing::TempDir()) / "devices";
  fs::create_directories(devices / "dri");
  for (const char* each : {"nvidia0", "nvidiactl", "dri/renderD128"}) std::ofstream(devices / each);
  fs::remove(devices / "kfd");
  fs::create_symlink("/dev/null", devices / "kfd");
  EXPECT_TRUE(GpuFiles(devices.string()).empty());
  EXPECT_TRUE(GpuFiles((devices / "missing").string()).empty());
}

}  // namespace
}  // namespace mpnanny
