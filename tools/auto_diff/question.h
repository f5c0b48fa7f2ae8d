// What is to be compared: the arguments of a call, checked, with paths resolved, in the form that
// the Python side takes (monitor/python/mpnanny/diff).
//
// Plain values and a free function; safe from any thread.
#ifndef MPNANNY_TOOLS_AUTO_DIFF_QUESTION_H_
#define MPNANNY_TOOLS_AUTO_DIFF_QUESTION_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny::auto_diff {

struct Question {
  Json request;        // for the Python side
  std::string python;  // the interpreter
  std::chrono::seconds seconds{60};
  uint64_t memory_mb = 8192;
};

// InvalidInput where there is not exactly one target; what AllowedRoots says of a path.
Result<Question> ReadQuestion(const Json& arguments, const AllowedRoots& roots);

}  // namespace mpnanny::auto_diff

#endif  // MPNANNY_TOOLS_AUTO_DIFF_QUESTION_H_
