// Telling clients that something changed, and log messages: only what each asked for.
#include <gtest/gtest.h>

#include "tests/server/interactive_registry.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

constexpr char kSubscription[] = "io.modelcontextprotocol/subscriptionId";

class Subscriptions : public testing::Test {
 protected:
  PipeClient& client() { return server_.client; }

  Json Listen(Json id, const Json& filter) {
    client().Send(
        ModernRequest(std::move(id), "subscriptions/listen", {{"notifications", filter}}));
    return client().Read();
  }
  // Makes a change and returns what the server sent before the call's own answer.
  std::vector<Json> Change(const std::string& what) {
    client().others.clear();
    client().Ask(ModernRequest("change", "tools/call",
                               {{"name", "change"}, {"arguments", {{"what", what}}}}));
    return client().others;
  }

  TestServer server_{InteractiveRegistry()};
};

TEST_F(Subscriptions, AreAcknowledgedFirstAndTagged) {
  const Json acknowledged = Listen(7, {{"toolsListChanged", true}, {"promptsListChanged", false}});
  EXPECT_EQ(acknowledged["method"], "notifications/subscriptions/acknowledged");
  EXPECT_EQ(acknowledged["params"]["notifications"], Json({{"toolsListChanged", true}}));
  EXPECT_EQ(acknowledged["params"]["_meta"][kSubscription], 7);
  const std::vector<Json> told = Change("tools");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["method"], "notifications/tools/list_changed");
  EXPECT_EQ(told[0]["params"]["_meta"][kSubscription], 7) << "with its type, not as a string";
}

TEST_F(Subscriptions, TellOnlyWhatWasAskedFor) {
  Listen("a", {{"resourceSubscriptions", {"test://fixed", "test://item/item%203", "no://such"}}});
  EXPECT_TRUE(Change("tools").empty());
  EXPECT_TRUE(Change("resources").empty());
  EXPECT_TRUE(Change("test://asking").empty());
  const std::vector<Json> told = Change("test://fixed");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["method"], "notifications/resources/updated");
  EXPECT_EQ(told[0]["params"]["uri"], "test://fixed");
}

TEST_F(Subscriptions, UnknownResourcesAreNotHonoured) {
  const Json acknowledged = Listen(1, {{"resourceSubscriptions", {"test://fixed", "no://such"}}});
  EXPECT_EQ(acknowledged["params"]["notifications"],
            Json({{"resourceSubscriptions", {"test://fixed"}}}));
}

TEST_F(Subscriptions, EachListenerHearsItsOwn) {
  Listen(1, {{"toolsListChanged", true}});
  Listen("1", {{"toolsListChanged", true}, {"promptsListChanged", true}});
  EXPECT_EQ(Change("tools").size(), 2u);
  const std::vector<Json> told = Change("prompts");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["params"]["_meta"][kSubscription], "1");
}

TEST_F(Subscriptions, EndWhenTheyAreCancelled) {
  Listen(1, {{"toolsListChanged", true}});
  client().Send(
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  EXPECT_TRUE(Change("tools").empty());
  EXPECT_EQ(Listen(1, {{"toolsListChanged", true}})["method"],
            "notifications/subscriptions/acknowledged")
      << "the id is free again";
}

TEST_F(Subscriptions, GetTheirResultWhenTheServerEnds) {
  Listen("s", {{"toolsListChanged", true}});
  client().CloseInput();
  const std::vector<Json> rest = client().ReadAll();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0]["method"], "notifications/cancelled");
  EXPECT_EQ(rest[1]["id"], "s");
  EXPECT_EQ(rest[1]["result"]["resultType"], "complete");
  EXPECT_EQ(rest[1]["result"]["_meta"][kSubscription], "s");
}

TEST_F(Subscriptions, WrongFiltersAreRefused) {
  for (const Json& filter :
       {Json(nullptr), Json("all"), Json{{"toolsListChanged", "yes"}},
        Json{{"resourceSubscriptions", "test://fixed"}}, Json{{"resourceSubscriptions", {1}}}}) {
    client().Send(ModernRequest(1, "subscriptions/listen", {{"notifications", filter}}));
    EXPECT_EQ(client().Read()["error"]["code"], -32602) << DumpJson(filter);
  }
  client().Send(Request(1, "subscriptions/listen", {{"notifications", Json::object()}}));
  EXPECT_EQ(client().Read()["error"]["code"], -32602) << "without _meta";
}

TEST_F(Subscriptions, ServersWithoutChangesHonourNothing) {
  TestServer quiet;
  quiet.client.Send(
      ModernRequest(1, "subscriptions/listen", {{"notifications", {{"toolsListChanged", true}}}}));
  EXPECT_EQ(quiet.client.Read()["params"]["notifications"], Json::object());
}

