// Candidates: what is known and what is not, their order, what silences them, and their pages.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/check/candidates/candidate_report.h"
#include "engines/check/candidates/hazards.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

constexpr char kHead[] =
    "import torch\n"
    "from torch import nn\n"
    "class M(nn.Module):\n"
    "    def forward(self, x, y, w):\n";
constexpr char kTail[] = "\ndef build(net):\n    return net.half()\n";

Report Judge(const std::string& body, const std::string& tail = kTail) {
  Options options;
  auto report = Check({{"m.py", kHead + body + tail}}, options, Rules(), {});
  EXPECT_TRUE(report);
  return report ? *std::move(report) : Report{};
}

// The rules of the candidates in the body's first line, which is the fifth of the file.
std::set<std::string> At(const Report& report, int line = 5) {
  std::set<std::string> rules;
  for (const Candidate& one : report.candidates) {
    if (one.line == line) rules.insert(one.rule);
  }
  return rules;
}

using Set = std::set<std::string>;

TEST(Candidates, AnUnknownTypeIsOneAndFp32IsNone) {
  EXPECT_EQ(At(Judge("        return torch.exp(x)\n")), Set{"exp-overflow-half"});
  EXPECT_EQ(At(Judge("        return torch.exp(x.float())\n")), Set{});
  EXPECT_EQ(At(Judge("        x = x.to(torch.float32)\n        return torch.exp(x)\n"), 6), Set{});
  EXPECT_EQ(At(Judge("        return torch.exp(x.to(y.dtype))\n")), Set{"exp-overflow-half"});
}

TEST(Candidates, NamesAreNoEvidence) {
  for (const std::string name : {"mask", "index", "eps", "fp32_logits", "labels"}) {
    const std::string code =
        "import torch\ndef f(" + name + "):\n    return torch.exp(" + name + ")\n" + kTail;
    Options options;
    const auto report = Check({{"m.py", code}}, options, Rules(), {});
    ASSERT_TRUE(report);
    EXPECT_EQ(At(*report, 3), Set{"exp-overflow-half"}) << name;
  }
}

TEST(Candidates, AutocastMakesItsFp32OperatorsSafe) {
  const std::string region =
      "        with torch.autocast('cuda', dtype=torch.float16):\n            return ";
  EXPECT_EQ(At(Judge(region + "torch.exp(x)\n"), 6), Set{});
  // Off, nothing casts.
  EXPECT_EQ(At(Judge("        with torch.autocast('cuda', enabled=False):\n            return "
                     "torch.exp(x)\n"),
               6),
            Set{"autocast-disabled-no-float"});
  // In a project that only uses autocast an FP32 operator is safe wherever it stands.
  const std::string train =
      "\ndef step(m, x):\n    with torch.autocast('cuda', dtype=torch.float16):\n        return "
      "m(x)\n";
  EXPECT_EQ(At(Judge("        return torch.exp(x)\n", train)), Set{});
  EXPECT_EQ(At(Judge("        return x.masked_fill(y, -1e9)\n", train)),
            Set{"mask-const-overflow"});
}

TEST(Candidates, WhatBf16HoldsIsNoneWhereOnlyBf16IsUsed) {
  const std::string train =
      "\ndef step(m, x):\n    with torch.autocast('cuda', dtype=torch.bfloat16):\n        return "
      "m(x)\n";
  EXPECT_EQ(At(Judge("        return x.masked_fill(y, -1e9)\n", train)), Set{});
}

