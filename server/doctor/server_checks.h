// Starting a server as a client does, and telling what goes wrong on the way.
//
// Runs on the calling thread; what it starts has ended when it returns.
#ifndef MPNANNY_SERVER_DOCTOR_SERVER_CHECKS_H_
#define MPNANNY_SERVER_DOCTOR_SERVER_CHECKS_H_

#include <chrono>
#include <string>
#include <vector>

#include "server/doctor/check.h"

namespace mpnanny {

struct ServerLaunch {
  std::vector<std::string> words;  // program and arguments
  std::string ssh_host = "";       // over which the words lead; empty: the program is started here
  std::string program;             // the server's own path, over there
  std::chrono::milliseconds answer_within{10'000};
};

// Starts the words, talks to what answers, lets it end.
Checks CheckServer(const ServerLaunch& launch);

// What an early end of the program means, from its exit code and its last words on stderr.
Check ExplainEnd(const ServerLaunch& launch, int exit_code, const std::string& errors);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DOCTOR_SERVER_CHECKS_H_
