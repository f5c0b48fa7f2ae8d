#include "tools/tool.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "engines/cases/case.h"
#include "engines/json_schema.h"
#include "tools/call.h"
#include "tools/search_knowledge/words.h"

namespace mpnanny {
namespace search_knowledge {
Tool MakeTool();
ResourceTemplate MakeResourceTemplate();
}  // namespace search_knowledge
namespace {

class SearchTool : public testing::Test {
 protected:
  Result<ToolOutput> Call(Json arguments, size_t bytes = kAnswerBytes) {
    ToolContext context{roots_, data_, {}, false, bytes, nullptr};
    auto output = CallTool(tool_, std::move(arguments), context);
    if (output) {
      const auto fits =
          ValidateAgainstSchema(tool_.definition.output_schema, output->structured, "result");
      EXPECT_TRUE(fits) << fits.error().Text();
      if (bytes == kAnswerBytes) {
        EXPECT_LE(DumpJson(output->structured).size(), kAnswerBytes);
        EXPECT_LE(output->text.size(), kAnswerBytes);
      }
    }
    return output;
  }

  std::string First(const Json& arguments) {
    const auto output = Call(arguments);
    EXPECT_TRUE(output) << arguments << ": " << (output ? "" : output.error().Text());
    if (!output || output->structured["results"].empty()) return "";
    return output->structured["results"][0]["id"];
  }

