// How sure a case is of what is seen of it, what is missing, and what claims say of its kind.
#include "engines/diagnosis/cases/rank.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/diagnosis/cases/signal_words.h"
#include "tests/runs/made_cases.h"

namespace mpnanny::diagnosis {
namespace {

using test::LibraryOf;
using test::MadeCase;

// What a weight of 2.2 is believed, 1 - 1 / e, where nothing speaks against it.
constexpr double kOnce = 0.632121;

// Facts of a run in which these `log:` signals were met.
Facts Saying(const std::vector<std::string>& signals) {
  Facts facts;
  for (const std::string& signal : signals) facts.log_hits.emplace_back().signal = signal;
  return facts;
}

Claim Says(const std::string& id, double strength, std::vector<std::string> favours = {},
           std::vector<std::string> opposes = {}) {
  Claim claim;
  claim.id = id;
  claim.strength = strength;
  claim.sentence = "Seen: " + id + ".";
  claim.favours = std::move(favours);
  claim.opposes = std::move(opposes);
  return claim;
}

const Hypothesis* Find(const std::vector<Hypothesis>& ranked, const std::string& id) {
  for (const Hypothesis& each : ranked) {
    if (each.cause->id == id) return &each;
  }
  return nullptr;
}

// One case, ranked.
struct Ranked {
  Ranked(MadeCase made, const Facts& facts, const std::vector<Claim>& claims = {})
      : library(LibraryOf({made})) {
    made_by = Rank(facts, claims, library);
    const Hypothesis* found = Find(made_by, made.id);
    is_there = found != nullptr;
    if (found) of = *found;
  }
  cases::CaseLibrary library;
  std::vector<Hypothesis> made_by;
  bool is_there = false;
  Hypothesis of;
};

double ConfidenceOf(const MadeCase& made, const Facts& facts,
                    const std::vector<Claim>& claims = {}) {
  return Ranked(made, facts, claims).of.confidence;
}

bool Tells(const std::vector<runs::Sentence>& sentences, const std::string& part) {
  for (const auto& each : sentences) {
    if (each.English().find(part) != std::string::npos) return true;
  }
  return false;
}

// knowledge/README.md: a weight of 3 all but proves a case, 1 fits many.
TEST(Rank, ConfidenceGrowsWithTheWeightThatIsSeen) {
  const struct {
    double weight, confidence;
  } kTable[] = {{0.4, 0.166247}, {1.1, 0.393469}, {2.2, kOnce}, {3, 0.744271}, {6, 0.934603}};
  for (const auto& each : kTable) {
    const Ranked ranked({.id = "made", .signals = {{"log: a", each.weight}}}, Saying({"log: a"}));
    EXPECT_NEAR(ranked.of.confidence, each.confidence, 1e-6);
    EXPECT_NEAR(ranked.of.weight, each.weight, 1e-6);
  }
  EXPECT_NEAR(ConfidenceOf({.id = "made", .signals = {{"log: a", 1}, {"log: b", 1.2}}},
                           Saying({"log: a", "log: b"})),
              kOnce, 1e-6);
}

TEST(Rank, WhatIsHardlyBelievedOrNotSeenIsLeftOut) {
  const Facts facts = Saying({"log: a"});
  EXPECT_FALSE(Ranked({.id = "made", .signals = {{"log: a", 0.3}}}, facts).is_there);  // 0.13
  EXPECT_FALSE(Ranked({.id = "made", .signals = {{"log: b", 9}}}, facts).is_there);
  EXPECT_FALSE(
      Ranked({.id = "made", .signals = {{"log: a", 9}}, .kind = "concept"}, facts).is_there)
      << "a concept is no fault";
}

TEST(Rank, BestComesFirst) {
  const auto library = LibraryOf({{.id = "a-weak", .signals = {{"log: a", 1}}},
                                  {.id = "b-strong", .signals = {{"log: a", 5}}},
                                  {.id = "c-middle", .signals = {{"log: a", 3}}}});
  std::vector<std::string> ids;
  for (const Hypothesis& each : Rank(Saying({"log: a"}), {}, library)) {
    ids.push_back(each.cause->id);
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"b-strong", "c-middle", "a-weak"}));
}

TEST(Rank, OneFactCountsOnceHoweverManySignalsItMeets) {
  Facts facts;
  SeenAlert alert;
  alert.row.type = AlertType::kLossSpike;
  alert.row.phase = Phase::kLoss;
  alert.row.step = 4;
  facts.alerts = {alert};
  const Ranked ranked(
      {.id = "made", .signals = {{"alert:LOSS_SPIKE", 2.2}, {"alert:LOSS_SPIKE@loss", 1.5}}},
      facts);
  EXPECT_NEAR(ranked.of.confidence, kOnce, 1e-6);
  EXPECT_EQ(ranked.of.evidence.size(), 1u);
}

