#include "base/base64.h"

#include <sodium.h>

namespace mpnanny {

std::string EncodeBase64(std::string_view bytes) {
  constexpr int kEncoding = sodium_base64_VARIANT_ORIGINAL;
  std::string encoded(sodium_base64_ENCODED_LEN(bytes.size(), kEncoding), '\0');
  sodium_bin2base64(encoded.data(), encoded.size(),
                    reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), kEncoding);
  encoded.pop_back();  // the terminating zero
  return encoded;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string bytes(text.size(), '\0');
  size_t size = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace mpnanny
