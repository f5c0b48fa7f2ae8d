// Messages that are wrong in every way we could think of: each gets its error, and the server goes
// on.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/server/test_server.h"

namespace mpnanny {
namespace {

struct BadMessage {
  std::string name;
  std::string line;
  int code;
  Json id = nullptr;  // of the answer
};

std::string Nested(int depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

std::vector<BadMessage> BadMessages() {
  const std::string head = R"({"jsonrpc":"2.0","id":7,)";
  return {
      {"no_json", "hello", -32700},
      {"empty_quotes_unclosed", "\"", -32700},
      {"half_an_object", R"({"jsonrpc":"2.0","id":7,"method":"ping")", -32700},
      {"two_objects_on_a_line", R"({"jsonrpc":"2.0","id":7,"method":"ping"}{"a":1})", -32700},
      {"trailing_comma", R"({"jsonrpc":"2.0","id":7,"method":"ping",})", -32700},
      {"comment", R"({"jsonrpc":"2.0",/* hi */"id":7,"method":"ping"})", -32700},
      {"single_quotes", R"({'jsonrpc':'2.0','id':7,'method':'ping'})", -32700},
      {"nan_literal", head + R"("method":"ping","params":{"x":NaN}})", -32700},
      {"bad_escape", head + R"("method":"pi\xng"})", -32700},
      {"lone_surrogate", head + R"("method":"\ud800"})", -32700},
      {"not_utf8", head + "\"method\":\"\xff\xfe\"}", -32700},
      {"overlong_utf8", head + "\"method\":\"\xc0\xaf\"}", -32700},
      {"nul_byte", head + std::string("\"method\":\"pi\0ng\"}", 17), -32700},
      {"binary", std::string("\x00\x01\x02\x80\x90", 5), -32700},
      {"http_request", "POST /mcp HTTP/1.1", -32700},
      {"nested_arrays", Nested(100'000, "[", "]"), -32700},
      {"nested_objects", head + "\"method\":\"ping\",\"params\":" + Nested(5000, R"({"a":)", "}"),
       -32700},
      {"nested_65", head + R"("method":"ping","params":{"a":)" + Nested(65, "[", "]") + "}}",
       -32700},
      {"huge_exponent", head + R"("method":"ping","params":{"a":1e999999}})", -32700},
      {"number", "42", -32600},
      {"string", "\"ping\"", -32600},
      {"null", "null", -32600},
      {"true", "true", -32600},
      {"empty_object", "{}", -32600},
      {"empty_batch", "[]", -32600},
      {"batch_in_a_revision_without", R"([{"jsonrpc":"2.0","id":7,"method":"ping"}])", -32600},
      {"no_jsonrpc", R"({"id":7,"method":"ping"})", -32600, 7},
      {"jsonrpc_1", R"({"jsonrpc":"1.0","id":7,"method":"ping"})", -32600, 7},
      {"jsonrpc_number", R"({"jsonrpc":2.0,"id":7,"method":"ping"})", -32600, 7},
      {"null_id", R"({"jsonrpc":"2.0","id":null,"method":"ping"})", -32600},
      {"float_id", R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})", -32600},
      {"bool_id", R"({"jsonrpc":"2.0","id":true,"method":"ping"})", -32600},
      {"array_id", R"({"jsonrpc":"2.0","id":[1],"method":"ping"})", -32600},
      {"object_id", R"({"jsonrpc":"2.0","id":{},"method":"ping"})", -32600},
      {"id_beyond_64_bits",
       R"({"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"})", -32600},
      {"method_number", head + R"("method":7})", -32600, 7},
      {"method_null", head + R"("method":null})", -32600, 7},
      {"neither_method_nor_result", head + R"("params":{}})", -32600, 7},
      {"result_without_id", R"({"jsonrpc":"2.0","result":{}})", -32600},
      {"params_string", head + R"("method":"ping","params":"x"})", -32600, 7},
      {"params_number", head + R"("method":"ping","params":3})", -32600, 7},
      {"params_array", head + R"("method":"tools/list","params":[1]})", -32602, 7},
      {"meta_string", head + R"("method":"tools/list","params":{"_meta":"x"}})", -32602, 7},
      {"progress_token_object",
       head + R"("method":"tools/call","params":{"name":"echo","_meta":{"progressToken":{}}}})",
       -32602, 7},
      {"progress_token_float",
       head + R"("method":"tools/call","params":{"name":"echo","_meta":{"progressToken":1.5}}})",
       -32602, 7},
      {"unknown_method", head + R"("method":"tools/lits"})", -32601, 7},
      {"empty_method", head + R"("method":""})", -32601, 7},
      {"notification_as_request", head + R"("method":"notifications/initialized"})", -32601, 7},
      {"server_method_of_the_client", head + R"("method":"sampling/createMessage"})", -32601, 7},
      {"logging_is_not_advertised",
       head + R"("method":"logging/setLevel","params":{"level":"info"}})", -32601, 7},
      {"initialize_without_version", head + R"("method":"initialize","params":{}})", -32602, 7},
      {"initialize_version_number",
       head + R"("method":"initialize","params":{"protocolVersion":1}})", -32602, 7},
      {"initialize_capabilities_list",
       head +
           R"("method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":[]}})",
       -32602, 7},
      {"unknown_tool", head + R"("method":"tools/call","params":{"name":"ecco"}})", -32602, 7},
      {"tool_name_missing", head + R"("method":"tools/call","params":{"arguments":{}}})", -32602,
       7},
      {"tool_name_number", head + R"("method":"tools/call","params":{"name":7}})", -32602, 7},
      {"tool_arguments_list",
       head + R"("method":"tools/call","params":{"name":"echo","arguments":[]}})", -32602, 7},
      {"tool_arguments_string",
       head + R"("method":"tools/call","params":{"name":"echo","arguments":"{}"}})", -32602, 7},
      {"cursor_number", head + R"("method":"tools/list","params":{"cursor":1}})", -32602, 7},
      {"cursor_made_up", head + R"("method":"tools/list","params":{"cursor":"abc"}})", -32602, 7},
      {"cursor_empty", head + R"("method":"tools/list","params":{"cursor":""}})", -32602, 7},
      {"cursor_of_another_list",
       head + R"("method":"prompts/list","params":{"cursor":"resources:200"}})", -32602, 7},
      {"cursor_past_the_end",
       head + R"("method":"resources/list","params":{"cursor":"resources:600"}})", -32602, 7},
      {"cursor_overflow",
       head +
           R"("method":"resources/list","params":{"cursor":"resources:99999999999999999999999"}})",
       -32602, 7},
      {"cursor_negative",
       head + R"("method":"resources/list","params":{"cursor":"resources:-200"}})", -32602, 7},
      {"cursor_between_pages",
       head + R"("method":"resources/list","params":{"cursor":"resources:7"}})", -32602, 7},
      {"resource_uri_missing", head + R"("method":"resources/read"})", -32602, 7},
      {"resource_unknown",
       head + R"("method":"resources/read","params":{"uri":"file:///etc/passwd"}})", -32002, 7},
      {"resource_empty_value",
       head + R"("method":"resources/read","params":{"uri":"test://item/"}})", -32002, 7},
      {"prompt_unknown", head + R"("method":"prompts/get","params":{"name":"gret"}})", -32602, 7},
      {"prompt_name_missing", head + R"("method":"prompts/get"})", -32602, 7},
      {"prompt_argument_missing", head + R"("method":"prompts/get","params":{"name":"greet"}})",
       -32602, 7},
      {"prompt_argument_number",
       head + R"("method":"prompts/get","params":{"name":"greet","arguments":{"name":1}}})", -32602,
       7},
      {"prompt_argument_unknown",
       head +
           R"("method":"prompts/get","params":{"name":"greet","arguments":{"name":"x","nmae":"y"}}})",
       -32602, 7},
      {"prompt_arguments_list",
       head + R"("method":"prompts/get","params":{"name":"greet","arguments":[]}})", -32602, 7},
      {"completion_empty", head + R"("method":"completion/complete"})", -32602, 7},
      {"completion_ref_string",
       head +
           R"("method":"completion/complete","params":{"ref":"x","argument":{"name":"a","value":""}}})",
       -32602, 7},
      {"completion_ref_type",
       head +
           R"("method":"completion/complete","params":{"ref":{"type":"ref/tool"},"argument":{"name":"a","value":""}}})",
       -32602, 7},
      {"completion_value_number",
       head +
           R"("method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":1}}})",
       -32602, 7},
  };
}

class Malformed : public testing::TestWithParam<BadMessage> {};

TEST_P(Malformed, GetsItsErrorAndTheServerLives) {
  TestServer server;
  server.Initialize();
  server.client.SendLine(GetParam().line);
  Json answer = server.client.Read();
  EXPECT_EQ(answer["error"]["code"], GetParam().code) << DumpJson(answer);
  EXPECT_EQ(answer["id"], GetParam().id) << DumpJson(answer);
  EXPECT_FALSE(answer["error"]["message"].get<std::string>().empty());
  EXPECT_EQ(server.client.Ask(Request("after", "ping"))["result"], Json::object());
}

INSTANTIATE_TEST_SUITE_P(All, Malformed, testing::ValuesIn(BadMessages()),
                         [](const auto& each) { return each.param.name; });

TEST(Malformed, AllOfThemOnOneConnection) {
  TestServer server;
  server.Initialize();
  const std::vector<BadMessage> all = BadMessages();
  for (const BadMessage& bad : all) server.client.SendLine(bad.line);
  server.client.CloseInput();
  EXPECT_EQ(server.client.ReadAll().size(), all.size());
}

// What is no request gets no answer, however wrong it is.
TEST(Silent, NotificationsAndAnswers) {
  TestServer server;
  server.Initialize();
  for (
      const char* line : {
          R"({"jsonrpc":"2.0","method":"notifications/initialized"})",
          R"({"jsonrpc":"2.0","method":"notifications/unheard_of","params":{"a":1}})",
          R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}})",
          R"({"jsonrpc":"2.0","method":"notifications/cancelled"})",
          R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]})",
          R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}})",
          R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never seen"}})",
          R"({"jsonrpc":"2.0","id":99,"result":{}})",
          R"({"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}})",
          R"({"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}})",
          "",
          "   \t",
      }) {
    server.client.SendLine(line);
  }
  server.client.Send(Request("last", "ping"));
  EXPECT_EQ(server.client.Read()["id"], "last") << "nothing was answered before";
}

