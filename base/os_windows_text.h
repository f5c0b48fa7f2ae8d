// Windows' own text: UTF-16 there, UTF-8 everywhere else in this program; and what its errors mean.
//
// Free functions without state; safe from any thread. For base/os_windows_*.cc only.
#ifndef MPNANNY_BASE_OS_WINDOWS_TEXT_H_
#define MPNANNY_BASE_OS_WINDOWS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace mpnanny {

// Bytes that are no UTF-8, and halves of a pair, become U+FFFD.
std::wstring ToWide(std::string_view utf8);
std::string FromWide(std::wstring_view wide);

// "Access is denied" for what GetLastError() gave; in the system's language, without a full stop.
std::string WindowsErrorText(uint32_t code);

// Headers hold handles as `int`, as they hold descriptors elsewhere: Windows uses the low 32 bits
// of a handle only (so that 32-bit programs can share them), and -1 is none.
inline int NumberOf(void* handle) { return static_cast<int>(reinterpret_cast<intptr_t>(handle)); }
inline void* HandleOf(int number) { return reinterpret_cast<void*>(static_cast<intptr_t>(number)); }

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_WINDOWS_TEXT_H_
