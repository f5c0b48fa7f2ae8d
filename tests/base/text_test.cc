#include "base/text.h"

#include <gtest/gtest.h>

#include "base/layer_word.h"

namespace mpnanny {
namespace {

TEST(EscapeControl, KeepsPlainTextAndEscapesWhatIsNotSeen) {
  EXPECT_EQ(EscapeControl("softmax 溢出"), "softmax 溢出");
  EXPECT_EQ(EscapeControl("a\x1b[31mb\nc"), "a\\u{1b}[31mb\\nc");
  EXPECT_EQ(EscapeControl("x\xE2\x80\xAEy"), "x\\u{202e}y");    // right-to-left override
  EXPECT_EQ(EscapeControl("\xff\xc0\x80"), "\\xff\\xc0\\x80");  // not UTF-8, and an overlong form
  EXPECT_EQ(EscapeControl("a\nb", 100, true), "a\nb");
}

TEST(EscapeControl, CutsAtACharactersBorder) { EXPECT_EQ(EscapeControl("溢出溢出", 7), "溢出…"); }

TEST(IsUtf8, RefusesSurrogatesOverlongFormsAndTruncation) {
  EXPECT_TRUE(IsUtf8("é溢😀"));
  EXPECT_FALSE(IsUtf8("\xED\xA0\x80"));
  EXPECT_FALSE(IsUtf8("\xE0\x80\x80"));
  EXPECT_FALSE(IsUtf8("\xE6\xBA"));
  EXPECT_FALSE(IsUtf8("\xF5\x80\x80\x80"));
}

TEST(LowerCase, TouchesNothingBeyondTheLatinLetters) {
  EXPECT_EQ(LowerCase("AZaz@[09-É溢\xff"), "azaz@[09-É溢\xff");
}

TEST(NearestNames, OffersOnlyWhatIsNear) {
  const std::vector<std::string> names = {"severity", "step", "layers", "cursor"};
  EXPECT_EQ(NearestNames("severty", names), std::vector<std::string>{"severity"});
  EXPECT_EQ(DidYouMean("layer", names), "Did you mean 'layers'?");
  EXPECT_EQ(DidYouMean("zzzzzz", names), "");
}

TEST(NoSuchName, OffersWhatIsNearOrAllIfTheyAreFew) {
  EXPECT_EQ(NoSuchName("rule", "ab", {"abc", "xyz"}).Text(),
            "There is no rule 'ab'. Did you mean 'abc'?");
  EXPECT_EQ(NoSuchName("rule", "q\n", {"abcdef", "uvwxyz"}).Text(),
            "There is no rule 'q\\n'. There are abcdef, uvwxyz.");
  EXPECT_EQ(NoSuchName("rule", "q", std::vector<std::string>(100, "abcdefg")).Text(),
            "There is no rule 'q'.");
}

TEST(ShellQuote, LeavesPlainWordsAndQuotesTheRest) {
  EXPECT_EQ(ShellQuote("/opt/mp-nanny_1.2/bin"), "/opt/mp-nanny_1.2/bin");
  EXPECT_EQ(ShellQuote("BatchMode=yes"), "BatchMode=yes");
  EXPECT_EQ(ShellQuote("=ls"), "'=ls'");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("my code"), "'my code'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellCommand({"a", "b c", "$d"}), "a 'b c' '$d'");
}

TEST(MatchesGlob, Stars) {
  EXPECT_TRUE(MatchesGlob("blocks.*.attn", "blocks.12.attn"));
  EXPECT_TRUE(MatchesGlob("*", ""));
  EXPECT_TRUE(MatchesGlob("a?c*", "abc"));
  EXPECT_FALSE(MatchesGlob("blocks.*.attn", "blocks.12.mlp"));
  EXPECT_FALSE(MatchesGlob("a", "ab"));
  EXPECT_FALSE(MatchesGlob(std::string(40, '*') + "b", std::string(10000, 'a')));
}

TEST(Text, ALayerThatIsCalledByANumberIsSeenToBeAName) {
  EXPECT_EQ(LayerWord("0"), "layer \"0\"");
  EXPECT_EQ(LayerWord("2.1"), "layer \"2.1\"");
  EXPECT_EQ(LayerWord("0.weight"), "\"0.weight\"");
  EXPECT_EQ(LayerWord("blocks.0.ffn"), "blocks.0.ffn");
  EXPECT_EQ(LayerWord(""), "");
}

}  // namespace
}  // namespace mpnanny
