// What `doctor` looked at and found: one finding a line.
//
// Plain values.
#ifndef MPNANNY_SERVER_DOCTOR_CHECK_H_
#define MPNANNY_SERVER_DOCTOR_CHECK_H_

#include <string>
#include <vector>

namespace mpnanny {

enum class CheckStatus { kOk, kWarning, kFailed };

struct Check {
  CheckStatus status = CheckStatus::kOk;
  std::string name;     // what was looked at: "connection", "root", "torch" …
  std::string message;  // what was found, one line
  std::string fix;      // what to do about it; empty where nothing is to be done
};

using Checks = std::vector<Check>;

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_DOCTOR_CHECK_H_
