// Bytes that are no text, carried inside one.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_BASE_BASE64_H_
#define MPNANNY_BASE_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace mpnanny {

// Standard base64 with padding (RFC 4648).
std::string EncodeBase64(std::string_view bytes);

// nullopt if the text is not exactly that.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_BASE64_H_
