// What a front end answers is what the judge gets, and what it gets again from a tape.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engines/judgement/recording_evidence.h"
#include "engines/judgement/replayed_evidence.h"
#include "engines/judgement/tape_text.h"

namespace mpnanny::judgement {
namespace {

// All that a front end can say.
struct Answers {
  int slot = kNone;
  bool truth = false;
  std::optional<bool> decides;
  std::string why;
  std::vector<std::array<double, 2>> operands;
  std::optional<Singular> singular;
  std::optional<std::string> made_at;
  Evidence::Owner owner;
  Evidence::CureAnswer cure;
};

class Known : public Evidence {
 public:
  explicit Known(Answers answers) : answers_(std::move(answers)) {}

  int InputFigures(int input) override { return answers_.slot + input; }
  int IndexFigures() override { return answers_.slot; }
  bool Fills() override { return answers_.truth; }
  bool DependsOnNoise(const std::vector<int>&) override { return !answers_.truth; }
  bool IsNoiseOfElements(double) override { return answers_.truth; }
  std::optional<bool> RoundingDecides(std::string& why) override {
    why = answers_.why;
    return answers_.decides;
  }
  std::vector<std::array<double, 2>> Operands() override { return answers_.operands; }
  std::optional<Singular> SingularAt() override { return answers_.singular; }
  std::optional<std::string> MadeUnwritten(int) override { return answers_.made_at; }
  bool IsAboveZero(int input) override { return answers_.truth == (input == 1); }
  Owner OwnerOf(int) override { return answers_.owner; }
  CureAnswer FindCure(FindingKind, double, bool) override { return answers_.cure; }

