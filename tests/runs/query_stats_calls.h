// Asking query_stats about the recording "m.db" of a test's folder.
#ifndef MPNANNY_TESTS_RUNS_QUERY_STATS_CALLS_H_
#define MPNANNY_TESTS_RUNS_QUERY_STATS_CALLS_H_

#include <gtest/gtest.h>

#include "tests/runs/recording.h"

namespace mpnanny::test {

// The structured answer; fails the test if there is none.
inline Json Ask(const Json& arguments, const TempFolder& folder, size_t bytes = kAnswerBytes) {
  Json call = arguments;
  if (!call.contains("run")) call["run"] = "m.db";
  auto output = Call("query_stats", call, folder.path(), bytes);
  EXPECT_TRUE(output) << DumpJson(call) << (output ? "" : output.error().Text());
  EXPECT_FALSE(output && output->text.empty());
  return output ? output->structured : Json{{"series", Json::array()}};
}

// The error; fails the test if there is an answer.
inline Error Refused(const Json& arguments, const TempFolder& folder) {
  Json call = arguments;
  if (!call.contains("run")) call["run"] = "m.db";
  auto output = Call("query_stats", call, folder.path());
  EXPECT_FALSE(output) << DumpJson(call) << output->text;
  return output ? Error{} : output.error();
}

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_QUERY_STATS_CALLS_H_
