// Edits of clients' files, as texts: what is put in, what is taken out, and that nothing else
// moves.
#include "server/client_file/client_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace mpnanny {
namespace {

const FileFormat kLenient = FileFormat::kLenientJson;
const FileFormat kToml = FileFormat::kToml;

Json BlockOf(const std::string& key, const Json& entry) { return {{key, {{"mpnanny", entry}}}}; }
Json Block(const std::string& key = "s") {
  return BlockOf(key, {{"command", "/m"}, {"args", {"serve"}}});
}

std::string With(FileFormat format, const std::string& text, const Json& block) {
  const auto edited = WithBlock(format, text, block);
  EXPECT_TRUE(edited) << edited.error().Text() << "\n" << text;
  return edited ? *edited : "";
}

std::string Without(FileFormat format, const std::string& text, bool with_key = false) {
  const auto edited = WithoutBlock(format, text, "s", with_key);
  EXPECT_TRUE(edited) << edited.error().Text() << "\n" << text;
  return edited ? *edited : "";
}

TEST(ClientFile, WritesAsTheNeighboursDo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"",
       "{\n  \"s\": {\n    \"mpnanny\": {\n      \"command\": \"/m\",\n      \"args\": [\n        "
       "\"serve\"\n      ]\n    }\n  }\n}\n"},
      {"{}",
       "{\n  \"s\": {\n    \"mpnanny\": {\n      \"command\": \"/m\",\n      \"args\": [\n        "
       "\"serve\"\n      ]\n    }\n  }\n}"},
      // A minified file stays on its line.
      {R"({"a":1,"s":{"b":{"x":[1]}}})",
       R"({"a":1,"s":{"b":{"x":[1]},"mpnanny":{"command":"/m","args":["serve"]}}})"},
      {R"({"a": 1})", R"({"a": 1, "s": {"mpnanny": {"command": "/m", "args": ["serve"]}}})"},
      // Tabs, CR LF, a byte order mark.
      {"\xEF\xBB\xBF{\r\n\t\"s\": {}\r\n}\r\n",
       "\xEF\xBB\xBF{\r\n\t\"s\": {\r\n\t\t\"mpnanny\": {\r\n\t\t\t\"command\": \"/m\",\r\n\t\t\t"
       "\"args\": [\r\n\t\t\t\t\"serve\"\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}\r\n"},
      // A comma where there are commas, and behind the comment of the last one.
      {"{\n    \"s\": {\n        \"a\": {}, // its comment\n    },\n}\n",
       "{\n    \"s\": {\n        \"a\": {}, // its comment\n        \"mpnanny\": {\n            "
       "\"command\": \"/m\",\n            \"args\": [\n                \"serve\"\n            ]\n  "
       "      },\n    },\n}\n"},
      {"{\n  \"s\": {\n    \"a\": {} // its comment\n  }\n}\n",
       "{\n  \"s\": {\n    \"a\": {}, // its comment\n    \"mpnanny\": {\n      \"command\": "
       "\"/m\",\n      \"args\": [\n        \"serve\"\n      ]\n    }\n  }\n}\n"},
  };
  for (const auto& [before, after] : cases) {
    EXPECT_EQ(With(kLenient, before, Block()), after) << before;
  }
}

TEST(ClientFile, WhatIsPutInAndTakenOutLeavesEveryByte) {
  for (const std::string text : {
           "{\"s\": {\"a\": {}}}",
           "{\n  \"s\": {\n    \"a\": {}, // c\n    /* d */\n  },\n  \"t\": [1, 2,],\n}\n",
           "{\n  \"s\": {\n    \"a\": {} // c\n    // \"b\": {}\n  }\n}\n",
           "// only {braces} in a comment\n{\r\n\t\"s\" : {\r\n\t\t\"\\u0073\": "
           "\"\\\"}\"\r\n\t}\r\n}",
           "{ \"s\": {\n \"a\": 1 } }",
           "{\n\"s\": {\n\"a\": {}\n}\n}",
           "{\"s\": {\"a\": 1, \"z\": {\"mpnanny\": 1}}, \"mpnanny\": {}}",
       }) {
    const std::string with = With(kLenient, text, Block());
    EXPECT_NE(with, text);
    EXPECT_EQ(With(kLenient, with, Block()), with) << "twice is once";
    EXPECT_EQ(Without(kLenient, with), text);
  }
  for (const std::string text : {
           "x = 1\n",
           "[s.a]\ncommand = \"y\" # c\nargs = [\n  \"[s.b]\",\n]\n",
           "s.a.command = 'x'\n[t]\nz = '''\n[s.mpnanny]\n'''\n",
           "\xEF\xBB\xBFx = 1\r\n\r\n[s]\r\n[s.a]\r\nd = 2020-01-01\r\nn = inf\r\n",
       }) {
    const std::string with = With(kToml, text, Block());
    EXPECT_NE(with.find("[s.mpnanny]"), std::string::npos) << with;
    EXPECT_EQ(With(kToml, with, Block()), with) << "twice is once";
    EXPECT_EQ(Without(kToml, with), text);
  }
}

