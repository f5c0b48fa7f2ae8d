// Messages made by damaging good ones at random: the server answers with JSON-RPC or not at all,
// and lives.
//
// The seed is fixed, so a failure comes back; MPNANNY_RANDOM_SEED and MPNANNY_RANDOM_MESSAGES
// change what is tried.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "server/methods/methods.h"
#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

class CheckingSink : public MessageSink {
 public:
  void Send(const Json& message) override {
    const std::lock_guard lock(mutex_);
    for (const Json& each : message.is_array() ? message : Json::array({message})) Check(each);
  }
  int sent = 0;

 private:
  void Check(const Json& message) {
    ++sent;
    ASSERT_EQ(message.value("jsonrpc", ""), "2.0");
    if (message.contains("method")) return;
    ASSERT_TRUE(message.contains("id"));
    ASSERT_NE(message.contains("result"), message.contains("error")) << DumpJson(message);
    if (message.contains("error")) {
      const int code = message.at("error").at("code");
      ASSERT_TRUE(code == -32700 || code == -32600 || code == -32601 || code == -32602 ||
                  code == -32002 || code == -32022 || code == -32603)
          << DumpJson(message);
      // -32603 only where a tool of the tests provokes it.
      if (code == -32603) {
        const std::string text = message.at("error").at("message");
        ASSERT_TRUE(text.find("Internal error") == 0 ||
                    text.find("failed by an internal") != std::string::npos ||
                    text.find("busy") != std::string::npos)
            << text;
      }
    }
  }
  std::mutex mutex_;
};

std::vector<Json> Seeds() {
  std::vector<Json> seeds = {
      InitializeRequest(1, "2025-03-26"),
      Request(2, "ping"),
      Request(3, "tools/list", {{"cursor", "tools:200"}}),
      Request("4", "tools/call", {{"name", "echo"}, {"arguments", {{"text", "hi"}}}}),
      Request(5, "tools/call",
              {{"name", "count"}, {"arguments", {{"to", 2}}}, {"_meta", {{"progressToken", 1}}}}),
      Request(6, "resources/read", {{"uri", "test://item/item%203"}}),
      Request(7, "prompts/get", {{"name", "greet"}, {"arguments", {{"name", "x"}}}}),
      Request(8, "completion/complete",
              {{"ref", {{"type", "ref/prompt"}, {"name", "greet"}}},
               {"argument", {{"name", "tone"}, {"value", "w"}}}}),
      ModernRequest(9, "server/discover"),
      ModernRequest(10, "tools/call", {{"name", "echo"}}),
      ModernRequest(11, "resources/list"),
      {{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 5}}}},
  };
  seeds.push_back(Json::array({seeds[1], seeds[3], seeds[4]}));
  return seeds;
}

// Replaces, removes or swaps something somewhere in the tree.
void DamageTree(Json& json, std::mt19937& random) {
  const auto pick = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  Json* at = &json;
  while (at->is_structured() && !at->empty() && pick(4) != 0) {
    auto it = at->begin();
    std::advance(it, static_cast<long>(pick(at->size())));
    at = &*it;
  }
  const std::vector<Json> values = {nullptr,
                                    true,
                                    0,
                                    -1,
                                    1.5,
                                    1e300,
                                    "",
                                    "x",
                                    std::string(300, 'y'),
                                    Json::object(),
                                    Json::array(),
                                    Json::array({1}),
                                    {{"a", 1}},
                                    18446744073709551615u};
  if (at->is_structured() && !at->empty() && pick(2) == 0) {
    auto it = at->begin();
    std::advance(it, static_cast<long>(pick(at->size())));
    at->erase(it);
  } else {
    *at = values[pick(values.size())];
  }
}

void DamageBytes(std::string& text, std::mt19937& random) {
  const auto pick = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  if (text.empty()) return;
  const size_t at = pick(text.size());
  switch (pick(5)) {
    case 0:
      text[at] = static_cast<char>(pick(256));
      break;
    case 1:
      text.erase(at, 1 + pick(8));
      break;
    case 2:
      text.insert(at, text.substr(pick(text.size()), pick(20)));
      break;
    case 3:
      text.resize(at);
      break;
    default:
      text.insert(at, std::string(1, "{}[]\",:\\0"[pick(9)]));
      break;
  }
}

long FromEnvironment(const char* name, long otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atol(value) : otherwise;
}

TEST(RandomMessages, AreAnsweredOrIgnoredButNeverFatal) {
  std::mt19937 random(static_cast<unsigned>(FromEnvironment("MPNANNY_RANDOM_SEED", 20261121)));
  const long messages = FromEnvironment("MPNANNY_RANDOM_MESSAGES", 20'000);
  const Registry registry = TestRegistry();
  Dispatcher dispatcher(MakeMethodTable(registry), registry.server_info);
  const auto connection = std::make_shared<Connection>();
  const auto sink = std::make_shared<CheckingSink>();
  const std::vector<Json> seeds = Seeds();
  for (long i = 0; i < messages; ++i) {
    Json json = seeds[random() % seeds.size()];
    for (unsigned n = random() % 4; n > 0; --n) DamageTree(json, random);
    std::string text = DumpJson(json);
    if (random() % 3 == 0) DamageBytes(text, random);
    SCOPED_TRACE(text);
    dispatcher.Handle(text, connection, sink);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_TRUE(dispatcher.WaitUntilIdle(std::chrono::seconds(20)));
  EXPECT_GT(sink->sent, messages / 2);
  const auto last = std::make_shared<CheckingSink>();
  dispatcher.Handle(DumpJson(Request("alive", "ping")), connection, last);
  EXPECT_EQ(last->sent, 1);
}

}  // namespace
}  // namespace mpnanny
