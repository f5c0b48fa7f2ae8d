// Talking to a server that runs already and listens over HTTP, and telling what goes wrong.
//
// Runs on the calling thread.
#ifndef MPNANNY_SERVER_DOCTOR_HTTP_CHECKS_H_
#define MPNANNY_SERVER_DOCTOR_HTTP_CHECKS_H_

#include <chrono>
#include <string>

#include "server/doctor/check.h"

namespace mpnanny {

struct HttpTarget {
  std::string origin;  // "http://127.0.0.1:8765"
  std::string path;    // "/mcp"
  std::string token;   // bearer token; empty: none is sent
  std::chrono::seconds answer_within{10};
};

Checks CheckHttp(const HttpTarget& target);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DOCTOR_HTTP_CHECKS_H_
