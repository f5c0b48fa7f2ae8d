#include <windows.h>
#include <winsock2.h>

#include <mutex>
#include <string>

#include "base/libpq_functions.h"
#include "base/os_libpq.h"

namespace mpnanny {

Result<const Libpq*> OpenLibpq() {
  static std::mutex mutex;
  static Libpq functions;
  static bool opened = false;
  const std::lock_guard lock(mutex);
  if (opened) return &functions;
  const char kHowToInstall[] =
      "Install PostgreSQL's command line tools and put their folder bin into PATH.";
  const HMODULE library = LoadLibraryW(L"libpq.dll");
  if (library == nullptr) {
    return Unavailable("PostgreSQL's client library, libpq.dll, is not here.", kHowToInstall);
  }
  const std::string missing = FillLibpq(functions, [&](const char* name) {
    return reinterpret_cast<void*>(GetProcAddress(library, name));
  });
  if (!missing.empty()) {
    return Unavailable("PostgreSQL's client library is too old: " + missing + " is missing.",
                       kHowToInstall);
  }
  opened = true;
  return &functions;
}

bool WaitForLibpq(int socket, bool reading, bool writing, std::chrono::milliseconds most) {
  WSAPOLLFD waited{};
  waited.fd = static_cast<SOCKET>(socket);
  if (reading) waited.events |= POLLIN;
  if (writing) waited.events |= POLLOUT;
  return WSAPoll(&waited, 1, static_cast<int>(most.count())) > 0;
}

}  // namespace mpnanny
