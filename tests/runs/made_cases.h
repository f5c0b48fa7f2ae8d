// Cases put together by hand, for tests of how they rank.
#ifndef MPNANNY_TESTS_RUNS_MADE_CASES_H_
#define MPNANNY_TESTS_RUNS_MADE_CASES_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engines/cases/case.h"

namespace mpnanny::test {

struct MadeCase {
  std::string id;
  std::vector<std::pair<std::string, double>> signals;  // as written, with their weights
  std::string category = "nan-inf";
  std::vector<std::string> precision = {"fp16"}, components = {"loss"};
  std::string kind = "failure";
};

// `made`: sorted by id.
inline cases::CaseLibrary LibraryOf(const std::vector<MadeCase>& made) {
  std::vector<cases::Case> all;
  for (const MadeCase& each : made) {
    cases::Case entry;
    entry.id = each.id;
    entry.kind = each.kind;
    entry.title = "Title of " + each.id;
    entry.title_zh = each.id + " 的标题";
    entry.category = each.category;
    entry.precision = each.precision;
    entry.components = each.components;
    for (const auto& [text, weight] : each.signals) {
      const auto signal = cases::ParseSignal(text, weight);
      EXPECT_TRUE(signal) << (signal ? "" : signal.error().Text());
      if (signal) entry.signals.push_back(*signal);
    }
    all.push_back(std::move(entry));
  }
  return cases::CaseLibrary(std::move(all));
}

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_MADE_CASES_H_
