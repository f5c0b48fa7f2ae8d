#include "server/dispatch/request_state.h"

#include <sodium.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace mpnanny {
namespace {

constexpr size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr int kEncoding = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

// What tells one request from another, whatever the order in which the client writes its members.
std::string Identity(const std::string& method, const Json& params) {
  nlohmann::json identity = {{"method", method}};
  for (const char* key : {"name", "arguments", "uri"}) {
    if (const auto value = params.find(key); value != params.end()) identity[key] = *value;
  }
  return identity.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const unsigned char* Bytes(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

RequestStateSeal::RequestStateSeal() {
  static_assert(sizeof(key_) == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
  if (sodium_init() < 0) std::abort();  // the system has no generator: nothing would be safe
  randombytes_buf(key_.data(), key_.size());
}

std::string RequestStateSeal::Seal(const Json& state, const std::string& method,
                                   const Json& params) const {
  const std::string text =
      DumpJson({{"until", Now() + std::chrono::seconds(kLifetime).count()}, {"state", state}});
  const std::string identity = Identity(method, params);
  std::vector<unsigned char> sealed(kNonceBytes + text.size() + kTagBytes);
  randombytes_buf(sealed.data(), kNonceBytes);
  crypto_aead_xchacha20poly1305_ietf_encrypt(sealed.data() + kNonceBytes, nullptr, Bytes(text),
                                             text.size(), Bytes(identity), identity.size(), nullptr,
                                             sealed.data(), key_.data());
  std::string encoded(sodium_base64_ENCODED_LEN(sealed.size(), kEncoding), '\0');
  sodium_bin2base64(encoded.data(), encoded.size(), sealed.data(), sealed.size(), kEncoding);
  encoded.pop_back();  // the terminating zero
  return encoded;
}

std::optional<Json> RequestStateSeal::Open(const std::string& sealed, const std::string& method,
                                           const Json& params) const {
  if (sealed.empty()) return std::nullopt;  // the library wants no null pointer
  std::vector<unsigned char> bytes(sealed.size());
  size_t size = 0;
  if (sodium_base642bin(bytes.data(), bytes.size(), sealed.data(), sealed.size(), nullptr, &size,
                        nullptr, kEncoding) != 0 ||
      size < kNonceBytes + kTagBytes) {
    return std::nullopt;
  }
  const std::string identity = Identity(method, params);
  std::string text(size - kNonceBytes - kTagBytes, '\0');
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char*>(text.data()),
                                                 nullptr, nullptr, bytes.data() + kNonceBytes,
                                                 size - kNonceBytes, Bytes(identity),
                                                 identity.size(), bytes.data(), key_.data()) != 0) {
    return std::nullopt;
  }
  const auto json = ParseJson(text);
  if (!json || json->value("until", int64_t{0}) < Now()) return std::nullopt;
  return (*json)["state"];
}

}  // namespace mpnanny