TEST(Candidates, NothingWithoutTorchOrWithoutSixteenBits) {
  Options options;
  const std::string numpy =
      "import numpy as np\ndef f(x):\n    return np.exp(x) / np.sqrt(x)\nhalf = 'torch.float16'\n";
  const auto report = Check({{"n.py", numpy}}, options, Rules(), {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->candidates.empty());
  EXPECT_EQ(At(Judge("        return torch.exp(x)\n", "")), Set{});
}

TEST(Candidates, NumPyInATorchFileIsLeftOut) {
  EXPECT_EQ(At(Judge("        return np.asarray(x / y.sum())\n",
                     "\nimport numpy as np\ndef build(net):\n    return net.half()\n")),
            Set{});
}

TEST(Candidates, ACommentAndAChoiceOfRulesSilence) {
  EXPECT_EQ(At(Judge("        return torch.exp(x)  # mpnanny: ignore[exp-overflow-half]\n")),
            Set{});
  Options options;
  options.ignore = {"exp-overflow-half"};
  const auto report =
      Check({{"m.py", std::string(kHead) + "        return torch.exp(x)\n" + kTail}}, options,
            Rules(), {});
  ASSERT_TRUE(report);
  EXPECT_EQ(At(*report), Set{});
}

TEST(Candidates, AFindingTakesItsLine) {
  const std::string body = "        h = x.half()\n        return h.masked_fill(y > 0, -1e9)\n";
  const Report report = Judge(body);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(At(report, report.findings.front().line), Set{});
}

TEST(Candidates, TheWorstComesFirstAndACopiedFileOnce) {
  const std::string code = kHead +
                           std::string(
                               "        a = torch.softmax(x, -1)\n"
                               "        return torch.linalg.inv(y.half())\n") +
                           kTail;
  const auto report = Check({{"m.py", code}, {"copy/m.py", code}}, {}, Rules(), {});
  ASSERT_TRUE(report);
  ASSERT_GE(report->candidates.size(), 2u);
  EXPECT_EQ(report->candidates.front().rule, "no-half-kernel");
  std::set<std::string> paths;
  for (const Candidate& one : report->candidates) paths.insert(one.path);
  EXPECT_EQ(paths.size(), 1u);
}

TEST(Candidates, ItIsSaidWhereTheTrailEnds) {
  const Report report = Judge("        h = self.net(y)\n        return torch.exp(h)\n");
  ASSERT_EQ(At(report, 6), Set{"exp-overflow-half"});
  bool told = false;
  for (const Candidate& one : report.candidates) {
    for (const std::string& open : one.unknown)
      told = told || open == "the dtype of h, which comes from self.net(y) in line 5";
  }
  EXPECT_TRUE(told);
}

TEST(Candidates, ANotebookCellHasItsOwnLines) {
  Options options;
  const Json notebook = {
      {"nbformat", 4},
      {"metadata", Json::object()},
      {"cells",
       {{{"cell_type", "code"}, {"source", "import torch\n"}},
        {{"cell_type", "code"},
         {"source", "def f(x):\n    return torch.exp(x)\nnet = torch.nn.Linear(1, 1).half()\n"}}}}};
  const auto report = Check({{"a.ipynb", notebook.dump()}}, options, Rules(), {});
  ASSERT_TRUE(report);
  bool found = false;
  for (const Candidate& one : report->candidates)
    found = found || (one.path == "a.ipynb:cell 2" && one.line == 2);
  EXPECT_TRUE(found);
}

TEST(Candidates, PagesFitTheAnswerAndFollowOneAnother) {
  std::string body;
  for (int i = 0; i < 80; ++i) body += "        a = torch.exp(x * " + std::to_string(i + 2) + ")\n";
  const Report report = Judge(body);
  ASSERT_GE(report.candidates.size(), 80u);
  size_t first = 0;
  size_t pages = 0;
  std::set<int> lines;
  for (; pages < 80; ++pages) {
    const ToolOutput page = ShowCandidates(report, first, kAnswerBytes);
    EXPECT_LE(DumpJson(page.structured).size(), kAnswerBytes);
    EXPECT_LE(page.text.size(), kAnswerBytes);
    for (const Json& one : page.structured["candidates"]) lines.insert(one["line"].get<int>());
    const std::string cursor = page.structured.value("next_cursor", "");
    if (cursor.empty()) break;
    first = std::stoul(cursor.substr(1));
  }
  EXPECT_GT(pages, 1u);
  EXPECT_EQ(lines.size(), report.candidates.size());
}

// The table itself: every row has its page, and says something.
TEST(Candidates, EveryRowHasAPageAndAQuestion) {
  for (const Hazard& hazard : Hazards()) {
    EXPECT_NE(Rules().Find(hazard.rule), nullptr) << hazard.rule;
    EXPECT_FALSE(hazard.names.empty());
    EXPECT_FALSE(hazard.what.empty());
    EXPECT_TRUE(hazard.question.find('?') != std::string_view::npos ||
                hazard.question.find('.') != std::string_view::npos);
  }
}

}  // namespace
}  // namespace mpnanny::check