TEST(Rank, TheWeightiestIsToldFirst) {
  const Ranked ranked({.id = "made", .signals = {{"log: aa", 1}, {"log: bb", 3}, {"log: cc", 2}}},
                      Saying({"log: aa", "log: bb", "log: cc"}));
  ASSERT_EQ(ranked.of.evidence.size(), 3u);
  const char* const kOrder[] = {"bb", "cc", "aa"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string told = ranked.of.evidence[i].English();
    EXPECT_NE(told.find(kOrder[i]), std::string::npos) << told;
    EXPECT_TRUE(told.ends_with(".") && !told.ends_with("..")) << told;
  }
}

// A fifth is taken away where next to nothing of what would be visible is seen; half of it missing
// takes a tenth.
TEST(Rank, WhatWouldBeVisibleAndIsNotTakesALittle) {
  Facts watched = Saying({"log: a"});
  Facts scaled = watched, from_log = watched;
  scaled.summary.scale_first = 65536;
  from_log.monitored = false;
  const double kHalfMissing = 0.9 * kOnce;
  const struct {
    const char* missing;
    const Facts* facts;
    double confidence;
  } kTable[] = {
      {"alert:DEAD_LAYER", &watched, kHalfMissing}, {"alert:DEAD_LAYER", &from_log, kOnce},
      {"sign: lr-jump", &watched, kHalfMissing},    {"sign: lr-jump", &from_log, kOnce},
      {"scale: stuck", &scaled, kHalfMissing},      {"scale: stuck", &watched, kOnce},
      {"rule:some-rule", &watched, kOnce},          {"log: b", &watched, kOnce}};
  for (const auto& each : kTable) {
    const Ranked ranked({.id = "made", .signals = {{"log: a", 2.2}, {each.missing, 2.2}}},
                        *each.facts);
    EXPECT_NEAR(ranked.of.confidence, each.confidence, 1e-6) << each.missing;
    // What was looked for stands in the answer, also where it could not be seen.
    ASSERT_EQ(ranked.of.unseen.size(), 1u) << each.missing;
    EXPECT_EQ(ranked.of.unseen[0]->text, each.missing);
    EXPECT_EQ(ranked.of.against.empty(), each.confidence == kOnce) << each.missing;
  }
  // 2.2 of 8.8 seen: 0.85.
  EXPECT_NEAR(
      ConfidenceOf(
          {.id = "made",
           .signals = {{"log: a", 2.2}, {"alert:DEAD_LAYER", 4.4}, {"alert:LOSS_SPIKE", 2.2}}},
          watched),
      0.85 * kOnce, 1e-6);
}

TEST(Rank, TheStrongestMissIsToldFromAWeightOfTwoOn) {
  const Facts facts = Saying({"log: a"});
  const Ranked two({.id = "made",
                    .signals = {{"log: a", 2.2},
                                {"alert:DEAD_LAYER", 2},
                                {"alert:INF", 3},
                                {"alert:LOSS_SPIKE", 2.5}}},
                   facts);
  ASSERT_EQ(two.of.against.size(), 1u);
  EXPECT_TRUE(Tells(two.of.against, "INF"));
  EXPECT_EQ(two.of.against[0], UnseenSentence(*two.of.unseen[1]));
  EXPECT_EQ(Ranked({.id = "made", .signals = {{"log: a", 2.2}, {"alert:INF", 2}}}, facts)
                .of.against.size(),
            1u);
  EXPECT_TRUE(Ranked({.id = "made", .signals = {{"log: a", 2.2}, {"alert:INF", 1.9}}}, facts)
                  .of.against.empty());
}

// INF and OVERFLOW of one place are two words for one thing.
TEST(Rank, AnotherWordForWhatIsSeenIsNotMissed) {
  Facts facts;
  Onset onset;
  onset.step = 4;
  onset.phase = Phase::kForward;
  onset.layer_id = 1;
  facts.onset = onset;
  SeenAlert alert;
  alert.row.type = AlertType::kOverflow;
  alert.row.phase = Phase::kForward;
  alert.row.step = 4;
  alert.row.layer_id = 1;
  alert.layer = "b.wo";
  facts.alerts = {alert};
  facts.log_hits.emplace_back().signal = "log: a";
  const struct {
    const char *seen, *missed;
    double confidence;
  } kTable[] = {{"alert:OVERFLOW@forward", "alert:INF@forward", kOnce},
                {"alert:OVERFLOW@forward *.wo", "alert:INF@forward *.wo", kOnce},
                {"alert:OVERFLOW@forward", "alert:INF@backward", 0.9 * kOnce},
                {"alert:OVERFLOW@forward *.wo", "alert:INF@forward *.wi", 0.9 * kOnce},
                {"alert:OVERFLOW@forward", "sign: lr-jump", 0.9 * kOnce},
                {"log: a", "alert:INF@forward", 0.9 * kOnce}};
  for (const auto& each : kTable) {
    EXPECT_NEAR(
        ConfidenceOf({.id = "made", .signals = {{each.seen, 2.2}, {each.missed, 2.2}}}, facts),
        each.confidence, 1e-6)
        << each.seen << ", " << each.missed;
  }
}

