#include "server/transport/http/access_rules.h"

#include <gtest/gtest.h>

namespace mpnanny {
namespace {

// 0 for a request that is let through.
int Status(const AccessSettings& settings, std::optional<std::string_view> host,
           std::optional<std::string_view> origin = std::nullopt,
           std::optional<std::string_view> authorization = std::nullopt,
           std::string_view local = "127.0.0.1") {
  const auto refusal = AccessRules(settings).Check(host, origin, authorization, local);
  return refusal ? refusal->status : 0;
}

const AccessSettings kLocal = {.bound_host = "127.0.0.1"};

TEST(AccessRules, ThisMachinesNamesAreKnownWithAndWithoutPort) {
  for (const char* host :
       {"localhost", "LOCALHOST:9", "127.0.0.1:80", "127.3.2.1", "[::1]", "[::1]:8765"}) {
    EXPECT_EQ(Status(kLocal, host), 0) << host;
  }
}

TEST(AccessRules, OtherHostsAreNot) {
  for (const char* host :
       {"evil.example", "localhost.evil.example", "evil.example:8765", "127.0.0.1.evil.example",
        "10.0.0.5", "", ":80", "localhost:", "localhost:x", "[::1", "[::1]x", "user@localhost",
        "127.0.0.1:80:80", "localhost/", "127.0.0.1 "}) {
    EXPECT_EQ(Status(kLocal, host), 403) << host;
  }
  EXPECT_EQ(Status(kLocal, std::nullopt), 403);
}

TEST(AccessRules, TheAddressThatTheClientReallyReachedIsKnown) {
  const AccessSettings everywhere = {.bound_host = "0.0.0.0"};
  EXPECT_EQ(Status(everywhere, "10.0.0.5:8765", {}, {}, "10.0.0.5"), 0);
  EXPECT_EQ(Status(everywhere, "10.0.0.6:8765", {}, {}, "10.0.0.5"), 403);
  EXPECT_EQ(Status(everywhere, "[fe80::1]:8765", {}, {}, "fe80::1"), 0);
}

TEST(AccessRules, HostsThatWereAllowedAreKnown) {
  const AccessSettings settings = {.bound_host = "0.0.0.0", .hosts = {"GPU-box.lan"}};
  EXPECT_EQ(Status(settings, "gpu-box.lan:8765"), 0);
  EXPECT_EQ(Status(settings, "gpu-box.lan.evil.example"), 403);
}

TEST(AccessRules, OriginsMustBeOfThisMachineOrAllowed) {
  const AccessSettings settings = {.bound_host = "127.0.0.1", .origins = {"https://App.example"}};
  EXPECT_EQ(Status(settings, "localhost", "http://localhost:3000"), 0);
  EXPECT_EQ(Status(settings, "localhost", "https://app.example"), 0);
  for (const char* origin :
       {"http://evil.example", "null", "", "https://app.example.evil.example", "http://app.example",
        "file://localhost", "http://localhost.evil.example", "http://localhost@evil.example",
        "https://app.example:444"}) {
    EXPECT_EQ(Status(settings, "localhost", origin), 403) << origin;
  }
}

TEST(AccessRules, TheTokenIsComparedWhole) {
  const AccessSettings settings = {.bound_host = "127.0.0.1", .token = "s3cret"};
  EXPECT_EQ(Status(settings, "localhost", {}, "Bearer s3cret"), 0);
  EXPECT_EQ(Status(settings, "localhost", {}, "bearer  s3cret"), 0);
  EXPECT_EQ(Status(settings, "localhost"), 401);
  for (const char* given : {"Bearer s3cre", "Bearer s3crets", "Bearer S3CRET", "Bearer ", "Bearer",
                            "Basic s3cret", "s3cret", ""}) {
    EXPECT_EQ(Status(settings, "localhost", {}, given), 401) << given;
  }
  // A page of elsewhere learns nothing about the token.
  EXPECT_EQ(Status(settings, "evil.example", {}, "Bearer s3cret"), 403);
}

TEST(HostWithoutPort, KeepsBracketsAndLowersLetters) {
  EXPECT_EQ(HostWithoutPort("A.Example:80"), "a.example");
  EXPECT_EQ(HostWithoutPort("[2001:DB8::1]:80"), "[2001:db8::1]");
  EXPECT_EQ(HostWithoutPort("a:123456"), std::nullopt);
}

}  // namespace
}  // namespace mpnanny
