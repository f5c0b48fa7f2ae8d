// What a modern client carries for us between the rounds of one request (`requestState`): sealed,
// so that it can neither be read nor changed nor used for another request.
//
// The key lives as long as the object: states do not outlive the process. Thread-safe.
#ifndef MPNANNY_SERVER_DISPATCH_REQUEST_STATE_H_
#define MPNANNY_SERVER_DISPATCH_REQUEST_STATE_H_

#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "base/json.h"

namespace mpnanny {

class RequestStateSeal {
 public:
  RequestStateSeal();

  // `params`: those of the request; what makes it this request (name, arguments, uri) is bound in.
  std::string Seal(const Json& state, const std::string& method, const Json& params) const;

  // What was sealed for the same request within `kLifetime`; nullopt for anything else.
  std::optional<Json> Open(const std::string& sealed, const std::string& method,
                           const Json& params) const;

  static constexpr std::chrono::hours kLifetime{1};

 private:
  std::array<unsigned char, 32> key_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_REQUEST_STATE_H_
