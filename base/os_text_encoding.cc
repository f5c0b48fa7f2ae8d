#include <iconv.h>

#include <array>
#include <cerrno>
#include <utility>
#ifdef __APPLE__
#include <dlfcn.h>
#endif

#include "base/text.h"
#include "base/text_encoding.h"

namespace mpnanny {
namespace {

const iconv_t kNone = reinterpret_cast<iconv_t>(-1);

#ifdef __APPLE__
// macOS has these in a library beside its C library, which is not at hand where this is linked on
// another system.
template <typename Function>
Function* FromLibrary(const char* name) {
  static void* const library = dlopen("/usr/lib/libiconv.2.dylib", RTLD_LAZY);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}
iconv_t Open(const char* to, const char* from) {
  static auto* const open = FromLibrary<iconv_t(const char*, const char*)>("iconv_open");
  return open == nullptr ? kNone : open(to, from);
}
size_t Convert(iconv_t converter, char** in, size_t* in_left, char** out, size_t* out_left) {
  static auto* const convert =
      FromLibrary<size_t(iconv_t, char**, size_t*, char**, size_t*)>("iconv");
  return convert == nullptr ? static_cast<size_t>(-1)
                            : convert(converter, in, in_left, out, out_left);
}
void Close(iconv_t converter) {
  static auto* const close = FromLibrary<int(iconv_t)>("iconv_close");
  if (close != nullptr) close(converter);
}
#else
constexpr auto Open = iconv_open;
constexpr auto Convert = iconv;
constexpr auto Close = iconv_close;
#endif

}  // namespace

Result<std::string> ToUtf8(std::string_view bytes, const std::string& encoding) {
  // A slash begins what iconv is to do about characters that do not fit.
  const iconv_t converter = encoding.empty() || encoding.find('/') != std::string::npos
                                ? kNone
                                : Open("UTF-8", encoding.c_str());
  if (converter == kNone) {
    return InvalidInput("The encoding '" + EscapeControl(encoding, 60) + "' is not known here.");
  }
  std::string text;
  auto* in = const_cast<char*>(bytes.data());  // iconv() does not write there
  size_t in_left = bytes.size();
  bool fits = true;
  while (fits && in_left > 0) {
    std::array<char, 16384> buffer;
    char* out = buffer.data();
    size_t out_left = buffer.size();
    fits = Convert(converter, &in, &in_left, &out, &out_left) != static_cast<size_t>(-1) ||
           (errno == E2BIG && out != buffer.data());
    text.append(buffer.data(), buffer.size() - out_left);
  }
  Close(converter);
  if (!fits) return InvalidInput("The text is not in " + EscapeControl(encoding, 60) + ".");
  return text;
}

}  // namespace mpnanny
