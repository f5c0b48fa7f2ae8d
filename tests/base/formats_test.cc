// Front matter, run handles and the flight recorder's layout.
#include <gtest/gtest.h>

#include "base/flight_ring.h"
#include "base/front_matter.h"
#include "base/run_handle.h"

namespace mpnanny {
namespace {

TEST(FrontMatter, ScalarsAreStringsAndTheBodyKnowsItsLine) {
  const auto parsed =
      ParseFrontMatter("---\nid: a\nnumber: 1.50\nlist: [x, 2]\nzh: 溢出\n---\n# Title\n", "a.md");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->fields["number"], "1.50");
  EXPECT_EQ(parsed->fields["list"][1], "2");
  EXPECT_EQ(parsed->fields["zh"], "溢出");
  EXPECT_EQ(parsed->body, "# Title\n");
  EXPECT_EQ(parsed->body_line, 7);
}

TEST(FrontMatter, SaysWhereItIsBroken) {
  EXPECT_NE(ParseFrontMatter("# no", "a.md").error().message.find("a.md:1"), std::string::npos);
  EXPECT_FALSE(ParseFrontMatter("---\nid: a\n", "a.md"));
  EXPECT_FALSE(ParseFrontMatter("---\n- a\n---\n", "a.md"));
  EXPECT_NE(ParseFrontMatter("---\nid: a\nid: b\n---\n", "a.md")
                .error()
                .message.find("'id' stands twice"),
            std::string::npos);
  EXPECT_NE(ParseFrontMatter("---\nid: a\nx: [1\n---\n", "a.md").error().message.find("a.md:"),
            std::string::npos);
}

TEST(RunHandle, OnlyDigitsAfterTheLastHashAreAnId) {
  EXPECT_EQ(ParseRunHandle("logs/m.db#3").run_id, 3);
  EXPECT_EQ(ParseRunHandle("logs/m.db#3").path, "logs/m.db");
  for (const char* bare :
       {"m.db", "a#b.db", "m.db#", "m.db#x", "m.db#-1", "m.db#3x", "m.db#99999999999999999999"}) {
    EXPECT_EQ(ParseRunHandle(bare).path, bare);
    EXPECT_FALSE(ParseRunHandle(bare).run_id) << bare;
  }
  EXPECT_EQ(FormatRunHandle(ParseRunHandle("a#1#2")), "a#1#2");
  EXPECT_EQ(ParseRunHandle("a#1#2").path, "a#1");
}

TEST(PercentEncoding, RoundTrips) {
  const std::string odd = "/tmp/溢 出/m.db#1?%20";
  EXPECT_EQ(PercentDecode(PercentEncode(odd)), odd);
  EXPECT_EQ(PercentEncode("a/b#1"), "a%2Fb%231");
  EXPECT_EQ(PercentDecode("100%"), "100%");
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
  EXPECT_EQ(PercentDecode("%41"), "A");
  EXPECT_EQ(PercentDecode("%-1%+1"), "%-1%+1") << "a sign is no hex digit";
}

TEST(Crc32, EqualsThePublishedCheckValue) {
  EXPECT_EQ(Crc32("123456789", 9), 0xCBF43926u);
  EXPECT_EQ(Crc32("", 0), 0u);
}

}  // namespace
}  // namespace mpnanny
