#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mpnanny {
namespace {

using namespace std::string_view_literals;

TEST(ParseJson, KeepsKeyOrder) {
  const auto json = ParseJson(R"({"z": 1, "a": [true, null]})");
  ASSERT_TRUE(json);
  EXPECT_EQ(DumpJson(*json), R"({"z":1,"a":[true,null]})");
}

TEST(ParseJson, SaysWhereTextIsBroken) {
  const auto json = ParseJson("{\"a\": 1,\n \"b\" 2}");
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().kind, ErrorKind::kInvalidInput);
  EXPECT_NE(json.error().message.find("line 2"), std::string::npos) << json.error().message;
}

TEST(ParseJson, BoundsDepthBeforeATreeIsBuilt) {
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']')));
  EXPECT_FALSE(ParseJson(std::string(65, '[') + std::string(65, ']')));
  EXPECT_FALSE(ParseJson(std::string(5'000'000, '[')));
  // Reads after "This message is" as well as after "file: ".
  EXPECT_EQ(ParseJson(std::string(70, '[')).error().message,
            "JSON nested deeper than the limit of 64 levels.");
  // Brackets in strings are text, escaped quotes do not end one.
  EXPECT_TRUE(ParseJson("\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\""));
}

TEST(ParseJson, KeysThatStandTwice) {
  EXPECT_EQ(DumpJson(*ParseJson(R"({"a":1,"b":{"a":[2]},"a":{"c":3}})")),
            R"({"a":{"c":3},"b":{"a":[2]}})");
  const auto refused = ParseJson(R"({"a":1,"b":{"c":1,"\u0063":2}})", 64, DuplicateKeys::kRefuse);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("\"c\" stands twice"), std::string::npos);
  EXPECT_TRUE(ParseJson(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})", 64, DuplicateKeys::kRefuse));
}

// More than the members that are looked through one by one, and so many that doing so would not
// end within the test's limit.
TEST(ParseJson, ObjectsOfManyMembers) {
  for (const size_t members : {15u, 16u, 17u, 400'000u}) {
    std::string text = "{\"k0\":0";
    for (size_t i = 1; i < members; ++i) text += ",\"k" + std::to_string(i) + "\":0";
    const auto json = ParseJson(text + "}", 64, DuplicateKeys::kRefuse);
    ASSERT_TRUE(json);
    EXPECT_EQ(json->size(), members);
    const std::string again = ",\"k" + std::to_string(members - 1) + "\":1}";
    EXPECT_FALSE(ParseJson(text + again, 64, DuplicateKeys::kRefuse));
    const auto last = ParseJson(text + again);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->size(), members);
    EXPECT_EQ(last->back(), 1);
  }
}

TEST(ParseJson, RefusesWhatIsNoJson) {
  for (const std::string_view text : {"1\0"sv, "\0001"sv, "{}\0{}"sv})
    EXPECT_FALSE(ParseJson(text));
  for (const char* text :
       {"", " ", "{", "nan", "NaN", "[1,]", "{'a':1}", "1 2", "\"\xff\"", "\"\\ud800\""}) {
    EXPECT_FALSE(ParseJson(text)) << text;
  }
}

TEST(ParseJson, QuotesLittleOfWhatIsBrokenAndNothingRaw) {
  const auto json = ParseJson("{\"a\": \"" + std::string(100'000, 'x') + "\x1b[2J");
  ASSERT_FALSE(json);
  EXPECT_LT(json.error().message.size(), 400u);
  const auto control = ParseJson("{\"a\": \"\x7f\xe2\x80\xae");
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().message.find('\x7f'), std::string::npos) << control.error().message;
  EXPECT_EQ(control.error().message.find("\xe2\x80\xae"), std::string::npos);
}

TEST(ValueAt, IsNullWhereThePathLeadsNowhere) {
  const Json json = {{"a", {{"b", 1}, {"c", Json::array({2})}}}};
  EXPECT_EQ(&ValueAt(json, {}), &json);
  EXPECT_EQ(ValueAt(json, {"a", "b"}), 1);
  EXPECT_TRUE(ValueAt(json, {"a", "x"}).is_null());
  EXPECT_TRUE(ValueAt(json, {"a", "b", "c"}).is_null()) << "a number has no keys";
  EXPECT_TRUE(ValueAt(json, {"a", "c", "0"}).is_null()) << "a list has no keys";
}

TEST(DumpJson, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

TEST(JsonNumber, NonFiniteBecomesText) {
  EXPECT_EQ(JsonNumber(std::nan("")), "nan");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(JsonNumber(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_TRUE(JsonNumber(std::optional<double>()).is_null());
}

TEST(JsonNumber, RoundsForReadersAndKeepsWholeNumbersWhole) {
  EXPECT_EQ(DumpJson(JsonNumber(0.1 + 0.2)), "0.3");
  EXPECT_EQ(DumpJson(JsonNumber(65504.0)), "65504");
  EXPECT_EQ(DumpJson(JsonNumber(5.9604644775390625e-08)), "5.96046e-08");
  EXPECT_EQ(DumpJson(JsonNumber(3.4028234663852886e38)), "3.40282e+38");
  EXPECT_EQ(DumpJson(JsonNumber(-0.0)), "0");
}

}  // namespace
}  // namespace mpnanny