TEST_F(Subscriptions, LegacyClientsHearListChangesAndWhatTheySubscribedTo) {
  server_.Initialize();
  EXPECT_EQ(Change("tools").size(), 1u);
  EXPECT_TRUE(Change("test://fixed").empty());
  EXPECT_EQ(client().Ask(Request(1, "resources/subscribe", {{"uri", "test://fixed"}}))["result"],
            Json::object());
  const std::vector<Json> told = Change("test://fixed");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["params"], Json({{"uri", "test://fixed"}}));
  EXPECT_TRUE(Change("test://asking").empty());
  client().Ask(Request(2, "resources/unsubscribe", {{"uri", "test://fixed"}}));
  EXPECT_TRUE(Change("test://fixed").empty());
  EXPECT_EQ(
      client().Ask(Request(3, "resources/subscribe", {{"uri", "no://such"}}))["error"]["code"],
      -32002);
  // Not in the modern era.
  EXPECT_EQ(client().Ask(ModernRequest(4, "resources/subscribe",
                                       {{"uri", "test://fixed"}}))["error"]["code"],
            -32601);
}

TEST_F(Subscriptions, AreBoundedAndMayBeRepeated) {
  server_.Initialize();
  const auto code = [&](const std::string& uri) {
    const Json answer = client().Ask(Request(1, "resources/subscribe", {{"uri", uri}}));
    return answer.value("error", Json::object()).value("code", 0);
  };
  for (size_t i = 0; i < NoticeHub::kMaxUrisEach; ++i) {
    ASSERT_EQ(code("test://item/" + std::to_string(i)), 0) << i;
  }
  EXPECT_EQ(code("test://fixed"), -32602);
  EXPECT_EQ(code("test://item/0"), 0);
}

TEST_F(Subscriptions, NothingIsToldBeforeInitialize) { EXPECT_TRUE(Change("tools").empty()); }

TEST_F(Subscriptions, CapabilitiesSayWhatIsServed) {
  const Json modern = client().Ask(ModernRequest(1, "server/discover"));
  const Json& offered = modern["result"]["capabilities"];
  EXPECT_EQ(offered["tools"], Json({{"listChanged", true}}));
  EXPECT_EQ(offered["resources"], Json({{"listChanged", true}, {"subscribe", true}}));
  EXPECT_EQ(offered["logging"], Json::object());
}

class Logging : public Subscriptions {
 protected:
  // The levels that a call of `log` sends.
  std::vector<std::string> Levels(const Json& request) {
    client().others.clear();
    client().Ask(request);
    std::vector<std::string> levels;
    for (const Json& message : client().others) {
      EXPECT_EQ(message["method"], "notifications/message");
      levels.push_back(message["params"]["level"].get<std::string>());
    }
    return levels;
  }
};

TEST_F(Logging, ModernClientsAskForItWithEachRequest) {
  EXPECT_TRUE(Levels(ModernRequest(1, "tools/call", {{"name", "log"}})).empty());
  const auto with = [](const std::string& level) {
    return ModernRequest(
        1, "tools/call",
        {{"name", "log"}, {"_meta", {{"io.modelcontextprotocol/logLevel", level}}}});
  };
  EXPECT_EQ(Levels(with("debug")), (std::vector<std::string>{"debug", "info", "error"}));
  EXPECT_EQ(Levels(with("warning")), (std::vector<std::string>{"error"}));
  EXPECT_EQ(client().Ask(with("loud"))["error"]["code"], -32602);
  EXPECT_TRUE(Levels(ModernRequest(1, "tools/call", {{"name", "log"}})).empty());
}

TEST_F(Logging, LegacyClientsSetALevel) {
  server_.Initialize();
  const Json call = Request(1, "tools/call", {{"name", "log"}});
  EXPECT_EQ(Levels(call), (std::vector<std::string>{"info", "error"}));
  EXPECT_EQ(client().Ask(Request(2, "logging/setLevel", {{"level", "critical"}}))["result"],
            Json::object());
  EXPECT_TRUE(Levels(call).empty());
  client().Ask(Request(3, "logging/setLevel", {{"level", "debug"}}));
  EXPECT_EQ(Levels(call).size(), 3u);
  for (const Json& level : {Json("loud"), Json(3), Json(nullptr)}) {
    EXPECT_EQ(client().Ask(Request(4, "logging/setLevel", {{"level", level}}))["error"]["code"],
              -32602);
  }
}

}  // namespace
}  // namespace mpnanny
