// Requests that we sent to a legacy client and what waits for their answers.
//
// Belongs to one connection: ids of different clients never meet. Thread-safe; callbacks run
// without the lock, each at most once.
#ifndef MPNANNY_SERVER_DISPATCH_CLIENT_REQUESTS_H_
#define MPNANNY_SERVER_DISPATCH_CLIENT_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "server/protocol/jsonrpc.h"

namespace mpnanny {

class ClientRequests {
 public:
  using OnResponse = std::function<void(ResponseMessage response)>;

  // The id to send the request under.
  std::string Add(OnResponse on_response);

  // Hands the response to whoever waits for it. False for an id that is unknown or answered
  // already.
  bool Resolve(ResponseMessage response);

  // Nobody waits for this one any more. False if it is not open.
  bool Remove(const std::string& id);

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;                       // guarded by mutex_
  std::map<std::string, OnResponse> open_;  // guarded by mutex_
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DISPATCH_CLIENT_REQUESTS_H_
