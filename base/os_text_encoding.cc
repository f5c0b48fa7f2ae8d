#include <iconv.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "base/text_encoding.h"

namespace mpnanny {

Result<std::string> ToUtf8(std::string_view bytes, const std::string& encoding) {
  // A slash begins what iconv is to do about characters that do not fit.
  const iconv_t converter = encoding.empty() || encoding.find('/') != std::string::npos
                                ? reinterpret_cast<iconv_t>(-1)
                                : iconv_open("UTF-8", encoding.c_str());
  if (converter == reinterpret_cast<iconv_t>(-1)) {
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
    fits = iconv(converter, &in, &in_left, &out, &out_left) != static_cast<size_t>(-1) ||
           (errno == E2BIG && out != buffer.data());
    text.append(buffer.data(), buffer.size() - out_left);
  }
  iconv_close(converter);
  if (!fits) return InvalidInput("The text is not in " + EscapeControl(encoding, 60) + ".");
  return text;
}

}  // namespace mpnanny
