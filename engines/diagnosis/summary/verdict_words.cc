#include "engines/diagnosis/summary/verdict_words.h"

namespace mpnanny::run_summary {

std::string VerdictWords(std::string_view verdict, std::string_view status) {
  if (verdict == "broken") return "BROKEN";
  if (verdict == "degraded") return "DEGRADED";
  if (verdict != "healthy") return "NOT ESTABLISHED";
  if (status == "exception") return "ENDED WITH AN EXCEPTION, numbers healthy";
  if (status == "killed") return "KILLED, numbers healthy";
  return "HEALTHY";
}

}  // namespace mpnanny::run_summary