// What a case is defined by (a sign of weight 5) is what it falls behind without.
TEST(Rank, WithoutTheSignThatDefinesItACaseFallsBehind) {
  Facts facts = Saying({"log: a"});
  const auto with = [](const char* signal, double weight) {
    return MadeCase{.id = "made", .signals = {{"log: a", 5}, {signal, weight}}};
  };
  const double seen = 0.896969;       // of a weight of 5
  const double missing = 0.9 * seen;  // half of the weight is not seen
  EXPECT_NEAR(ConfidenceOf(with("sign: lr-jump", 5), facts), 0.4 * missing, 1e-5);
  EXPECT_NEAR(ConfidenceOf(with("alert:DEAD_LAYER", 5), facts), missing, 1e-5);
  EXPECT_GT(ConfidenceOf(with("sign: lr-jump", 4.9), facts), missing);
  facts.monitored = false;
  EXPECT_NEAR(ConfidenceOf(with("sign: lr-jump", 5), facts), seen, 1e-5)
      << "no detector could have seen it in a log";
  facts.monitored = true;
  MadeCase two = with("sign: lr-jump", 5);
  two.signals.emplace_back("sign: diverged", 5);
  // One of two is enough. Seen: 5 and a hundredth of 5, of 10.05.
  EXPECT_NEAR(ConfidenceOf(two, facts, {Says("diverged", 0.01)}), 0.900498 * 0.899284, 1e-5);
}

TEST(Rank, ASureDetectorsSignEstablishesACase) {
  const struct {
    double weight, strength;
    bool established;
  } kTable[] = {{3, 0.9, true}, {2.9, 0.9, false}, {3, 0.89, false}, {6, 1, true}};
  for (const auto& each : kTable) {
    const Ranked ranked({.id = "made", .signals = {{"sign: lr-jump", each.weight}}}, {},
                        {Says("lr-jump", each.strength)});
    EXPECT_EQ(ranked.of.telling, each.established) << each.weight << " " << each.strength;
  }
  EXPECT_FALSE(
      Ranked({.id = "made", .signals = {{"log: a", 6}}}, Saying({"log: a"}), {Says("lr-jump", 1)})
          .of.telling);
  EXPECT_TRUE(Ranked({.id = "made", .signals = {{"sign: lr-jump", 3}, {"log: a", 3}}},
                     Saying({"log: a"}), {Says("lr-jump", 1)})
                  .of.telling)
      << "whatever else belongs to it";
}

const MadeCase kMade{.id = "made",
                     .signals = {{"log: a", 2.2}},
                     .category = "grad-vanish",
                     .precision = {"fp16", "bf16"},
                     .components = {"loss", "scaler"}};

TEST(Rank, AClaimSpeaksOfCasesByTheirWords) {
  const struct {
    const char* what;
    bool holds;
  } kTable[] = {{"category:grad-vanish", true},   {"category:nan-inf", false},
                {"component:scaler", true},       {"component:data", false},
                {"precision:bf16", true},         {"precision:fp32", false},
                {"!precision:fp32", true},        {"!category:grad-vanish", false},
                {"component:grad-vanish", false}, {"severity:P0", false}};
  for (const auto& each : kTable) {
    const Ranked favoured(kMade, Saying({"log: a"}), {Says("x", 0.8, {each.what})});
    // Half of 0.8 is added to 2.2.
    EXPECT_NEAR(favoured.of.confidence, each.holds ? 0.693279 : kOnce, 1e-6) << each.what;
    EXPECT_EQ(Tells(favoured.of.evidence, "Seen: x."), each.holds) << each.what;
    EXPECT_TRUE(favoured.of.against.empty());

    const Ranked opposed(kMade, Saying({"log: a"}), {Says("x", 0.5, {}, {each.what})});
    EXPECT_NEAR(opposed.of.confidence, each.holds ? 0.65 * kOnce : kOnce, 1e-6) << each.what;
    EXPECT_EQ(Tells(opposed.of.against, "Seen: x."), each.holds) << each.what;
    EXPECT_FALSE(Tells(opposed.of.evidence, "Seen: x."));
  }
  const Ranked both(kMade, Saying({"log: a"}),
                    {Says("x", 0.8, {"component:loss"}, {"category:grad-vanish"})});
  EXPECT_NEAR(both.of.confidence, 0.693279, 1e-6) << "what speaks for it counts";
}

