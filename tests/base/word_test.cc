#include "base/word.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/run_words.h"

namespace mpnanny {
namespace {

// Every name of a vocabulary leads to its value and back; no two values share one.
template <typename E>
void ExpectNamed(E last) {
  std::set<std::string> names;
  const auto count = static_cast<size_t>(last) + 1;
  ASSERT_EQ(std::size(Vocabulary<E>::kNames), count);
  for (size_t i = 0; i < count; ++i) {
    const E value = static_cast<E>(i);
    EXPECT_EQ(FindNamed<E>(NameOf(value)), value) << NameOf(value);
    EXPECT_TRUE(names.insert(NameOf(value)).second) << NameOf(value);
  }
}

TEST(Vocabulary, NamesAndValuesAreOneToOne) {
  ExpectNamed(Phase::kState);
  ExpectNamed(Severity::kInfo);
  ExpectNamed(AlertType::kProtocol);
  ExpectNamed(FindingKind::kNotReproduced);
  ExpectNamed(Proof::kNotTested);
  ExpectNamed(Precision::kMixed);
  ExpectNamed(CarrierKind::kUnwritten);
  ExpectNamed(EndReason::kSignal);
}

// The tables stand beside the enums: a word that was put in at one place only would shift them.
TEST(Vocabulary, TheNamesAreThoseOfTheSchema) {
  EXPECT_STREQ(NameOf(Phase::kData), "data");
  EXPECT_STREQ(NameOf(Phase::kOptimizer), "optimizer");
  EXPECT_STREQ(NameOf(Severity::kWarning), "WARNING");
  EXPECT_STREQ(NameOf(AlertType::kLossScaleCollapse), "LOSS_SCALE_COLLAPSE");
  EXPECT_STREQ(NameOf(AlertType::kShadowDiverged), "SHADOW_DIVERGED");
  EXPECT_STREQ(NameOf(FindingKind::kClipped), "clipped");
  EXPECT_STREQ(NameOf(FindingKind::kNoGradient), "no_gradient");
  EXPECT_STREQ(NameOf(FindingKind::kDroppedGradient), "dropped_gradient");
  EXPECT_STREQ(NameOf(Proof::kExcluded), "excluded");
  EXPECT_STREQ(NameOf(Precision::kFp8), "fp8");
}

TEST(Word, IsAValueWhereItIsKnown) {
  const Word<Phase> word(std::string("backward"));
  EXPECT_EQ(word, Phase::kBackward);
  EXPECT_NE(word, Phase::kForward);
  EXPECT_EQ(word.value(), Phase::kBackward);
  EXPECT_EQ(word.text(), "backward");
  EXPECT_FALSE(word.empty());
  EXPECT_EQ(word, Word<Phase>(Phase::kBackward));
}

TEST(Word, KeepsTheTextOfALaterVersion) {
  const Word<FindingKind> word(std::string("wobble"));
  EXPECT_FALSE(word.value());
  EXPECT_EQ(word.text(), "wobble");
  EXPECT_FALSE(word.empty());
  EXPECT_NE(word, FindingKind::kRange);
  EXPECT_NE(word, Word<FindingKind>(std::string("wobbly")));
  EXPECT_EQ(word, Word<FindingKind>(std::string("wobble")));
}

TEST(Word, IsNoneWithoutText) {
  EXPECT_TRUE(Word<Severity>().empty());
  EXPECT_TRUE(Word<Severity>(std::string()).empty());
  EXPECT_EQ(Word<Severity>(), Word<Severity>(std::string()));
  EXPECT_NE(Word<Severity>(), Severity::kError);
}

}  // namespace
}  // namespace mpnanny