TEST(ClientFile, AnEntryInTheMiddleGoesAloneAndTheKeyOnlyIfAsked) {
  EXPECT_EQ(
      Without(kLenient, "{\n  \"s\": {\n    \"mpnanny\": {}, // ours\n    \"b\": 1 // b\n  }\n}"),
      "{\n  \"s\": { // ours\n    \"b\": 1 // b\n  }\n}");
  EXPECT_EQ(Without(kLenient, "{\n  \"a\": 1,\n  \"s\": {\n    \"mpnanny\": {}\n  }\n}"),
            "{\n  \"a\": 1,\n  \"s\": {}\n}");
  EXPECT_EQ(Without(kLenient, "{\n  \"a\": 1,\n  \"s\": {\n    \"mpnanny\": {}\n  }\n}", true),
            "{\n  \"a\": 1\n}");
  EXPECT_EQ(Without(kToml,
                    "a = 1\n\n[s.mpnanny]\ncommand = \"x\"\n[s.mpnanny.env]\nA = \"b\"\n\n# of "
                    "t\n[t]\nb = 2\n"),
            "a = 1\n\n# of t\n[t]\nb = 2\n");
}

TEST(ClientFile, AnUpdateChangesOurFieldsAndKeepsTheUsersOwn) {
  const std::string text =
      "{\n  \"s\": {\n    \"mpnanny\": {\n      \"disabled\": false, // mine\n      \"command\": "
      "\"/old\",\n      \"args\": [\"serve\", \"--root\", \"/x\"],\n      \"env\": {\"A\": "
      "\"b\"}\n    "
      "}\n  }\n}\n";
  EXPECT_EQ(
      With(kLenient, text, Block()),
      "{\n  \"s\": {\n    \"mpnanny\": {\n      \"disabled\": false, // mine\n      "
      "\"command\": \"/m\",\n      \"args\": [\"serve\"],\n      \"env\": {\"A\": \"b\"}\n    }\n "
      " }\n}\n");
  const Json url = BlockOf("s", {{"url", "http://h/mcp"}});
  const std::string over_http = With(kLenient, text, url);
  EXPECT_EQ(over_http.find("command"), std::string::npos) << over_http;
  EXPECT_NE(over_http.find("// mine"), std::string::npos) << over_http;
  EXPECT_EQ((*BlockIn(kLenient, over_http, "s"))["s"]["mpnanny"],
            Json({{"disabled", false}, {"env", {{"A", "b"}}}, {"url", "http://h/mcp"}}));

  const std::string toml =
      "[s.mpnanny] # mine\ncommand = \"/old\" # c\nargs = [\n  \"a\",\n]\nstartup_timeout_sec = "
      "20\n\n"
      "[s.mpnanny.env]\nA = \"b\"\n";
  EXPECT_EQ(With(kToml, toml, Block()),
            "[s.mpnanny] # mine\ncommand = \"/m\" # c\nargs = [\"serve\"]\nstartup_timeout_sec = "
            "20\n\n[s.mpnanny.env]\nA = \"b\"\n");
  EXPECT_EQ(
      With(kToml, toml, url),
      "[s.mpnanny] # mine\nstartup_timeout_sec = 20\nurl = \"http://h/mcp\"\n\n[s.mpnanny.env]"
      "\nA = \"b\"\n");
}

TEST(ClientFile, ATableInTheTableIsNotTheTable) {
  const std::string text = "[s.mpnanny.env]\nA = \"b\"\n";
  EXPECT_EQ(With(kToml, text, Block()),
            text + "\n[s.mpnanny]\ncommand = \"/m\"\nargs = [\"serve\"]\n");
}

TEST(ClientFile, ATokenOfTheBridgeGoesWithIt) {
  const Json bridge = BlockOf(
      "s", {{"command", "npx"}, {"args", {"x"}}, {"env", {{"AUTH_HEADER", "Bearer secret"}}}});
  const std::string text = With(kLenient, "{}", bridge);
  EXPECT_EQ(With(kLenient, text, Block()).find("secret"), std::string::npos);
}

TEST(ClientFile, AnInputJoinsTheOthersOnceAndGoes) {
  const Json input = {{"id", "mpnanny-token"}, {"type", "promptString"}};
  Json block = {{"inputs", Json::array({input})}};
  block.update(Block());
  const std::string others =
      "{\n  \"inputs\": [\n    {\"id\": \"other\"}\n  ],\n  \"s\": {\n    \"a\": {}\n  }\n}\n";
  const std::string with = With(kLenient, others, block);
  const Json inputs = (*ParseJson(with))["inputs"];
  ASSERT_EQ(inputs.size(), 2u) << with;
  EXPECT_EQ(inputs[1], input);
  EXPECT_EQ(With(kLenient, with, block), with);
  EXPECT_EQ(Without(kLenient, with), others);
  EXPECT_EQ(Without(kLenient, With(kLenient, "{\n  \"x\": 1\n}\n", block), true),
            "{\n  \"x\": 1\n}\n");
}

