// The table of what errors and warnings rest on: it must agree with the rules' pages, and a form
// without a row is a place to judge.
#include "engines/check/calibration.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/check/rule_set.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

std::vector<RulePage> Pages() {
  RulePage loud;
  loud.id = "loud";
  loud.severity = Severity::kError;
  RulePage quiet;
  quiet.id = "quiet";
  return {loud, quiet};
}

std::string JsonRow(const std::string& rule, const std::string& form, const std::string& told,
                    const std::string& basis) {
  return R"({"rule": ")" + rule + R"(", "form": ")" + form + R"(", "told": ")" + told +
         R"(", "basis": ")" + basis + R"(", "why": "a reason"})";
}

Result<Calibration> Parsed(const std::string& rows) {
  return Calibration::Parse(R"({"rows": [)" + rows + "]}", Pages());
}

TEST(Calibration, AFormIsToldAsItsRowSays) {
  const auto table = Parsed(JsonRow("loud", "", "error", "proof") + "," +
                            JsonRow("loud", "likely", "warning", "record"));
  ASSERT_TRUE(table) << table.error().Text();
  EXPECT_EQ(table->Most("loud", ""), Severity::kError);
  EXPECT_EQ(table->Most("loud", "likely"), Severity::kWarning);
  EXPECT_EQ(table->Most("loud", "new"), std::nullopt);
}

TEST(Calibration, RefusesWhatNothingSpeaksFor) {
  const std::string loud = JsonRow("loud", "", "error", "proof");
  EXPECT_FALSE(Parsed(""));                                                      // loud has no row
  EXPECT_FALSE(Parsed(JsonRow("loud", "", "warning", "proof")));                 // the page differs
  EXPECT_FALSE(Parsed(JsonRow("loud", "", "error", "none")));                    // no basis
  EXPECT_FALSE(Parsed(JsonRow("loud", "", "error", "a guess")));                 // no such basis
  EXPECT_FALSE(Parsed(loud + "," + loud));                                       // twice
  EXPECT_FALSE(Parsed(loud + "," + JsonRow("other", "", "candidate", "none")));  // no such rule
  EXPECT_FALSE(Parsed(loud + "," + JsonRow("quiet", "x", "warning", "record")));  // above the page
  EXPECT_FALSE(Parsed(loud + "," + JsonRow("loud", "x", "info", "record")));  // no severity of ours
  EXPECT_FALSE(Parsed(loud + "," + JsonRow("loud", "x", "loudly", "record")));  // no severity
  EXPECT_FALSE(
      Parsed(loud + R"(,{"rule": "quiet", "told": "candidate", "basis": "none"})"));  // no why
  EXPECT_FALSE(Parsed(loud + ", 7"));
  EXPECT_FALSE(Calibration::Parse("[", Pages()));
  EXPECT_FALSE(Calibration::Parse("[]", Pages()));
  EXPECT_TRUE(Parsed(loud + "," + JsonRow("quiet", "", "candidate", "none")));
}

TEST(Calibration, FindingsAreToldByTheirForm) {
  const std::string code =
      "import torch\n"
      "from torch.cuda.amp import autocast\n"
      "with autocast(FIRST):\n"
      "    pass\n";
  const auto told = [&](const std::string& first) {
    std::string text = code;
    text.replace(text.find("FIRST"), 5, first);
    return Found(CheckCode(text, "a.py")).contains("3 error autocast-bad-argument");
  };
  EXPECT_TRUE(told("torch.bfloat16"));
  EXPECT_FALSE(told("torch.float16"));  // which it takes anyway
}

}  // namespace
}  // namespace mpnanny::check
