// URLs of a team's database: what they name, and what is refused.
#include <gtest/gtest.h>

#include "engines/team/address.h"

namespace mpnanny::team {
namespace {

TEST(Address, HasItsParts) {
  const auto a = ParseAddress("postgresql://anna@host:5433/runs?sslmode=require#12");
  ASSERT_TRUE(a) << a.error().Text();
  EXPECT_EQ(a->user, "anna");
  EXPECT_EQ(a->host, "host");
  EXPECT_EQ(a->port, "5433");
  EXPECT_EQ(a->database, "runs");
  EXPECT_EQ(a->options.at("sslmode"), "require");
  EXPECT_EQ(a->training, 12);
  EXPECT_EQ(UrlOf(*a), "postgresql://anna@host:5433/runs?sslmode=require");
  EXPECT_EQ(HandleOf(*a, 7), "postgresql://anna@host:5433/runs?sslmode=require#7");
}

TEST(Address, ComesBackFromWhatIsShown) {
  for (const char* url :
       {"postgresql://h/db", "postgres://[::1]:5432/db", "postgresql:///db?host=/tmp/a%20b&port=5",
        "postgresql://a%40b@h/d%23b", "postgresql://h/db?user=u&application_name=x%26y",
        "postgresql://", "postgresql://h/db#3"}) {
    const auto first = ParseAddress(url);
    ASSERT_TRUE(first) << url;
    const auto second = ParseAddress(HandleOf(*first, 3));
    ASSERT_TRUE(second) << HandleOf(*first, 3);
    EXPECT_EQ(HandleOf(*second, 3), HandleOf(*first, 3));
    EXPECT_EQ(second->user, first->user) << url;
    EXPECT_EQ(second->host, first->host) << url;
    EXPECT_EQ(second->port, first->port) << url;
    EXPECT_EQ(second->database, first->database) << url;
    EXPECT_EQ(second->options, first->options) << url;
  }
}

TEST(Address, RefusesPasswordsAndRepeatsNone) {
  for (const char* url :
       {"postgresql://a:secret@h/db", "postgresql://h/db?password=secret",
        "postgresql://:secret@h/db", "postgresql://h/db?sslpassword=secret",
        "postgresql://a:secret@h:x/db", "postgresql://h/?dbname=password%3Dsecret",
        "postgresql://a:secret@h/db#x", "postgresql://a:secret@h,i/db"}) {
    const auto refused = ParseAddress(url);
    ASSERT_FALSE(refused) << url;
    EXPECT_EQ(refused.error().Text().find("secret"), std::string::npos) << refused.error().Text();
  }
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const char* url : {"", "nanny_logs", "http://h/db", "postgresql://h:0/db",
                          "postgresql://h:99999/db", "postgresql://h:a/db", "postgresql://h,i/db",
                          "postgresql://h/db#", "postgresql://h/db#0", "postgresql://h/db#-1",
                          "postgresql://h/db#1x", "postgresql://[::1/db", "postgresql://h/db?a"}) {
    EXPECT_FALSE(ParseAddress(url)) << url;
  }
}

TEST(Address, OneDatabaseUnderSeveralNames) {
  const auto same = [](const char* a, const char* b) {
    return SameDatabase(*ParseAddress(a), *ParseAddress(b));
  };
  EXPECT_TRUE(same("postgresql://h/db", "postgres://anna@h:5432/db?sslmode=require#4"));
  EXPECT_TRUE(same("postgresql://x/y?host=h&dbname=db", "postgresql://h/db"));
  EXPECT_FALSE(same("postgresql://h/db", "postgresql://h:5433/db"));
  EXPECT_FALSE(same("postgresql://h/db", "postgresql://h/other"));
  EXPECT_FALSE(same("postgresql://h/db", "postgresql://i/db"));
  // What sends libpq elsewhere is no database that somebody allowed by its name.
  EXPECT_FALSE(same("postgresql://h/db", "postgresql://h/db?hostaddr=10.0.0.1"));
  EXPECT_FALSE(same("postgresql://h/db", "postgresql://h/db?service=other"));
}

}  // namespace
}  // namespace mpnanny::team
