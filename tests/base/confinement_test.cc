// Functions that end badly: each is one ConfinedEnd, and nothing of them is left.
#include "base/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/base/confined_call.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

TEST_F(ConfinedCall, EndsWithWhatTheFunctionReturns) {
  for (const int code : {0, 7}) {
    const ConfinedEnd end = Run([&] { return code; });
    EXPECT_EQ(end.exit_code, code);
    EXPECT_EQ(end.exceeded, "");
  }
}

// Deeper than any stack; the compiler may not make a loop of it.
__attribute__((noinline)) int Recurse(int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  return depth < 0 ? 0 : Recurse(depth + 1) + frame[depth % 4096];
}

TEST_F(ConfinedCall, ACrashIsItsSignal) {
  EXPECT_EQ(Run([] {
              std::abort();
              return 0;
            }).exit_code,
            128 + SIGABRT);
  EXPECT_EQ(Run([] {
              volatile int* const nowhere = nullptr;
              return *nowhere;  // NOLINT(clang-analyzer-core.NullDereference): the crash
            }).exit_code,
            128 + SIGSEGV);
  EXPECT_EQ(Run([] { return Recurse(0); }).exit_code, 128 + SIGSEGV);
  EXPECT_EQ(Run([] {
              raise(SIGFPE);
              return 0;
            }).exit_code,
            128 + SIGFPE);
}

TEST_F(ConfinedCall, AnEndlessLoopEndsWithItsTime) {
  limits_.wall = std::chrono::seconds(1);
  const ConfinedEnd end = Run([] {
    volatile bool goes_on = true;
    while (goes_on) {
    }
    return 0;
  });
  EXPECT_EQ(end.exceeded, "time");
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
}

TEST_F(ConfinedCall, TooMuchMemoryEndsIt) {
  limits_.memory_bytes = 64ull << 20;
  const ConfinedEnd end = Run([] {
    try {
      std::vector<std::vector<char>> held;
      while (true) held.emplace_back(1 << 20, char{1});
    } catch (const std::bad_alloc&) {
      return 5;  // the kernel's limit was faster than the supervisor's look
    }
    return 0;
  });
  EXPECT_TRUE(end.exceeded == "memory" || end.exit_code == 5) << end.exit_code << end.exceeded;
}

TEST_F(ConfinedCall, AnExceptionEndsTheChildAndNotTheCaller) {
  EXPECT_EQ(Run([]() -> int { throw std::runtime_error("left"); }).exit_code, 128 + SIGABRT);
}

TEST_F(ConfinedCall, AForkBombLeavesNobody) {
  limits_.wall = std::chrono::seconds(5);
  const fs::path alive = fs::path(limits_.writable) / "alive";
  const ConfinedEnd end = Run([&] {
    for (int round = 0; round < 1000; ++round) {
      if (fork() == 0) {
        while (true) {
          std::ofstream(alive) << "alive";
          fork();
          usleep(20000);
        }
      }
      usleep(2000);
    }
    return 0;
  });
  EXPECT_TRUE(end.exceeded == "processes" || end.exceeded == "time") << end.exceeded;
  fs::remove(alive);
  usleep(300000);
  EXPECT_FALSE(fs::exists(alive));
}

// A process whose parent has ended becomes the supervisor's child, and no longer its child's.
TEST_F(ConfinedCall, OrphansAreCountedWithoutNamespaces) {
  limits_.allow_weaker = true;
  const fs::path alive = fs::path(limits_.writable) / "alive";
  const ConfinedEnd end = Run(
      [&] {
        for (int each = 0; each < 12; ++each) {  // more than the 8 that are allowed
          if (fork() != 0) continue;
          if (fork() != 0) _exit(0);
          while (true) {
            std::ofstream(alive) << "alive";
            usleep(20000);
          }
        }
        sleep(10);
        return 0;
      },
      Without::kNamespaces);
  EXPECT_EQ(end.exceeded, "processes");
  fs::remove(alive);
  usleep(300000);
  EXPECT_FALSE(fs::exists(alive));
}

// Shared memory lies in no process: it counts where it lies.
TEST_F(ConfinedCall, SharedMemoryCountsTogetherWithOwn) {
  limits_.memory_bytes = 64ull << 20;
  const ConfinedEnd end = Run([] {
    const std::string block(1 << 20, 'x');
    std::ofstream shared("/dev/shm/of_a_test");
    for (int each = 0; each < 24; ++each) shared << block;
    if (!shared.flush()) return 3;
    std::vector<std::string> own(48, block);
    sleep(10);
    return own.empty() ? 1 : 0;
  });
  EXPECT_EQ(end.exceeded, "memory");
}