TEST(ClientFile, TomlCarriesEveryText) {
  const std::string odd = "a \"b\" \\ 'c' $HOME \x7f 数\t{x}";
  const Json block =
      BlockOf("s", {{"command", odd}, {"args", {odd, ""}}, {"http_headers", {{"A b", odd}}}});
  const std::string text = With(kToml, "", block);
  EXPECT_EQ(*BlockIn(kToml, text, "s"), block) << text;
}

TEST(ClientFile, ABrokenFileIsRefusedWithItsLine) {
  const std::vector<std::tuple<FileFormat, std::string, std::string>> cases = {
      {kLenient, "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3: a comma is missing"},
      {kLenient, "{\n  \"a\": tru\n}", "line 2: 'tru' is no JSON value"},
      {kLenient, "{\n  \"a\": \"x\n}", "line 2: a text that does not end"},
      {kLenient, "{\n  \"a\": {\n", "line 3: the text ends"},
      {kLenient, "{\n  'a': 1\n}", "line 2: a name in double quotes"},
      {kLenient, "{} x", "line 1: there is more"},
      {kLenient, "{ /* x", "line 1: a comment that does not end"},
      {kLenient, "{\"a\": \"\\", "a text that does not end"},
      {kLenient, "{\"a\": }", "a value is expected"},
      {kLenient, std::string(5000, '['), "nested too deeply"},
      {kLenient, "[1]", "the file is no object"},
      {kLenient, "{\n\"s\": [1]}", "line 2: \"s\" is no object"},
      {kLenient, "{\"s\": {},\n\"s\": {}}", "line 2: \"s\" is there twice"},
      {FileFormat::kJson, "{\n  // x\n}", "line 2: a comment, which this client does not read"},
      {FileFormat::kJson, "{\n  \"a\": 1,\n}", "line 2: a comma behind the last value"},
      {kToml, "a = 1\nb = \n", "line 2:"},
      {kToml, "s = { a = { command = \"x\" } }\n", "line 1: s is not written as [s.mpnanny]"},
      {kToml, "[s]\nmpnanny = { command = \"x\" }\n", "line 2: s.mpnanny is not written as"},
      {kToml, "s.mpnanny.command = \"x\"\n", "line 1: s.mpnanny is not written as"},
  };
  for (const auto& [format, text, told] : cases) {
    const auto edited = WithBlock(format, text, Block());
    ASSERT_FALSE(edited) << text << "\n" << *edited;
    EXPECT_NE(edited.error().Text().find(told), std::string::npos) << edited.error().Text();
  }
}

// Whatever lies in the file: refused, or changed so that it can be read and changed back.
TEST(ClientFile, NoTextBreaksIt) {
  const std::vector<std::pair<FileFormat, std::string>> seeds = {
      {kLenient,
       "// c\n{\n\t\"s\": {\n\t\t\"mpnanny\": {\"command\": \"x\", \"args\": []}, /* d */\n\t},\n"
       "\t\"inputs\": [{\"id\": \"mpnanny-token\"}],\n}\n"},
      {kToml,
       "a = 1\n[s.a]\nb = [ \"c\", ]\n[s.mpnanny]\ncommand = 'x' # d\n[s.mpnanny.env]\ne = "
       "\"f\"\n[[t]]\nu = '''\n'''\n"},
  };
  const std::string letters = "{}[]\",:/*\\ \n\r=#'.as1\xEF\xBB\xBF";
  uint64_t random = 1;
  const auto next = [&random](size_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((random >> 33) % below);
  };
  int changed = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto& [format, seed] = seeds[next(2)];
    std::string text = seed;
    for (size_t edits = 1 + next(4); edits > 0; --edits) {
      const size_t at = next(text.size());
      if (next(2) == 0) text.erase(at, 1 + next(8));
      if (next(2) == 0) text.insert(std::min(at, text.size()), 1, letters[next(letters.size())]);
      if (text.empty()) text = "{}";
    }
    const auto with = WithBlock(format, text, Block());
    if (!with) continue;
    ++changed;
    const auto block = BlockIn(format, *with, "s");
    ASSERT_TRUE(block) << text << "\n--\n" << *with;
    ASSERT_EQ((*block)["s"]["mpnanny"]["command"], "/m") << text << "\n--\n" << *with;
    const auto without = WithoutBlock(format, *with, "s", false);
    ASSERT_TRUE(without) << without.error().Text() << "\n" << *with;
    const auto none = BlockIn(format, *without, "s");
    ASSERT_TRUE(none) << *without;
    ASSERT_TRUE(none->empty()) << *without;
  }
  EXPECT_GT(changed, 1000);
}

}  // namespace
}  // namespace mpnanny
