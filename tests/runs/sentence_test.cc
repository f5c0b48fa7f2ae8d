// Sentences in English and in Chinese. (What makes two forms a pair is checked when they are
// compiled.)
#include "engines/runs/sentence.h"

#include <gtest/gtest.h>

namespace mpnanny::runs {
namespace {

std::string Chinese(const Sentence& sentence) { return sentence.In(Language::kChinese); }

TEST(SentenceTest, CountsHaveTheirNouns) {
  const auto say = [](int64_t steps, int64_t losses) {
    return Sentence(Form("{0:step}, {1:loss|losses}", "{0} 步，{1} 个损失"), {steps, losses});
  };
  EXPECT_EQ(say(1, 1).English(), "1 step, 1 loss");
  EXPECT_EQ(say(2, 0).English(), "2 steps, 0 losses");
  EXPECT_EQ(Chinese(say(2, 0)), "2 步，0 个损失");
}

TEST(SentenceTest, WhatHasNoChineseFormStaysEnglish) {
  const Sentence quoted("the loss is NaN");
  EXPECT_EQ(Chinese(quoted), "the loss is NaN");
  EXPECT_EQ(Chinese({Form("It says: {0}", "原文：{0}"), {quoted}}), "原文：the loss is NaN");
  EXPECT_EQ(Chinese(Sentence::InEach("the weight", "")), "the weight");
}

TEST(SentenceTest, ChineseIsTypesetWhereItsPartsMeet) {
  const Form made("{0} in {1}", "{1}中出现{0}");
  const Form loss("the loss", "损失"), beyond("too large a value", "过大的值");
  EXPECT_EQ(Chinese({made, {"NaN", "head.weight"}}), "head.weight 中出现 NaN");
  EXPECT_EQ(Chinese({made, {"NaN", loss}}), "损失中出现 NaN");
  EXPECT_EQ(Chinese({Form("{0} in {1}", "{1} 中出现 {0}"), {beyond, loss}}), "损失中出现过大的值");
  const Sentence placed(Form("{0} ({1})", "{0}（{1}）"), {"fc", 3});
  EXPECT_EQ(Chinese({Form("{0} holds it", "{0} 含有它"), {placed}}), "fc（3）含有它");
}

TEST(SentenceTest, SentencesFollowEachOther) {
  Sentence text = Form("It broke.", "已崩溃。");
  text += Form("It did not recover.", "没有恢复。");
  text += Sentence();
  EXPECT_EQ(text.English(), "It broke. It did not recover.");
  EXPECT_EQ(Chinese(text), "已崩溃。没有恢复。");
  EXPECT_TRUE(Sentence().empty());
  Sentence nothing;
  nothing += Sentence("");
  EXPECT_TRUE(nothing.empty());
}

TEST(SentenceTest, ListsAreJoinedInEach) {
  const Sentence loss(Form("the loss", "损失")), weight(Form("a weight", "权重"));
  EXPECT_EQ(Sentence::List({loss}).English(), "the loss");
  EXPECT_EQ(Sentence::List({loss, weight}).English(), "the loss and a weight");
  EXPECT_EQ(Sentence::List({"a", loss, weight}).English(), "a, the loss and a weight");
  EXPECT_EQ(Chinese(Sentence::List({"a", loss, weight})), "a、损失和权重");
  EXPECT_EQ(Chinese(Sentence::List({"a", "b"})), "a 和 b");
}

TEST(SentenceTest, ATitleHasNoStopAndABeginningACapital) {
  const Sentence whole(Form("compute it in FP32.", "用 FP32 计算。"));
  EXPECT_EQ(Sentence(whole).Bare().English(), "compute it in FP32");
  EXPECT_EQ(Chinese(Sentence(whole).Bare()), "用 FP32 计算");
  EXPECT_EQ(Sentence(whole).Capital().English(), "Compute it in FP32.");
}

}  // namespace
}  // namespace mpnanny::runs
