// Both eras and all five revisions: what a client of each gets, in any order on one connection.
#include <gtest/gtest.h>

#include <set>

#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

class LegacyRevision : public testing::TestWithParam<const char*> {};

TEST_P(LegacyRevision, WholeConversation) {
  TestServer server;
  const std::string revision = GetParam();
  Json answer = server.client.Ask(InitializeRequest(0, revision));
  const Json& result = answer["result"];
  EXPECT_EQ(result["protocolVersion"], revision);
  EXPECT_EQ(result["serverInfo"]["name"], "test");
  EXPECT_EQ(result["serverInfo"].contains("title"), revision >= "2025-06-18");
  EXPECT_EQ(result["serverInfo"].contains("description"), revision >= "2025-11-25");
  EXPECT_EQ(result["capabilities"].contains("completions"), revision >= "2025-03-26");
  EXPECT_TRUE(result["capabilities"].contains("tools"));
  EXPECT_FALSE(result["capabilities"].contains("logging"));
  EXPECT_EQ(result["instructions"], "Use echo.");
  server.client.Send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});

  EXPECT_EQ(server.client.Ask(Request(1, "ping"))["result"], Json::object());

  Json listed = server.client.Ask(Request(2, "tools/list"));
  const Json& echo = listed["result"]["tools"][0];
  EXPECT_EQ(echo["name"], "echo");
  EXPECT_EQ(echo["inputSchema"]["type"], "object");
  EXPECT_EQ(echo.contains("annotations"), revision >= "2025-03-26");
  EXPECT_EQ(echo.contains("title"), revision >= "2025-06-18");
  EXPECT_EQ(echo.contains("outputSchema"), revision >= "2025-06-18");

  Json called = server.client.Ask(
      Request(3, "tools/call", {{"name", "echo"}, {"arguments", {{"text", "hi"}}}}));
  EXPECT_EQ(called["result"]["content"][0]["text"], "hi");
  EXPECT_EQ(called["result"].contains("structuredContent"), revision >= "2025-06-18");

  Json prompts = server.client.Ask(Request(4, "prompts/list"));
  EXPECT_EQ(prompts["result"]["prompts"][0].contains("title"), revision >= "2025-06-18");
  Json templates = server.client.Ask(Request(5, "resources/templates/list"));
  EXPECT_EQ(templates["result"]["resourceTemplates"][0].contains("title"),
            revision >= "2025-06-18");
  Json resources = server.client.Ask(Request(6, "resources/list"));
  EXPECT_EQ(resources["result"]["resources"][0].contains("title"), revision >= "2025-06-18");

  Json missing = server.client.Ask(Request(7, "resources/read", {{"uri", "test://nothing"}}));
  EXPECT_EQ(missing["error"]["code"], -32002);
  EXPECT_EQ(missing["error"]["data"]["uri"], "test://nothing");

  for (const Json* message : {&answer, &listed, &called, &prompts, &templates, &resources}) {
    for (const char* modern_only : {"resultType", "ttlMs", "cacheScope", "_meta"}) {
      EXPECT_FALSE((*message)["result"].contains(modern_only)) << modern_only;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LegacyRevision,
                         testing::Values("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
                         [](const auto& each) {
                           std::string name = each.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Initialize, AnUnknownOrModernVersionGetsTheNewestLegacyOne) {
  TestServer server;
  for (const char* asked : {"2026-07-28", "1999-01-01", ""}) {
    Json answer = server.client.Ask(InitializeRequest(1, asked));
    EXPECT_EQ(answer["result"]["protocolVersion"], "2025-11-25") << asked;
  }
}

TEST(Initialize, OnlyPingComesBefore) {
  TestServer server;
  EXPECT_EQ(server.client.Ask(Request(1, "tools/list"))["error"]["code"], -32600);
  EXPECT_EQ(server.client.Ask(Request(2, "tools/call", {{"name", "echo"}}))["error"]["code"],
            -32600);
  EXPECT_TRUE(server.client.Ask(Request(3, "ping")).contains("result"));
  server.Initialize();
  EXPECT_TRUE(server.client.Ask(Request(4, "tools/list")).contains("result"));
}

TEST(Initialize, ASecondOneStartsOver) {
  TestServer server;
  server.Initialize("2024-11-05");
  server.Initialize("2025-11-25");
  EXPECT_TRUE(
      server.client.Ask(Request(1, "tools/list"))["result"]["tools"][0].contains("outputSchema"));
}

void ExpectModernEnvelope(const Json& answer) {
  const Json& result = answer["result"];
  EXPECT_EQ(result["resultType"], "complete") << DumpJson(answer);
  EXPECT_EQ(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
}

TEST(Modern, EveryResultHasItsEnvelope) {
  TestServer server;
  Json discovered = server.client.Ask(ModernRequest("d", "server/discover"));
  ExpectModernEnvelope(discovered);
  EXPECT_EQ(discovered["result"]["supportedVersions"], Json::array({"2026-07-28"}));
  EXPECT_EQ(discovered["result"]["capabilities"].size(), 4u);
  EXPECT_EQ(discovered["result"]["instructions"], "Use echo.");

  Json listed = server.client.Ask(ModernRequest(1, "tools/list"));
  Json called = server.client.Ask(ModernRequest(2, "tools/call", {{"name", "echo"}}));
  ExpectModernEnvelope(called);
  EXPECT_FALSE(called["result"].contains("ttlMs"));
  EXPECT_TRUE(called["result"].contains("structuredContent"));
  Json read =
      server.client.Ask(ModernRequest(3, "resources/read", {{"uri", "test://item/item%201"}}));
  EXPECT_EQ(read["result"]["contents"][0]["text"], "text of item 1");
  Json secret =
      server.client.Ask(ModernRequest(4, "resources/read", {{"uri", "test://private/a%2Fb/note"}}));
  EXPECT_EQ(secret["result"]["contents"][0]["text"], "note a/b");
  Json resources = server.client.Ask(ModernRequest(5, "resources/list"));
  Json prompts = server.client.Ask(ModernRequest(6, "prompts/list"));
  Json templates = server.client.Ask(ModernRequest(7, "resources/templates/list"));
  const auto scope = [](const Json& answer) {
    ExpectModernEnvelope(answer);
    EXPECT_GE(answer["result"]["ttlMs"], 0);
    return answer["result"]["cacheScope"].get<std::string>();
  };
  EXPECT_EQ(scope(discovered), "public");
  EXPECT_EQ(scope(listed), "public");
  EXPECT_EQ(scope(read), "public");
  EXPECT_EQ(scope(prompts), "public");
  EXPECT_EQ(scope(templates), "public");
  EXPECT_EQ(scope(secret), "private");
  EXPECT_EQ(scope(resources), "private") << "a listed family is private";
  EXPECT_EQ(secret["result"]["ttlMs"], 0);
}

TEST(Modern, RemovedMethodsAreUnknown) {
  TestServer server;
  for (const char* method :
       {"initialize", "ping", "logging/setLevel", "resources/subscribe", "nothing/like/it"}) {
    EXPECT_EQ(server.client.Ask(ModernRequest(1, method))["error"]["code"], -32601) << method;
  }
}

TEST(Modern, AMissingResourceIsInvalidParams) {
  TestServer server;
  Json answer =
      server.client.Ask(ModernRequest(1, "resources/read", {{"uri", "test://item/none"}}));
  EXPECT_EQ(answer["error"]["code"], -32602);
  EXPECT_EQ(answer["error"]["data"]["uri"], "test://item/none");
}

TEST(Modern, BadEnvelopes) {
  TestServer server;
  const auto ask = [&](const char* key, Json value, bool erase = false) {
    Json request = ModernRequest(1, "tools/list");
    Json& meta = request["params"]["_meta"];
    const std::string name = std::string("io.modelcontextprotocol/") + key;
    if (erase) {
      meta.erase(name);
    } else {
      meta[name] = std::move(value);
    }
    return server.client.Ask(request);
  };
  EXPECT_EQ(ask("protocolVersion", nullptr, true)["error"]["code"], -32602);
  EXPECT_EQ(ask("clientCapabilities", nullptr, true)["error"]["code"], -32602);
  EXPECT_TRUE(ask("clientInfo", nullptr, true).contains("result")) << "clientInfo is optional";
  EXPECT_EQ(ask("protocolVersion", 7)["error"]["code"], -32602);
  EXPECT_EQ(ask("clientCapabilities", "all")["error"]["code"], -32602);
  EXPECT_EQ(ask("clientInfo", Json::array())["error"]["code"], -32602);
  for (const char* version : {"v999.0.0", "2025-11-25", ""}) {
    Json error = ask("protocolVersion", version)["error"];
    EXPECT_EQ(error["code"], -32022) << version;
    EXPECT_EQ(error["data"]["requested"], version);
    EXPECT_EQ(error["data"]["supported"], Json::array({"2026-07-28"}));
  }
  EXPECT_EQ(server.client.Ask(Request(2, "server/discover"))["error"]["code"], -32602)
      << "no _meta";
}

// Real clients send initialize after server/discover on one connection, and go on in either era.
TEST(Eras, InterleaveInEitherOrder) {
  TestServer server;
  const auto modern = [&](Json id) {
    ExpectModernEnvelope(server.client.Ask(ModernRequest(std::move(id), "tools/list")));
  };
  const auto legacy = [&](Json id, bool structured) {
    Json answer = server.client.Ask(Request(std::move(id), "tools/call", {{"name", "echo"}}));
    EXPECT_FALSE(answer["result"].contains("resultType"));
    EXPECT_EQ(answer["result"].contains("structuredContent"), structured);
  };
  ExpectModernEnvelope(
      server.client.Ask(ModernRequest("server-discover-probe-1", "server/discover")));
  modern(1);
  EXPECT_EQ(server.client.Ask(Request(2, "tools/list"))["error"]["code"], -32600)
      << "no initialize yet";
  server.Initialize("2024-11-05");
  legacy(3, false);
  modern(4);
  ExpectModernEnvelope(server.client.Ask(ModernRequest(5, "server/discover")));
  legacy(6, false);
  server.Initialize("2025-06-18");
  legacy(7, true);
  modern(8);
}

TEST(Ids, ComeBackAsTheyWere) {
  TestServer server;
  server.Initialize();
  const std::vector<Json> ids = {
      0,   "",  -1, 9007199254740993,    -9223372036854775807, 18446744073709551615u,
      "0", "1", 1,  "\u00e9\u6e2c\"\\\n"};
  for (const Json& id : ids) {
    Json answer = server.client.Ask(Request(id, "ping"));
    EXPECT_EQ(answer["id"].type_name(), std::string(id.type_name()));
    EXPECT_EQ(DumpJson(answer["id"]), DumpJson(id));
    EXPECT_EQ(server.client.Ask(Request(id, "tools/call", {{"name", "echo"}}))["id"], id);
    EXPECT_EQ(server.client.Ask(Request(id, "no/such"))["id"], id) << "errors echo the id";
  }
}

}  // namespace
}  // namespace mpnanny