 private:
  Answers answers_;
};

void ExpectAnswers(Evidence& evidence, const Answers& known) {
  EXPECT_EQ(evidence.InputFigures(0), known.slot);
  EXPECT_EQ(evidence.InputFigures(2), known.slot + 2);
  EXPECT_EQ(evidence.IndexFigures(), known.slot);
  EXPECT_EQ(evidence.Fills(), known.truth);
  EXPECT_EQ(evidence.DependsOnNoise({0, 1}), !known.truth);
  EXPECT_EQ(evidence.IsNoiseOfElements(0.5), known.truth);
  std::string why;
  EXPECT_EQ(evidence.RoundingDecides(why), known.decides);
  EXPECT_EQ(why, known.why);
  EXPECT_EQ(evidence.Operands(), known.operands);
  const std::optional<Singular> singular = evidence.SingularAt();
  ASSERT_EQ(singular.has_value(), known.singular.has_value());
  if (singular) {
    EXPECT_EQ(singular->is_pole, known.singular->is_pole);
    EXPECT_EQ(singular->held, known.singular->held);
    EXPECT_EQ(singular->reference, known.singular->reference);
    EXPECT_EQ(singular->zero_op, known.singular->zero_op);
    EXPECT_EQ(singular->zero_at, known.singular->zero_at);
  }
  EXPECT_EQ(evidence.MadeUnwritten(1), known.made_at);
  EXPECT_EQ(evidence.IsAboveZero(0), !known.truth);
  EXPECT_EQ(evidence.IsAboveZero(1), known.truth);
  const Evidence::Owner owner = evidence.OwnerOf(1);
  EXPECT_EQ(owner.name, known.owner.name);
  EXPECT_EQ(owner.is_state, known.owner.is_state);
  EXPECT_EQ(owner.is_doubtful, known.owner.is_doubtful);
  const Evidence::CureAnswer answer = evidence.FindCure(FindingKind::kRange, 0.5, true);
  EXPECT_EQ(answer.why_not, known.cure.why_not);
  ASSERT_EQ(answer.cure.has_value(), known.cure.cure.has_value());
  if (!answer.cure) return;
  EXPECT_EQ(answer.cure->lines, known.cure.cure->lines);
  EXPECT_EQ(answer.cure->operators, known.cure.cure->operators);
  EXPECT_EQ(answer.cure->what, known.cure.cure->what);
  EXPECT_EQ(answer.cure->error_before, known.cure.cure->error_before);
  EXPECT_EQ(answer.cure->error_after, known.cure.cure->error_after);
}

TEST(Answers, ComeBackFromATapeAsTheyWereGiven) {
  const Answers cases[] = {
      {},
      {.slot = 7,
       .truth = true,
       .decides = false,
       .why = "not tried: too dear",
       .operands = {{0, 1e-9}, {-1, 2}},
       .singular = Singular{true, 1, 0.9998, "aten.where.self", "train.py:46"},
       .made_at = "train.py:3",
       .owner = {"buffer mean of Norm, 1", true},
       .cure = {Cure{{"a.py:1", "a.py:2"}, {"aten.a", "aten.b", "aten.c"}, "float32", 0.5, 0.25},
                ""}},
      {.slot = 0,
       .truth = false,
       .decides = true,
       .why = "",
       .operands = {},
       .singular = Singular{false, 0, 0, "", "train.py:46"},
       .made_at = "",
       .owner = {"", true, true},
       .cure = {std::nullopt, "not found"}},
      {.slot = 1,
       .truth = true,
       .decides = {},
       .why = "",
       .operands = {},
       .singular = {},
       .made_at = {},
       .owner = {"weight", false},
       .cure = {Cure{{}, {}, "float64", 0, 0}, ""}}};
  for (const Answers& each : cases) {
    Tape tape;
    tape.Add(Place{});
    tape.Add(Call{.number = 3, .place = 0, .kept = true, .inputs = {{}, {}, {}}});
    Known front(each);
    RecordingEvidence recorded(front, 3, tape);
    ExpectAnswers(recorded, each);
    const auto read = ReadTape(TextOf(tape));
    ASSERT_TRUE(read) << read.error().Text();
    std::vector<const Answer*> answers;
    for (const Row& row : read->rows) {
      const auto* answer = std::get_if<Answer>(&row);
      if (answer == nullptr) continue;
      EXPECT_EQ(answer->call, 3);
      answers.push_back(answer);
    }
    EXPECT_EQ(answers.size(), 14u);
    ReplayedEvidence replayed(answers);
    ExpectAnswers(replayed, each);
    EXPECT_EQ(replayed.unanswered(), 0);
  }
}

TEST(Answers, EachIsUsedOnceAndInItsOrder) {
  const Answer first{.asked = Asked::kInput, .call = 1, .at = 0, .numbers = {4}, .words = {}};
  const Answer second{.asked = Asked::kInput, .call = 1, .at = 0, .numbers = {5}, .words = {}};
  const Answer other{.asked = Asked::kInput, .call = 1, .at = 1, .numbers = {6}, .words = {}};
  ReplayedEvidence evidence({&first, &other, &second});
  EXPECT_EQ(evidence.InputFigures(0), 4);
  EXPECT_EQ(evidence.InputFigures(0), 5);
  EXPECT_EQ(evidence.InputFigures(1), 6);
  EXPECT_EQ(evidence.unanswered(), 0);
  EXPECT_EQ(evidence.InputFigures(1), kNone);
  EXPECT_EQ(evidence.unanswered(), 1);
}

TEST(Answers, ThatATapeLacksAreThoseOfAFrontEndThatDoesNotKnow) {
  ReplayedEvidence evidence({});
  std::string why = "before";
  EXPECT_EQ(evidence.IndexFigures(), kNone);
  EXPECT_FALSE(evidence.Fills());
  EXPECT_FALSE(evidence.DependsOnNoise({}));
  EXPECT_FALSE(evidence.IsNoiseOfElements(1));
  EXPECT_FALSE(evidence.RoundingDecides(why));
  EXPECT_EQ(why, "");
  EXPECT_TRUE(evidence.Operands().empty());
  EXPECT_FALSE(evidence.SingularAt());
  EXPECT_FALSE(evidence.MadeUnwritten(0));
  EXPECT_FALSE(evidence.IsAboveZero(0));
  EXPECT_EQ(evidence.OwnerOf(0).name, "");
  EXPECT_FALSE(evidence.OwnerOf(0).is_state);
  EXPECT_FALSE(evidence.FindCure(FindingKind::kRange, 1, true).cure);
  EXPECT_EQ(evidence.unanswered(), 12);
}

}  // namespace
}  // namespace mpnanny::judgement
