// Functions that end badly: each is one ConfinedEnd, and nothing of them is left.
#include "base/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

// As mpnanny-worker runs a job: a supervisor of its own for each, whose report comes by a file.
class ConfinedCall : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("confinement_test_" + std::to_string(getpid()));
    fs::create_directory(folder_);
    limits_.writable = (folder_ / "writable").string();
    fs::create_directory(limits_.writable);
    limits_.wall = std::chrono::seconds(20);
    limits_.memory_bytes = 512ull << 20;
    limits_.processes = 8;
  }
  void TearDown() override { fs::remove_all(folder_); }

  ConfinedEnd Run(const std::function<int()>& call) {
    std::string report;
    const auto ended = RunForked(
        [&](int told) {
          if (without_namespaces_) ForbidNamespaces();
          const auto end = RunConfinedCall(limits_, -1, call);
          if (!end) return 9;
          dprintf(told, "%d %s", end->exit_code,
                  end->exceeded.empty() ? "-" : end->exceeded.c_str());
          return 0;
        },
        [&](int heard) {
          char chunk[256];
          for (ssize_t got = 0; (got = read(heard, chunk, sizeof(chunk))) > 0;)
            report.append(chunk, static_cast<size_t>(got));
        });
    EXPECT_EQ(ended ? *ended : -1, 0);
    ConfinedEnd end;
    std::istringstream(report) >> end.exit_code >> end.exceeded;
    return end;
  }

  // As on machines whose rules forbid them to users.
  static void ForbidNamespaces() {
    const auto user = geteuid();
    if (unshare(CLONE_NEWUSER) != 0) return;  // they do already
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/sys/user/max_user_namespaces") << 0;
  }

  fs::path folder_;
  Confinement limits_;
  bool without_namespaces_ = false;
};

TEST_F(ConfinedCall, EndsWithWhatTheFunctionReturns) {
  for (const int code : {0, 7}) {
    const ConfinedEnd end = Run([&] { return code; });
    EXPECT_EQ(end.exit_code, code);
    EXPECT_EQ(end.exceeded, "-");
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
  without_namespaces_ = true;
  const fs::path alive = fs::path(limits_.writable) / "alive";
  const ConfinedEnd end = Run([&] {
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
  });
  EXPECT_EQ(end.exceeded, "processes");
  fs::remove(alive);
  usleep(300000);
  EXPECT_FALSE(fs::exists(alive));
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
