#include "base/random_id.h"

#include <sodium.h>

#include <array>
#include <cstdlib>

namespace mpnanny {

std::string RandomId() {
  if (sodium_init() < 0) std::abort();  // the system has no generator: nothing would be safe
  std::array<unsigned char, 16> bytes;
  randombytes_buf(bytes.data(), bytes.size());
  std::array<char, 2 * bytes.size() + 1> hex;
  sodium_bin2hex(hex.data(), hex.size(), bytes.data(), bytes.size());
  return hex.data();
}

}  // namespace mpnanny
