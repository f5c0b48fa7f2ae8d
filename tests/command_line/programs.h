// The built program under an awkward path, and stand-ins on PATH for the programs that it starts.
#ifndef MPNANNY_TESTS_COMMAND_LINE_PROGRAMS_H_
#define MPNANNY_TESTS_COMMAND_LINE_PROGRAMS_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mpnanny {

// An empty folder whose name must be quoted for a shell.
inline std::filesystem::path AwkwardPlace(const std::string& name) {
  // Beside the program, so that it can be linked instead of copied.
  const std::filesystem::path place = std::filesystem::path(MPNANNY_PROGRAM).parent_path() /
                                      ("place of " + name + " " + std::to_string(getpid()));
  std::filesystem::remove_all(place);
  std::filesystem::create_directories(place);
  return place;
}

// The built program in `folder`.
inline std::filesystem::path ProgramIn(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::filesystem::create_hard_link(MPNANNY_PROGRAM, folder / "mpnanny");
  return folder / "mpnanny";
}

inline void WriteScript(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << "#!/bin/sh\n" << text;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
}

// `ssh` and `wsl.exe` that stay on this machine, first on PATH while this object lives.
class FakePrograms {
 public:
  explicit FakePrograms(const std::filesystem::path& folder) : folder_(folder) {
    // ssh: options, a host, and then words that it joins by spaces for the login shell over there.
    // $FAKE_SSH, if set, is run before: what goes wrong on the way.
    WriteScript(folder / "ssh",
                "while :; do case \"$1\" in\n"
                "-o) shift 2 ;;\n-T) shift ;;\n-*) echo \"ssh: what is $1\" >&2; exit 255 ;;\n"
                "*) break ;;\nesac; done\n"
                "printf %s \"$1\" > \"${0%/*}/host\"\nshift\n"
                "[ -z \"$FAKE_SSH\" ] || eval \"$FAKE_SSH\"\n"
                "exec sh -c \"$*\"\n");
    WriteScript(folder / "wsl.exe",
                "if [ \"$1\" = -d ]; then shift 2; fi\n[ \"$1\" = -e ] || exit 1\nshift\n"
                "exec \"$@\"\n");
    const char* const path = std::getenv("PATH");
    before_ = path ? path : "";
    setenv("PATH", (folder.string() + ":" + before_).c_str(), 1);
  }
  ~FakePrograms() {
    setenv("PATH", before_.c_str(), 1);
    unsetenv("FAKE_SSH");
  }
  FakePrograms(const FakePrograms&) = delete;
  FakePrograms& operator=(const FakePrograms&) = delete;

  // What happens over there before the command runs: lines for a shell.
  void BeforeTheCommand(const std::string& lines) { setenv("FAKE_SSH", lines.c_str(), 1); }

  // The host that ssh was last asked for.
  std::string Host() const {
    std::ifstream file(folder_ / "host");
    std::string host;
    std::getline(file, host);
    return host;
  }

 private:
  std::filesystem::path folder_;
  std::string before_;
};

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_COMMAND_LINE_PROGRAMS_H_
