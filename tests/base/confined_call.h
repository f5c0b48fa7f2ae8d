// Runs functions as mpnanny-worker runs a job, in a supervisor of its own for each, on machines as
// they are and on such that lack something.
//
// Header of tests only; one thread.
#ifndef MPNANNY_TESTS_BASE_CONFINED_CALL_H_
#define MPNANNY_TESTS_BASE_CONFINED_CALL_H_

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/confinement.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

// The version of Landlock that this process believes the kernel to have; 0: the kernel's own.
// confined_call.cc answers the question in place of the kernel.
void PretendLandlock(int version);

// Runs `call(told)` in a forked child and `listen(heard)` here: what the child, and whatever it has
// forked, writes to `told` can be read from `heard`, until nobody is left to write. Then waits for
// the child: its exit code, 128 + the signal's number if one ended it.
Result<int> RunForked(const std::function<int(int told)>& call,
                      const std::function<void(int heard)>& listen);

// From now on these calls fail, as on a kernel that has none or on a machine that forbids them.
// `first_argument` >= 0: only with that one.
struct ForbiddenCall {
  uint32_t number;
  int error;
  int64_t first_argument = -1;
};
inline void Forbid(const std::vector<ForbiddenCall>& calls) {
  std::vector<sock_filter> filter;
  for (const ForbiddenCall& each : calls) {
    const auto refusal = SECCOMP_RET_ERRNO | static_cast<uint32_t>(each.error);
    const bool any = each.first_argument < 0;
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    filter.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, each.number, 0, static_cast<uint8_t>(any ? 1 : 3)));
    if (!any) {
      filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)));
      filter.push_back(
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(each.first_argument), 0, 1));
    }
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, refusal));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<uint16_t>(filter.size()), filter.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

class ConfinedCall : public testing::Test {
 protected:
  enum class Without { kNothing, kNamespaces, kLandlock, kFilters, kNewLandlock, kAll };

  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("confinement_test_" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
    limits_.writable = (folder_ / "writable").string();
    std::filesystem::create_directory(limits_.writable);
    limits_.wall = std::chrono::seconds(20);
    limits_.memory_bytes = 512ull << 20;
    limits_.processes = 8;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ConfinedEnd Run(const std::function<int()>& call, Without without = Without::kNothing) {
    std::string report;
    const auto ended = RunForked(
        [&](int told) {
          Weaken(without);
          const auto end = RunConfinedCall(limits_, -1, call);
          if (!end) return 9;
          dprintf(told, "%s", DumpJson(EndJson(*end)).c_str());
          return 0;
        },
        [&](int heard) { report = ReadAll(heard); });
    EXPECT_EQ(ended ? *ended : -1, 0);
    const auto json = ParseJson(report);
    EXPECT_TRUE(json) << report;
    return json ? EndOf(*json) : ConfinedEnd{};
  }

  static ConfinedEnd EndOf(const Json& json) {
    ConfinedEnd end;
    end.exit_code = json["exit_code"].get<int>();
    end.exceeded = json["exceeded"].get<std::string>();
    end.refused = json["refused"].get<bool>();
    for (const Json& each : json["missing"])
      end.missing.push_back(*LackOf(each.get<std::string>()));
    return end;
  }

  static std::string ReadAll(int heard) {
    std::string all;
    char chunk[256];
    for (ssize_t got = 0; (got = read(heard, chunk, sizeof(chunk))) > 0;)
      all.append(chunk, static_cast<size_t>(got));
    return all;
  }

  static void Weaken(Without without) {
    const bool all = without == Without::kAll;
    if (all || without == Without::kNamespaces) ForbidNamespaces();
    if (all || without == Without::kLandlock) Forbid({{444, ENOSYS}, {445, ENOSYS}, {446, ENOSYS}});
    if (without == Without::kFilters) Forbid({{SYS_prctl, EINVAL, PR_SET_SECCOMP}});
    if (without == Without::kNewLandlock) PretendLandlock(1);
  }

  // As on machines whose rules forbid them to users.
  static void ForbidNamespaces() { Forbid({{SYS_unshare, EPERM}}); }

  std::filesystem::path folder_;
  Confinement limits_;
};

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_BASE_CONFINED_CALL_H_