TEST_F(ConfinedCall, SharedMemoryHasLessRoomThanTheLimitAndIsGoneAfterwards) {
  limits_.memory_bytes = 64ull << 20;
  const fs::path name = "/dev/shm/confinement_test_" + std::to_string(getpid());
  const ConfinedEnd end = Run([&] {
    std::ofstream shared(name);
    if (!shared) return 3;
    for (int each = 0; each < 64; ++each) shared << std::string(1 << 20, 'x') << std::flush;
    return shared ? 4 : 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_FALSE(fs::exists(name));
}

// Memory that stays when nobody has it mapped.
TEST_F(ConfinedCall, ThereIsNoSharedMemoryWithoutAFile) {
  EXPECT_EQ(Run([] {
              if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
                return 1;
              if (syscall(SYS_memfd_create, "m", 0) >= 0) return 2;
              const int zero = open("/dev/zero", O_RDWR);
              char read_back = 1;
              if (zero < 0 || read(zero, &read_back, 1) != 1 || read_back != 0) return 3;
              if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED, zero, 0) != MAP_FAILED) return 4;
              return 0;
            }).exit_code,
            0);
}

// --- machines that lack something ---

TEST_F(ConfinedCall, NothingLacksHere) {
  const ConfinedEnd end = Run([] { return 3; });
  EXPECT_TRUE(end.missing.empty());
  EXPECT_FALSE(end.refused);
  EXPECT_EQ(end.exit_code, 3);
}

TEST_F(ConfinedCall, WhatLacksIsNamedAndNothingIsRun) {
  const std::vector<std::pair<Without, std::vector<Lack>>> machines = {
      {Without::kLandlock, {Lack::kWriting}},
      {Without::kFilters, {Lack::kSystemCalls, Lack::kNetwork, Lack::kMemory}},
      {Without::kNamespaces, {Lack::kProcesses, Lack::kDevices, Lack::kMemory}},
      {Without::kAll, {Lack::kWriting, Lack::kProcesses, Lack::kDevices, Lack::kMemory}},
  };
  const fs::path ran = fs::path(limits_.writable) / "ran";
  const auto call = [&] { return std::ofstream(ran) ? 5 : 6; };
  for (const auto& [without, lacks] : machines) {
    limits_.allow_weaker = false;
    const ConfinedEnd refused = Run(call, without);
    EXPECT_TRUE(refused.refused);
    EXPECT_EQ(refused.missing, lacks);
    EXPECT_FALSE(fs::exists(ran));
    limits_.allow_weaker = true;
    const ConfinedEnd weaker = Run(call, without);
    EXPECT_FALSE(weaker.refused);
    EXPECT_EQ(weaker.missing, lacks);
    EXPECT_EQ(weaker.exit_code, 5);
    EXPECT_TRUE(fs::remove(ran));
  }
}

// Until Linux 6.2 Landlock did not know truncation.
TEST_F(ConfinedCall, AnOldLandlockIsNotWeaker) {
  const fs::path outside = folder_ / "outside";
  for (const Without without : {Without::kNewLandlock, Without::kNothing}) {
    std::ofstream(outside) << "precious";
    const ConfinedEnd end = Run(
        [&] {
          const char* const name = outside.c_str();
          if (truncate(name, 0) == 0) return 1;
          if (open(name, O_RDONLY | O_TRUNC) >= 0) return 2;
          if (open(name, O_ACCMODE | O_TRUNC) >= 0) return 3;
          if (open(name, O_WRONLY | O_TRUNC) >= 0) return 4;
          if (syscall(437, AT_FDCWD, name, nullptr, 0) >= 0 || errno != ENOSYS) return 5;
          std::ofstream inside(fs::path(limits_.writable) / "inside");
          return inside && std::ofstream(fs::path(limits_.writable) / "inside") ? 0 : 6;
        },
        without);
    EXPECT_EQ(end.exit_code, 0);
    EXPECT_TRUE(end.missing.empty());
    EXPECT_EQ(fs::file_size(outside), 8u);
  }
}

