#include "server/transport/http/header_rules.h"

#include <gtest/gtest.h>

#include "tests/http/http_client.h"

namespace mpnanny {
namespace {

using HeaderMap = std::map<std::string, std::string>;

// The error's code; 0 for a request that is let through.
int Code(const Json& request, const HeaderMap& headers, const MirroredArguments& mirrored = {}) {
  const auto wrong = CheckModernRequest(
      request,
      [&](const std::string& name) -> std::optional<std::string_view> {
        const auto found = headers.find(name);
        if (found == headers.end()) return std::nullopt;
        return found->second;
      },
      mirrored);
  return wrong ? wrong->code : 0;
}

HeaderMap Of(const std::string& method, const std::string& name = "") {
  HeaderMap headers = {{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", method}};
  if (!name.empty()) headers["Mcp-Name"] = name;
  return headers;
}

TEST(ModernHeaders, AgreeingOnesAreLetThrough) {
  EXPECT_EQ(Code(ModernRequest(1, "tools/list"), Of("tools/list")), 0);
  EXPECT_EQ(Code(CallTool(1, "echo"), Of("tools/call", "echo")), 0);
  EXPECT_EQ(Code(ModernRequest(1, "prompts/get", {{"name", "greet"}}), Of("prompts/get", "greet")),
            0);
  EXPECT_EQ(Code(ModernRequest(1, "resources/read", {{"uri", "test://a%2Fb"}}),
                 Of("resources/read", "test://a%2Fb")),
            0);
}

TEST(ModernHeaders, EachMandatoryOneIsMissed) {
  for (const char* name : {"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"}) {
    HeaderMap headers = Of("tools/call", "echo");
    headers.erase(name);
    EXPECT_EQ(Code(CallTool(1, "echo"), headers), -32020) << name;
  }
  EXPECT_EQ(Code(ModernRequest(1, "tools/list"), Of("tools/list")), 0) << "needs no Mcp-Name";
}

TEST(ModernHeaders, EachDifferenceIsSeen) {
  for (const char* name : {"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"}) {
    HeaderMap headers = Of("tools/call", "echo");
    headers[name] += "x";
    EXPECT_EQ(Code(CallTool(1, "echo"), headers), -32020) << name;
  }
  EXPECT_EQ(Code(CallTool(1, "echo"), Of("tools/call", "Echo")), -32020) << "case matters";
}

TEST(ModernHeaders, EncodedValuesAreDecoded) {
  EXPECT_EQ(Code(CallTool(1, "溢出"), Of("tools/call", "=?base64?5rqi5Ye6?=")), 0);
  EXPECT_EQ(Code(CallTool(1, "echo"), Of("tools/call", "=?base64?5rqi5Ye6?=")), -32020);
  EXPECT_EQ(Code(CallTool(1, "echo"), Of("tools/call", "=?base64?!!?=")), -32020);
  EXPECT_EQ(Code(CallTool(1, "溢出"), Of("tools/call", "溢出")), -32020) << "not encoded";
  EXPECT_EQ(DecodeHeaderValue("=?base64?"
                              "?="),
            "");
  EXPECT_EQ(DecodeHeaderValue("=?base64?="), "=?base64?=");
  EXPECT_EQ(DecodeHeaderValue("=?base64?ZWNobw=?="), std::nullopt) << "padding is missing";
}

TEST(ModernHeaders, FaultsAreFoundInTheirOrder) {
  Json no_meta = Legacy(1, "tools/list");
  EXPECT_EQ(Code(no_meta, {}), -32020) << "a missing header comes before missing _meta";
  EXPECT_EQ(Code(no_meta, Of("tools/list")), -32602);
  Json no_capabilities = ModernRequest(1, "tools/list");
  no_capabilities["params"]["_meta"].erase("io.modelcontextprotocol/clientCapabilities");
  HeaderMap other = Of("tools/list");
  other["MCP-Protocol-Version"] = "2027-01-01";
  EXPECT_EQ(Code(no_capabilities, other), -32602) << "_meta before a difference";
  Json future = ModernRequest(1, "tools/list");
  future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999";
  EXPECT_EQ(Code(future, Of("tools/list")), -32020) << "a difference before the version";
  other["MCP-Protocol-Version"] = "v999";
  EXPECT_EQ(Code(future, other), -32022);
}

TEST(ModernHeaders, BodiesOfTheWrongShapeAreLeftToTheCore) {
  Json call = CallTool(1, "echo");
  call["params"]["name"] = 7;
  EXPECT_EQ(Code(call, Of("tools/call", "echo")), 0);
  call["params"].erase("name");
  EXPECT_EQ(Code(call, Of("tools/call", "echo")), 0);
  call["params"] = Json::array();
  EXPECT_EQ(Code(call, Of("tools/call", "echo")), -32602);
}

const Json kSchema = {
    {"type", "object"},
    {"properties",
     {{"region", {{"type", "string"}, {"x-mcp-header", "Region"}}},
      {"plain", {{"type", "string"}}},
      {"deep",
       {{"type", "object"},
        {"properties", {{"count", {{"type", "integer"}, {"x-mcp-header", "Count"}}}}}}}}}};

TEST(MirroredArguments, AreFoundInTheSchema) {
  const auto found = FindMirroredArguments(kSchema);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].header, "Mcp-Param-Region");
  EXPECT_EQ(found[1].path, (std::vector<std::string>{"deep", "count"}));
  EXPECT_TRUE(FindMirroredArguments(Json::object()).empty());
}

TEST(MirroredArguments, MustAgreeWithTheirHeaders) {
  const MirroredArguments mirrored = {{"query", FindMirroredArguments(kSchema)}};
  const auto code = [&](Json arguments, HeaderMap more) {
    HeaderMap headers = Of("tools/call", "query");
    headers.merge(more);
    return Code(CallTool(1, "query", std::move(arguments)), headers, mirrored);
  };
  EXPECT_EQ(code({{"region", "eu"}}, {{"Mcp-Param-Region", "eu"}}), 0);
  EXPECT_EQ(code({{"region", "eu"}}, {{"Mcp-Param-Region", "us"}}), -32020);
  EXPECT_EQ(code({{"region", "eu"}}, {}), -32020);
  EXPECT_EQ(code(Json::object(), {{"Mcp-Param-Region", "eu"}}), -32020);
  EXPECT_EQ(code({{"region", nullptr}}, {}), 0);
  EXPECT_EQ(code({{"plain", "x"}}, {}), 0);
  EXPECT_EQ(code({{"deep", {{"count", 42}}}}, {{"Mcp-Param-Count", "42"}}), 0);
  EXPECT_EQ(code({{"deep", {{"count", -7}}}}, {{"Mcp-Param-Count", "-7"}}), 0);
  EXPECT_EQ(code({{"deep", {{"count", 42}}}}, {{"Mcp-Param-Count", "42x"}}), -32020);
  EXPECT_EQ(code({{"deep", {{"count", 42}}}}, {{"Mcp-Param-Count", "42.0"}}), 0);
  EXPECT_EQ(code({{"deep", {{"count", 42.0}}}}, {{"Mcp-Param-Count", "42"}}), 0);
  EXPECT_EQ(code({{"deep", {{"count", 42}}}}, {{"Mcp-Param-Count", "42.5"}}), -32020);
  EXPECT_EQ(code({{"deep", {{"count", 42}}}}, {{"Mcp-Param-Count", "inf"}}), -32020);
  EXPECT_EQ(code({{"deep", 3}}, {}), 0);
}

TEST(Era, IsToldByTheMessageOrTheHeader) {
  EXPECT_TRUE(IsModernPost(ModernRequest(1, "tools/list"), std::nullopt));
  EXPECT_TRUE(IsModernPost(ModernRequest(1, "tools/list"), "2025-06-18"));
  EXPECT_TRUE(IsModernPost(Legacy(1, "tools/list"), "2026-07-28"));
  EXPECT_TRUE(IsModernPost(Legacy(1, "tools/list"), "v999"));
  EXPECT_FALSE(IsModernPost(Legacy(1, "tools/list"), "2025-06-18"));
  EXPECT_FALSE(IsModernPost(Legacy(1, "tools/list"), std::nullopt));
  EXPECT_FALSE(IsModernPost(Json::array({1, "x"}), std::nullopt));
  EXPECT_FALSE(IsModernPost(Json("x"), std::nullopt));

  constexpr bool kInSession = true;
  EXPECT_TRUE(IsModernPost(ModernRequest(1, "tools/list"), "2025-06-18", kInSession));
  EXPECT_FALSE(IsModernPost(Legacy(1, "tools/list"), "2026-07-28", kInSession));
  EXPECT_FALSE(IsModernPost(Legacy(1, "server/discover"), std::nullopt, kInSession));
  EXPECT_TRUE(IsModernPost(Legacy(1, "server/discover"), std::nullopt));
}

}  // namespace
}  // namespace mpnanny
