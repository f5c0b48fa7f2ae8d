#include "base/companion.h"

namespace mpnanny {

Result<Companion> Companion::Start(const std::vector<std::string>& /*words*/) {
  return Unavailable("Trainings are watched on Linux only.");
}

Companion::~Companion() = default;

bool Companion::End(std::chrono::milliseconds /*most*/) { return pid_ < 0; }

Result<HowItEnded> RunInPlace(const std::vector<std::string>& /*words*/,
                              const std::vector<std::pair<std::string, std::string>>& /*variables*/,
                              const std::string& /*process_variable*/) {
  return Unavailable("Trainings are watched on Linux only.");
}

int EndAs(const HowItEnded& ended) { return ended.exit_code; }

}  // namespace mpnanny