  AllowedRoots roots_ = AllowedRoots::Unrestricted();
  DataFiles data_ = *DataFiles::Create();
  Tool tool_ = search_knowledge::MakeTool();
};

TEST_F(SearchTool, AnswersInTheQuerysLanguage) {
  const auto english = Call({{"query", "T5 loss nan in fp16, feed-forward wo overflow"}});
  ASSERT_TRUE(english) << english.error().Text();
  const Json& result = english->structured["results"][0];
  EXPECT_EQ(result["id"], "t5-ffn-wo-fp16-overflow");
  EXPECT_EQ(result["category"], "nan-inf");
  EXPECT_EQ(result["uri"], "mpnanny://knowledge/t5-ffn-wo-fp16-overflow");
  EXPECT_NE(result["fix"].get<std::string>().find("BF16"), std::string::npos);
  EXPECT_NE(DumpJson(result["matched"]).find("\"wo\""), std::string::npos) << result["matched"];
  EXPECT_NE(english->text.find("t5-ffn-wo-fp16-overflow"), std::string::npos);

  const auto chinese = Call({{"query", "前馈层输出溢出，损失缩放一直减半"}});
  ASSERT_TRUE(chinese) << chinese.error().Text();
  const Json& zh = chinese->structured["results"][0];
  EXPECT_EQ(zh["id"], "t5-ffn-wo-fp16-overflow");
  EXPECT_NE(zh["title"].get<std::string>().find("前馈层"), std::string::npos);
  EXPECT_NE(DumpJson(zh["matched"]).find("损失缩放"), std::string::npos) << zh["matched"];
  EXPECT_NE(chinese->text.find("前馈层"), std::string::npos);
  EXPECT_TRUE(search_knowledge::HasChinese(zh["fix"].get<std::string>())) << zh["fix"];
  EXPECT_NE(chinese->text.find("修复："), std::string::npos);
}

TEST_F(SearchTool, TwoChineseCharactersFind) {
  EXPECT_NE(First({{"query", "溢出"}}), "");
  EXPECT_NE(First({{"query", "溢"}}), "");
  EXPECT_EQ(First({{"query", "断点续训"}}), "gradscaler-state-missing-in-checkpoint");
}

TEST_F(SearchTool, EveryCaseIsFoundByItsIdAndItsTitles) {
  const cases::CaseLibrary library = cases::CaseLibrary::Load(data_);
  for (const cases::Case& one : library.all()) {
    EXPECT_EQ(First({{"query", one.id}}), one.id);
    EXPECT_EQ(First({{"query", one.title}}), one.id);
    EXPECT_EQ(First({{"query", one.title_zh}}), one.id);
    EXPECT_EQ(First({{"query", one.symptom_zh}}), one.id);
    EXPECT_TRUE(search_knowledge::HasChinese(one.fix_zh))
        << one.id << " has no fix for Chinese readers";
  }
}

// Whatever people paste is a query and never SQL or FTS syntax.
TEST_F(SearchTool, AnyTextIsAQuery) {
  std::string large = "loss nan ";
  while (large.size() < 10'000) large += "overflow \"fp16\" AND (损失 ";
  const std::string queries[] = {"\"",
                                 "'",
                                 "loss \"nan",
                                 "a AND",
                                 "OR",
                                 "NEAR(loss, nan)",
                                 "NOT nan",
                                 "loss*",
                                 "zh: 溢出",
                                 "-nan",
                                 "^loss",
                                 "title:loss",
                                 "{title symptom}: x",
                                 "(((",
                                 "x; DROP TABLE cases; --",
                                 "%_",
                                 "\xff\xfe loss",
                                 "\xe6\xba",
                                 std::string("a\0b", 3),
                                 "的 是 了",
                                 "the of and",
                                 "  ",
                                 "\n\n",
                                 "🙂",
                                 "loss became nan 损失变成nan",
                                 large,
                                 std::string(90'000, 'x'),
                                 std::string(3000, '(')};
  for (const std::string& query : queries) {
    const auto output = Call({{"query", query}});
    EXPECT_TRUE(output) << EscapeControl(query, 60) << ": " << output.error().Text();
  }
  EXPECT_EQ(First({{"query", "is it \"Attempting to unscale FP16 gradients.\"?"}}),
            "half-params-attempting-to-unscale");
}

TEST_F(SearchTool, FiltersNarrow) {
  const auto check = [&](const Json& filter, auto fits) {
    Json arguments = filter;
    arguments["limit"] = 50;
    const auto output = Call(arguments, SIZE_MAX);
    ASSERT_TRUE(output) << output.error().Text();
    const cases::CaseLibrary library = cases::CaseLibrary::Load(data_);
    size_t expected = 0;
    for (const cases::Case& one : library.all()) expected += fits(one);
    EXPECT_GT(expected, 0u) << filter;
    EXPECT_EQ(output->structured["total"], expected) << filter;
    for (const Json& result : output->structured["results"]) {
      EXPECT_TRUE(fits(*library.Find(result["id"].get<std::string>()))) << filter << result["id"];
    }
  };
  check({{"category", "not-precision"}},
        [](const cases::Case& one) { return one.category == "not-precision"; });
  check({{"severity", "warning"}}, [](const cases::Case& one) { return one.severity == "P1"; });
  check({{"kind", "concept"}}, [](const cases::Case& one) { return one.kind == "concept"; });
  check({{"alert", "STALE_UPDATE"}}, [](const cases::Case& one) {
    return std::any_of(one.signals.begin(), one.signals.end(), [](const cases::Signal& signal) {
      return signal.kind == cases::Signal::Kind::kAlert && signal.name == "STALE_UPDATE";
    });
  });
  EXPECT_EQ(First({{"query", "nan"}, {"precision", "bf16"}, {"rule", "clamp-bound-rounds-to-one"}}),
            "clamp-one-minus-eps-noop");
}

TEST_F(SearchTool, AnAlertTypeFindsWhatItSpeaksFor) {
  EXPECT_EQ(First({{"alert", "STALE_UPDATE"}}), "bf16-weights-update-below-half-ulp");
  EXPECT_EQ(First({{"query", "LOSS_SCALE_DECLINE"}}), "loss-scale-decline-with-intermittent-nan");
  EXPECT_EQ(First({{"query", "rule clip-before-unscale"}}), "clip-before-unscale");
}

TEST_F(SearchTool, NothingFoundSaysWhatWasSearchedAndWhatToTry) {
  const auto output = Call({{"query", "zzqqxx"}});
  ASSERT_TRUE(output);
  EXPECT_TRUE(output->structured["results"].empty());
  const std::string note = output->structured["note"];
  EXPECT_NE(note.find("zzqqxx"), std::string::npos);
  EXPECT_NE(note.find("nan-inf"), std::string::npos);
  EXPECT_EQ(output->text, note + "\n");

  const auto filtered = Call({{"query", "clip_grad_norm_ unscale_"}, {"rule", "no-such-rule"}});
  ASSERT_TRUE(filtered);
  EXPECT_TRUE(filtered->structured["results"].empty());
  EXPECT_NE(filtered->text.find("Without the filters"), std::string::npos) << filtered->text;
  EXPECT_NE(filtered->text.find("no-such-rule"), std::string::npos);
}

TEST_F(SearchTool, PagesCoverEverythingOnce) {
  std::vector<std::string> seen;
  Json arguments = {{"category", "nan-inf"}, {"limit", 4}};
  size_t total = 0;
  for (int page = 0; page < 20; ++page) {
    const auto output = Call(arguments);
    ASSERT_TRUE(output) << output.error().Text();
    total = output->structured["total"];
    for (const Json& result : output->structured["results"]) seen.push_back(result["id"]);
    if (!output->structured.contains("next_cursor")) break;
    arguments["cursor"] = output->structured["next_cursor"];
  }
  EXPECT_EQ(seen.size(), total);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST_F(SearchTool, TheCommandLineGetsFiveOrAsManyAsItAsksFor) {
  const auto five = Call({{"category", "nan-inf"}}, SIZE_MAX);
  ASSERT_TRUE(five);
  EXPECT_EQ(five->structured["results"].size(), 5u);
  EXPECT_GT(five->structured["total"], 5);
  EXPECT_FALSE(five->structured.contains("next_cursor"));
  const auto two = Call({{"category", "nan-inf"}, {"limit", 2}}, SIZE_MAX);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->structured["results"].size(), 2u);
  const auto all = Call({{"category", "not-precision"}, {"limit", 50}}, SIZE_MAX);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->structured["results"].size(), all->structured["total"]);
}

TEST_F(SearchTool, OnlyTheFirstHitSaysHowToConfirm) {
  const auto output = Call({{"query", "ema weights in bf16 never change"}});
  ASSERT_TRUE(output);
  const Json& results = output->structured["results"];
  ASSERT_GT(results.size(), 1u);
  EXPECT_FALSE(results[0]["confirm"].get<std::string>().empty());
  EXPECT_FALSE(results[1].contains("confirm"));
  EXPECT_NE(output->text.find("Confirm: "), std::string::npos);
}

TEST_F(SearchTool, AnIdReadsTheCaseWholeOrByPart) {
  const auto whole = Call({{"id", "clip-before-unscale"}});
  ASSERT_TRUE(whole) << whole.error().Text();
  const std::string page = whole->structured["case"]["text"];
  for (const char* part : {"## Mechanism", "## How to confirm", "## Fix", "## Evidence"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  for (const char* part : {"symptom", "mechanism", "confirm", "fix", "code", "evidence",
                           "reproduction"}) {
    const auto one = Call({{"id", "clip-before-unscale"}, {"part", part}});
    ASSERT_TRUE(one) << part;
    EXPECT_EQ(one->structured["case"]["part"], part);
    EXPECT_LT(one->text.size(), page.size()) << part;
    EXPECT_EQ(one->text, one->structured["case"]["text"]) << part;
  }
  EXPECT_NE(Call({{"id", "clip-before-unscale"}, {"part", "reproduction"}})
                ->text.find("def broken()"),
            std::string::npos);
  // A page that is longer than an answer says so, and every case has parts that fit.
  const cases::CaseLibrary library = cases::CaseLibrary::Load(data_);
  for (const cases::Case& one : library.all()) {
    EXPECT_TRUE(Call({{"id", one.id}})) << one.id;
    EXPECT_TRUE(Call({{"id", one.id}, {"part", "fix"}})) << one.id;
  }
}

TEST_F(SearchTool, AWrongIdOrPartSaysWhatThereIs) {
  const auto wrong = Call({{"id", "clip-befor-unscale"}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().Text().find("clip-before-unscale"), std::string::npos);
  EXPECT_FALSE(Call({{"id", "clip-before-unscale"}, {"part", "fixes"}}));
  const auto none = Call({{"id", "gtx16xx-half-conv-nan"}, {"part", "reproduction"}});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().Text().find("confirm"), std::string::npos) << none.error().Text();
}

TEST_F(SearchTool, WhatNoCaseIsAboutIsSaid) {
  const auto output = Call({{"query", "how do I centre a div with flexbox in css"}});
  ASSERT_TRUE(output);
  EXPECT_EQ(output->structured["total"], 0);
  EXPECT_LE(output->structured["results"].size(), 2u);
  EXPECT_NE(output->text.find("is about"), std::string::npos) << output->text;
  for (const Json& result : output->structured["results"]) EXPECT_FALSE(result.contains("confirm"));

  const auto unknown = Call({{"query", "loss is nan with zorblax16 weights in fp16"}});
  ASSERT_TRUE(unknown);
  EXPECT_GT(unknown->structured["total"], 0);
  EXPECT_EQ(unknown->structured["unknown"], Json::array({"zorblax16"}));
  EXPECT_NE(unknown->text.find("zorblax16"), std::string::npos);
}

TEST_F(SearchTool, DetailWidens) {
  const auto full = Call({{"query", "t5-ffn-wo-fp16-overflow"}, {"detail", "full"}, {"limit", 1}});
  const auto normal = Call({{"query", "t5-ffn-wo-fp16-overflow"}, {"limit", 1}});
  ASSERT_TRUE(full && normal);
  EXPECT_GE(full->structured["results"][0]["fix"].get<std::string>().size(),
            normal->structured["results"][0]["fix"].get<std::string>().size());
  EXPECT_EQ(full->structured["results"][0]["fix"].get<std::string>().find("…"), std::string::npos);
}

TEST_F(SearchTool, WrongArgumentsSayWhatIsAllowed) {
  for (const auto& [arguments, says] : std::vector<std::pair<Json, std::string>>{
           {Json::object(), "query"},
           {{{"query", ""}}, "filter"},
           {{{"query", "x"}, {"category", "nope"}}, "category"},
           {{{"query", "x"}, {"cursor", "abc"}}, "cursor"},
           {{{"query", "x"}, {"limit", 0}}, "limit"},
           {{{"querry", "x"}}, "query"},
           {{{"query", std::string(200'000, 'x')}}, "bytes"}}) {
    const auto output = Call(arguments);
    ASSERT_FALSE(output) << arguments;
    EXPECT_EQ(output.error().kind, ErrorKind::kInvalidInput);
    EXPECT_NE(output.error().Text().find(says), std::string::npos) << output.error().Text();
  }
}

TEST_F(SearchTool, ResourceListsAndReads) {
  const ResourceTemplate resource = search_knowledge::MakeResourceTemplate();
  const ToolContext context{roots_, data_, {}, false, kAnswerBytes, nullptr};
  const auto entries = resource.list(context);
  EXPECT_EQ(entries.size(), cases::CaseLibrary::Load(data_).all().size());
  for (const auto& entry : entries) {
    const auto page = resource.read(entry.value, context);
    ASSERT_TRUE(page) << entry.value;
    EXPECT_NE(page->find("## Mechanism"), std::string::npos) << entry.value;
  }
  const auto page = resource.read("clip-before-unscale", context);
  ASSERT_TRUE(page);
  EXPECT_NE(page->find("def broken()"), std::string::npos);  // the reproduction comes along

  const auto missing = resource.read("clip-befor-unscale", context);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(missing.error().Text().find("clip-before-unscale"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny
