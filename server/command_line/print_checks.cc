#include "server/command_line/print_checks.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>

#include "base/json.h"

namespace mpnanny {
namespace {

const char* StatusName(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kWarning:
      return "warning";
    case CheckStatus::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace

void PrintChecks(std::ostream& out, const Checks& checks, bool json) {
  if (json) {
    Json list = Json::array();
    for (const Check& check : checks) {
      Json one = {
          {"status", StatusName(check.status)}, {"name", check.name}, {"message", check.message}};
      if (!check.fix.empty()) one["fix"] = check.fix;
      list.push_back(std::move(one));
    }
    out << DumpJsonPretty({{"checks", std::move(list)}}) << "\n";
    return;
  }
  for (const Check& check : checks) {
    const std::string status = StatusName(check.status);
    out << status << std::string(9 - status.size(), ' ') << check.name << ": " << check.message
        << (check.fix.empty() ? "" : " -> " + check.fix) << "\n";
  }
}

bool Failed(const Checks& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.status == CheckStatus::kFailed; });
}

}  // namespace mpnanny
