#include "server/dispatch/method_table.h"

#include "server/protocol/error_codes.h"

namespace mpnanny {

Outcome Method::Unavailable(const std::string& message) const {
  if (unavailable) return unavailable(message);
  return WireError{kInternalError, message};
}

Outcome Method::Stopping() const {
  return Unavailable(
      "The server is stopping; this call was not finished. Start the server again and repeat the "
      "call.");
}

}  // namespace mpnanny
