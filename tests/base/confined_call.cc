#include "tests/base/confined_call.h"

#include <dlfcn.h>

#include <cstdarg>

namespace mpnanny {
namespace {

int g_landlock_version = 0;

}  // namespace

void PretendLandlock(int version) { g_landlock_version = version; }

}  // namespace mpnanny

// In place of the C library's: all our own calls of Landlock go through it.
extern "C" long syscall(long number, ...) noexcept {
  constexpr long kCreateRuleset = 444;
  va_list given;
  va_start(given, number);
  long words[6];
  for (long& each : words) each = va_arg(given, long);
  va_end(given);
  const bool asks_version = number == kCreateRuleset && words[0] == 0 && words[2] == 1;
  if (asks_version && mpnanny::g_landlock_version > 0) return mpnanny::g_landlock_version;
  static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
