#include "engines/diagnosis/summary/verdict_words.h"

namespace mpnanny::summary {

std::string VerdictWords(std::optional<Health> verdict, runs::Status status) {
  if (verdict == Health::kBroken) return "BROKEN";
  if (verdict == Health::kDegraded) return "DEGRADED";
  if (verdict != Health::kHealthy) return "NOT ESTABLISHED";
  if (status == runs::Status::kException) return "ENDED WITH AN EXCEPTION, numbers healthy";
  if (status == runs::Status::kKilled) return "KILLED, numbers healthy";
  return "HEALTHY";
}

}  // namespace mpnanny::summary
