#include "engines/python_code/lacks.h"

#include "base/text.h"

namespace mpnanny::python_code {
namespace {

// What it can do then, and of what the machine has none.
struct Words {
  const char* can;
  const char* needs;
};

Words WordsOf(Lack lack) {
  switch (lack) {
    case Lack::kWriting:
      return {"write outside of its folder", "Landlock (Linux 5.13, switched on at boot)"};
    case Lack::kSystemCalls:
      return {"reach the kernel's IPC and keys, and the metadata of your files",
              "seccomp filters (x86-64 and ARM64)"};
    case Lack::kNetwork:
      return {"reach the network", "seccomp filters (x86-64 and ARM64)"};
    case Lack::kProcesses:
      return {"see other processes of yours, and perhaps read, signal and outlive them",
              "user and PID namespaces"};
    case Lack::kDevices:
      return {"open your terminals and devices", "mount namespaces"};
    case Lack::kMemory:
      return {"take memory that is not counted", "a control group for it (cgroup v2)"};
  }
  return {"", ""};
}

}  // namespace

std::vector<Lack> LacksOf(const Json& end) {
  std::vector<Lack> lacks;
  const Json& missing = ValueAt(end, {"missing"});
  if (!missing.is_array()) return lacks;
  for (const Json& each : missing) {
    if (!each.is_string()) continue;
    if (const auto lack = LackOf(each.get<std::string>())) lacks.push_back(*lack);
  }
  return lacks;
}

std::string LacksText(const std::vector<Lack>& lacks) {
  if (lacks.empty()) return "";
  std::vector<std::string> can;
  std::vector<std::string> needs;
  for (const Lack each : lacks) {
    const Words words = WordsOf(each);
    can.emplace_back(words.can);
    if (needs.empty() || needs.back() != words.needs) needs.emplace_back(words.needs);
  }
  return "This machine lacks " + Join(needs, ", ") + ", so the code can " + Join(can, "; ") + ".";
}

Error RefusedBecause(const std::string& what, const std::vector<Lack>& lacks) {
  return Unavailable(what + " was not run. " + LacksText(lacks),
                     "Give --allow-weaker-sandbox (to `mpnanny serve`, `call`, `diff`, "
                     "`precision`, `capture`) to run it all the same, or run it on another "
                     "machine; docs/sandbox.md has a table of what is needed.");
}

}  // namespace mpnanny::python_code