TEST(Framing, CrLfByteOrderMarkAndNoLastNewline) {
  TestServer server;
  server.client.SendRaw("\xef\xbb\xbf" + DumpJson(Request(1, "ping")) + "\r\n");
  EXPECT_EQ(server.client.Read()["id"], 1);
  server.client.SendRaw(DumpJson(Request(2, "ping")));
  server.client.CloseInput();
  EXPECT_EQ(server.client.Read()["id"], 2);
}

TEST(Framing, OneByteAtATime) {
  TestServer server;
  for (const char c : DumpJson(Request("slowly", "ping")) + "\n")
    server.client.SendRaw(std::string(1, c));
  EXPECT_EQ(server.client.Read()["id"], "slowly");
}

TEST(Framing, ALineThatIsTooLongIsSkippedWhole) {
  StdioServerOptions options;
  options.max_line_bytes = 1000;
  TestServer server(TestRegistry(), options);
  server.client.SendLine(std::string(5000, ' ') + DumpJson(Request(1, "ping")));
  Json answer = server.client.Read();
  EXPECT_EQ(answer["error"]["code"], -32600);
  EXPECT_EQ(answer["id"], nullptr);
  server.client.SendLine(std::string(900, ' ') + DumpJson(Request(2, "ping")));
  EXPECT_EQ(server.client.Read()["id"], 2);
}

TEST(Framing, MegabytesOfMessagePass) {
  TestServer server;
  server.Initialize();
  const std::string text(3'000'000, 'x');
  std::thread writer([&] {
    server.client.Send(
        Request(1, "tools/call", {{"name", "echo"}, {"arguments", {{"text", text}}}}));
  });
  EXPECT_EQ(server.client.Answer(1)["result"]["structuredContent"]["text"], text);
  writer.join();
}

TEST(Depth, TheLimitItselfPasses) {
  TestServer server;
  server.client.SendLine(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":)" +
                         Nested(62, "[", "]") + "}}");
  EXPECT_TRUE(server.client.Read().contains("result"));
}

}  // namespace
}  // namespace mpnanny
