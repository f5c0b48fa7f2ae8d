#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/process_info.h"

namespace mpnanny {
namespace {

constexpr double kStartSlack = 5;  // seconds: btime is whole seconds, and clocks are set

// Unix seconds at which the machine was started; 0 if not known.
double BootTime() {
  std::ifstream stat("/proc/stat");
  std::string word;
  while (stat >> word) {
    double seconds = 0;
    if (word == "btime" && stat >> seconds) return seconds;
    stat.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

int64_t CurrentProcess() { return getpid(); }

bool ProcessRuns(int64_t pid, double started_by) {
  if (pid <= 0 || pid > std::numeric_limits<pid_t>::max()) return false;
  if (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  // "pid (name) state ppid … starttime(22)": the name may hold anything, so fields count from the
  // last ')'.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return true;
  std::istringstream fields(line.substr(name_end + 1));
  std::string state;
  fields >> state;
  if (state == "Z" || state == "X") return false;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  const double boot = BootTime();
  if (!(fields >> ticks) || boot == 0) return true;
  return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) <= started_by + kStartSlack;
}

}  // namespace mpnanny
