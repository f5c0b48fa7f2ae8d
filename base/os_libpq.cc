#include "base/os_libpq.h"

#include <dlfcn.h>
#include <poll.h>

#include <mutex>
#include <string>

#include "base/libpq_functions.h"

namespace mpnanny {
namespace {

#ifdef __APPLE__
constexpr const char* kNames[] = {"libpq.5.dylib", "/opt/homebrew/opt/libpq/lib/libpq.5.dylib",
                                  "/usr/local/opt/libpq/lib/libpq.5.dylib"};
constexpr char kHowToInstall[] = "Install it: brew install libpq.";
#else
constexpr const char* kNames[] = {"libpq.so.5"};
constexpr char kHowToInstall[] =
    "Install it: apt-get install libpq5 (Debian, Ubuntu), dnf install libpq (Fedora).";
#endif

}  // namespace

Result<const Libpq*> OpenLibpq() {
  static std::mutex mutex;
  static Libpq functions;
  static bool opened = false;
  const std::lock_guard lock(mutex);
  if (opened) return &functions;
  void* library = nullptr;
  for (const char* name : kNames) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return Unavailable("PostgreSQL's client library (libpq) is not here.", kHowToInstall);
  }
  const std::string missing =
      FillLibpq(functions, [&](const char* name) { return dlsym(library, name); });
  if (!missing.empty()) {
    return Unavailable("PostgreSQL's client library is too old: " + missing + " is missing.",
                       kHowToInstall);
  }
  opened = true;
  return &functions;
}

bool WaitForLibpq(int socket, bool reading, bool writing, std::chrono::milliseconds most) {
  pollfd waited{socket, 0, 0};
  if (reading) waited.events |= POLLIN;
  if (writing) waited.events |= POLLOUT;
  return poll(&waited, 1, static_cast<int>(most.count())) > 0;
}

}  // namespace mpnanny