TEST_F(ConfinedCall, AnOldLandlockIsNotWeakerWithoutNamespacesEither) {
  limits_.allow_weaker = true;
  const fs::path outside = folder_ / "outside";
  std::ofstream(outside) << "precious";
  const auto ended = RunForked(
      [&](int /*told*/) {
        Weaken(Without::kNamespaces);
        Weaken(Without::kNewLandlock);
        const auto confined = RunConfinedCall(limits_, -1, [&] {
          if (truncate(outside.c_str(), 0) == 0) return 1;
          if (open(outside.c_str(), O_RDONLY | O_TRUNC) >= 0) return 2;
          if (open(outside.c_str(), O_ACCMODE | O_TRUNC) >= 0) return 3;
          return open(outside.c_str(), O_RDONLY) >= 0 ? 0 : 4;
        });
        return confined ? confined->exit_code : 9;
      },
      [](int) {});
  EXPECT_EQ(ended ? *ended : -1, 0);
  EXPECT_EQ(fs::file_size(outside), 8u);
}

// --- who keeps it when its supervisor is gone ---

// Runs `call` and kills its supervisor as soon as it has written a byte to its descriptor. True
// once nobody is left who holds that.
bool EndsWithItsSupervisor(const Confinement& limits, const std::function<void()>& weaken,
                           const std::function<void(int told)>& call) {
  bool all_gone = false;
  const auto ended = RunForked(
      [&](int told) {
        weaken();
        dprintf(told, "%d\n", getpid());
        const auto end = RunConfinedCall(limits, told, [&] {
          call(told);
          return 0;
        });
        return end ? 0 : 1;
      },
      [&](int heard) {
        std::string text;
        pollfd more{heard, POLLIN, 0};
        bool killed = false;
        while (poll(&more, 1, 30'000) == 1) {
          char byte = 0;
          if (read(heard, &byte, 1) != 1) {
            all_gone = killed;
            return;
          }
          text += byte;
          if (!killed && text.ends_with("!")) killed = kill(std::atoi(text.c_str()), SIGKILL) == 0;
        }
      });
  return ended && *ended == 128 + SIGKILL && all_gone;
}

// Does all that it can to stay: no signal of its parent's death, a session of its own, orphans.
void Stay(int told) {
  prctl(PR_SET_PDEATHSIG, 0);
  for (int each = 1; each < 32; ++each) std::signal(each, SIG_IGN);
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
  }
  if (write(told, "!", 1) != 1) _exit(1);
  sleep(100);
}

TEST_F(ConfinedCall, EndsWhenItsSupervisorIsKilled) {
  EXPECT_TRUE(EndsWithItsSupervisor(limits_, [] {}, Stay));
}

TEST_F(ConfinedCall, EndsWhenItsSupervisorIsKilledWithoutNamespacesToo) {
  limits_.allow_weaker = true;
  EXPECT_TRUE(EndsWithItsSupervisor(limits_, ForbidNamespaces, Stay));
}

TEST_F(ConfinedCall, CannotEndOrReadItsKeeper) {
  EXPECT_EQ(Run([] {
              kill(getppid(), SIGKILL);
              kill(getppid(), SIGSTOP);
              if (open("/proc/1/mem", O_RDONLY) >= 0) return 1;
              if (open("/proc/1/environ", O_RDONLY) >= 0) return 2;
              usleep(200000);
              return getppid() == 1 ? 0 : 3;
            }).exit_code,
            0);
}

TEST_F(ConfinedCall, HasNoDescriptorOfItsCaller) {
  const int open_file = open((folder_ / "file").c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(open_file, 0);
  EXPECT_EQ(Run([&] { return fcntl(open_file, F_GETFD) == -1 ? 0 : 1; }).exit_code, 0);
  close(open_file);
}

TEST_F(ConfinedCall, WritesInItsFolderOnlyAndReachesNobody) {
  const fs::path outside = folder_ / "outside";
  const ConfinedEnd end = Run([&] {
    std::ofstream inside(fs::path(limits_.writable) / "inside");
    if (!inside) return 1;
    if (std::ofstream(outside)) return 2;
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    return connection >= 0 && send(connection, "x", 1, MSG_NOSIGNAL) == 1 ? 3 : 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(fs::exists(fs::path(limits_.writable) / "inside"));
  EXPECT_FALSE(fs::exists(outside));
}

}  // namespace
}  // namespace mpnanny