TEST(Rank, AFavourMakesNoCaseOfLittle) {
  MadeCase little = kMade;
  little.signals = {{"log: a", 0.5}};
  // 0.5 and half of it.
  EXPECT_NEAR(ConfidenceOf(little, Saying({"log: a"}), {Says("x", 1, {"component:loss"})}),
              0.288876, 1e-6);
}

TEST(Rank, AClaimThatIsEvidenceAlreadyIsToldOnce) {
  MadeCase made = kMade;
  made.signals = {{"sign: lr-jump", 2}};
  const Ranked ranked(made, {}, {Says("lr-jump", 0.5, {"component:loss"})});
  EXPECT_EQ(ranked.of.evidence.size(), 1u);
}

TEST(Rank, WhatIsEstablishedIsOpposedByMeasurementsOnly) {
  MadeCase made = kMade;
  made.signals = {{"sign: lr-jump", 3}};
  const Claim sure = Says("lr-jump", 1);
  Claim opposing = Says("x", 1, {}, {"component:loss"});
  EXPECT_NEAR(ConfidenceOf(made, {}, {sure, opposing}), 0.744271, 1e-6);
  opposing.measured = true;
  const Ranked ranked(made, {}, {sure, opposing});
  EXPECT_NEAR(ranked.of.confidence, 0.3 * 0.744271, 1e-6);
  EXPECT_TRUE(Tells(ranked.of.against, "Seen: x."));
}

TEST(Rank, ACaseOfAnotherPrecisionIsUnlikely) {
  const struct {
    const char* computes_in;
    bool fits;
  } kTable[] = {{"fp16", true}, {"bf16", true}, {"mixed", true}, {"", true}, {"fp32", false}};
  for (const auto& each : kTable) {
    Facts facts = Saying({"log: a"});
    facts.precision = Word<Precision>(each.computes_in);
    const Ranked ranked(kMade, facts);
    EXPECT_NEAR(ranked.of.confidence, each.fits ? kOnce : kOnce / 4, 1e-6) << each.computes_in;
    EXPECT_EQ(ranked.of.against.empty(), each.fits) << each.computes_in;
    if (!each.fits) {
      for (const char* part : {"fp32", "fp16", "bf16"}) {
        EXPECT_TRUE(Tells(ranked.of.against, part)) << part;
      }
    }
  }
}

// A fact that four cases share tells none of them from the others.
TEST(Rank, ACaseThatShowsOnlyWhatManyShowIsAGuess) {
  const auto with = [](size_t sharing, MadeCase asked, const Facts& facts,
                       const std::vector<Claim>& claims = {}) {
    std::vector<MadeCase> all = {asked};
    for (size_t i = 1; i < sharing; ++i) {
      all.push_back({.id = "other-" + std::to_string(i), .signals = {{"log: aa", 1}}});
    }
    const auto library = LibraryOf(all);
    const auto ranked = Rank(facts, claims, library);
    const Hypothesis* found = Find(ranked, "made");
    EXPECT_NE(found, nullptr);
    return found != nullptr && found->is_guess;
  };
  const MadeCase weak{.id = "made", .signals = {{"log: aa", 1}}};
  Facts facts = Saying({"log: aa"});
  EXPECT_TRUE(with(4, weak, facts));
  EXPECT_FALSE(with(3, weak, facts));

  const MadeCase own{.id = "made", .signals = {{"log: aa", 0.5}, {"log: bb", 0.5}}};
  EXPECT_FALSE(with(4, own, Saying({"log: aa", "log: bb"}))) << "it has a fact of its own";

  const MadeCase strong{.id = "made", .signals = {{"log: aa", 2.2}}};
  EXPECT_FALSE(with(4, strong, facts));
  facts.monitored = false;
  EXPECT_TRUE(with(4, strong, facts)) << "a log alone does not tell";

  const MadeCase sure{.id = "made", .signals = {{"sign: lr-jump", 3}}};
  const auto library = LibraryOf({sure,
                                  {.id = "other-1", .signals = {{"sign: lr-jump", 1}}},
                                  {.id = "other-2", .signals = {{"sign: lr-jump", 1}}},
                                  {.id = "other-3", .signals = {{"sign: lr-jump", 1}}}});
  const auto ranked = Rank(facts, {Says("lr-jump", 1)}, library);
  EXPECT_FALSE(Find(ranked, "made")->is_guess) << "established";
  EXPECT_TRUE(Find(ranked, "other-1")->is_guess);
}

}  // namespace
}  // namespace mpnanny::diagnosis
