// Tapes judged again: a finding of each kind, why a result is none, and the same findings as when
// the tape was recorded.
#include "engines/judgement/replay.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engines/judgement/recording_evidence.h"
#include "engines/judgement/tape_page.h"
#include "engines/judgement/tape_text.h"

namespace mpnanny::judgement {
namespace {

Tape TapeOf(const std::string& rows) {
  const auto tape = ReadTape("mpnanny tape 1 step=7\n" + rows);
  EXPECT_TRUE(tape) << (tape ? "" : tape.error().Text());
  return tape ? *tape : Tape();
}

// One operator, whose input is right to a thousandth.
const std::string kMul =
    "place op=aten.mul.Tensor forward=torch.mul file=train.py line=12 module=fc\n"
    "figures slot=0 numel=4 nonzero=4 squared_error=4e-6 squared_reference=4 max_reference=1\n"
    "call number=1 place=0 ; memory=1 type=float16 slot=0\n";
const std::string kResult = "result call=1 memory=2 type=float16 shape=4 slot=1\n";

const std::string kWrong =
    kMul +
    "figures slot=1 numel=4 nonzero=4 squared_error=1 squared_reference=4 max_reference=1\n" +
    kResult;
const std::string kRange =
    kMul + "figures slot=1 numel=4 range=1 nonzero=4 squared_reference=3 max_reference=1e5\n" +
    kResult;
const std::string kCure = "answer asked=cure call=1 numbers=";

struct Kind {
  FindingKind kind;
  std::string rows;
};
const Kind kKinds[] = {
    {FindingKind::kRange, kRange + "answer asked=operands call=1 numbers=300,300.5,400,400.5\n" +
                              kCure +
                              "inf,0.001,1 words=range,\"\",float32,train.py:12,aten.mul.Tensor\n"
                              "loss memory=2 slot=1\n"},
    {FindingKind::kUndefined,
     kMul + "figures slot=1 numel=4 undefined=1 nonzero=3 squared_reference=3 max_reference=1\n" +
         kResult +
         "answer asked=operands call=1 numbers=0,0\n"
         "answer asked=rounding_decides call=1 numbers=0 words=\"\"\nloss memory=2 slot=1\n"},
    {FindingKind::kIntegers,
     "place op=aten.mul.Tensor file=train.py line=12\n"
     "figures slot=0 numel=4 nonzero=4 integers=true squared_reference=4 max_reference=1\n"
     "call number=1 place=0 ; memory=1 type=float16 slot=0\n"
     "figures slot=1 numel=4 nonzero=4 wrong_integers=1 integers=true squared_error=1 "
     "squared_reference=1e4 max_reference=300\n" +
         kResult + kCure + "0.25,0,0 words=integers,\"\",float32\noutput memory=2\n"},
    {FindingKind::kAmplified, kWrong + kCure +
                                  "0.5,0.001,0 words=amplified,\"\",float32,aten.mul.Tensor\n"
                                  "loss memory=2 slot=1\n"},
    {FindingKind::kFlushed,
     kMul +
         "figures slot=1 numel=4 nonzero=4 flushed=2 squared_error=1e-4 squared_reference=4 "
         "flushed_that_matter=2\n" +
         kResult + kCure + "0.005,0,0 words=flushed,\"\",float32\n"},
    {FindingKind::kClipped,
     kMul + "figures slot=1 numel=4 nonzero=4 clipped=1 squared_error=1 squared_reference=4\n" +
         kResult + kCure + "0.5,0,0 words=clipped,\"\",float32\n"}};

TEST(Replay, ATapeOfEachKindOfFindingYieldsIt) {
  for (const auto& [kind, rows] : kKinds) {
    SCOPED_TRACE(NameOf(kind));
    const Tape tape = TapeOf(rows);
    LostChanges run;
    const Replay replay(tape, run);
    ASSERT_EQ(replay.counting().size(), 1u);
    const Finding& finding = replay.findings()[replay.counting()[0]];
    EXPECT_EQ(NameOf(finding.kind), std::string(NameOf(kind)));
    EXPECT_EQ(finding.number, 1);
    EXPECT_EQ(finding.count, 1);
    EXPECT_EQ(replay.unanswered(), 0);
    EXPECT_EQ(replay.judge().calls().PlaceOf(finding.place).Source(), "train.py:12");
    EXPECT_EQ(finding.precision,
              kind == FindingKind::kUndefined ? Proof::kExcluded : Proof::kProven);
    ASSERT_EQ(replay.judged().size(), 1u);
    EXPECT_EQ(replay.judged()[0].verdict.why, Why::kFound);
    EXPECT_EQ(replay.judged()[0].verdict.finding, replay.counting()[0]);
  }
}

TEST(Replay, AnswersOfTheTapeStandInTheFinding) {
  LostChanges run;
  const Replay replay(TapeOf(kKinds[0].rows), run);
  const Finding& finding = replay.findings()[0];
  using Pairs = std::vector<std::array<double, 2>>;
  EXPECT_EQ(finding.operands, (Pairs{{300, 300.5}, {400, 400.5}}));
  ASSERT_TRUE(finding.cure);
  EXPECT_EQ(finding.cure->what, "float32");
  EXPECT_EQ(finding.cure->lines, std::vector<std::string>{"train.py:12"});
  EXPECT_EQ(finding.cure->operators, std::vector<std::string>{"aten.mul.Tensor"});
  EXPECT_EQ(finding.cure->error_after, 0.001);
  ASSERT_EQ(finding.reach.size(), 1u);
  EXPECT_EQ(finding.reach[0].what, Reached::kLoss);
}

TEST(Replay, AChangeIsLostOnTheThirdTapeOfARun) {
  const Tape tape = TapeOf(
      "place op=aten.add_.Tensor phase=optimizer file=train.py line=30\n"
      "call number=1 place=0 ; memory=1 type=bfloat16\n"
      "change call=1 made=1 memory=1 type=bfloat16 shape=4 name=fc.weight seen=0 numel=4 moved=4 "
      "lost=4 change=1 lost_change=1 squared_change=0.25 squared_error=0.25\n"
      "lost_line seen=0 name=fc.weight magnitude=1 mean=1 held_sum=1000\n");
  LostChanges run;
  EXPECT_TRUE(Replay(tape, run).counting().empty());
  EXPECT_TRUE(Replay(tape, run).counting().empty());
  const Replay third(tape, run);
  ASSERT_EQ(third.counting().size(), 1u);
  const Finding& finding = third.findings()[third.counting()[0]];
  EXPECT_EQ(finding.kind, FindingKind::kLostChange);
  ASSERT_TRUE(finding.lost);
  EXPECT_EQ(finding.lost->lost_in, 3);
  EXPECT_TRUE(finding.GetsTo(Reached::kState));
  LostChanges other;
  EXPECT_TRUE(Replay(tape, other).counting().empty()) << "of another run";
}

// --- why a result is no finding ---

// A second operator, of the first one's result.
std::string Then(const std::string& op, const std::string& figures) {
  return "place op=" + op + " file=train.py line=13\n" +
         "call number=2 place=1 ; memory=2 type=float16 slot=1\n" + "figures slot=2 numel=4 " +
         figures + "\nresult call=2 memory=3 type=float16 shape=4 slot=2\n";
}

struct Verdicts {
  Why why;  // of the last result
  std::string rows;
};

TEST(Replay, SaysWhyAResultIsNoFinding) {
  const std::string whole =
      "place op=aten.mul.Tensor\n"
      "figures slot=0 numel=4 nonzero=4 integers=true squared_reference=4 max_reference=1\n"
      "call number=1 place=0 ; memory=1 slot=0\n";
  const std::string infinite =
      "place op=aten.mul.Tensor\nfigures slot=0 numel=4 infinite=1 squared_reference=4\n"
      "call number=1 place=0 ; memory=1 slot=0\nfigures slot=1 numel=4 infinite=1\n" +
      kResult;
  const Verdicts cases[] = {
      {Why::kNotCompared, kMul + "result call=1 memory=2\n"},
      {Why::kClean,
       kMul + "figures slot=1 numel=4 squared_error=4e-6 squared_reference=4\n" + kResult},
      {Why::kRestarts,
       kMul + "figures slot=1 numel=4 reference_only=1 squared_reference=4\n" + kResult},
      {Why::kNoise,
       kMul + "figures slot=1 numel=4 squared_error=4 squared_reference=1e-30\n" + kResult},
      {Why::kCancels, kWrong + Then("aten.sub.Tensor", "squared_error=1")},
      {Why::kCarried, kWrong + Then("aten.relu.default", "squared_error=1.5 squared_reference=4")},
      {Why::kNotFinite, kRange + Then("aten.relu.default", "range=1 squared_reference=4")},
      {Why::kFilled, kMul + "figures slot=1 numel=4 infinite=1 squared_reference=4\n" + kResult +
                         "answer asked=fills call=1 numbers=1\n"},
      {Why::kMeantSo, infinite + "answer asked=made_unwritten call=1\n"
                                 "answer asked=above_zero call=1 numbers=0\n"},
      {Why::kFewFlushed, kMul +
                             "figures slot=1 numel=4 nonzero=4 flushed=2 squared_error=1e-4 "
                             "squared_reference=4 flushed_that_matter=1\n" +
                             kResult},
      {Why::kInRange, kMul +
                          "figures slot=1 numel=4 nonzero=4 flushed=2 squared_error=1e-4 "
                          "squared_reference=4 flushed_that_matter=2 flushed_in_range=2 "
                          "flushed_that_matter_in_range=2\n" +
                          kResult},
      {Why::kFlushedBefore,
       "place op=aten.mul.Tensor\n"
       "figures slot=0 numel=4 nonzero=4 flushed=2 squared_reference=4\n"
       "call number=1 place=0 ; memory=1 slot=0\n"
       "figures slot=1 numel=4 nonzero=4 flushed=2 squared_error=1e-4 squared_reference=4 "
       "flushed_that_matter=2\n" +
           kResult},
      {Why::kFewIntegers,
       whole +
           "figures slot=1 numel=1000 wrong_integers=1 integers=true squared_error=1 "
           "squared_reference=1e6 max_reference=300\n" +
           kResult},
      {Why::kTooLarge, whole +
                           "figures slot=1 numel=4 wrong_integers=4 integers=true squared_error=1 "
                           "squared_reference=1e32 max_reference=1e16\n" +
                           kResult},
      {Why::kNotWhole, kMul +
                           "figures slot=1 numel=4 wrong_integers=4 integers=true squared_error=1 "
                           "squared_reference=1e4 max_reference=100\n" +
                           kResult},
      {Why::kFound, kWrong},
      {Why::kClean, kMul + "indices call=1 share=0\n"},
      {Why::kFewIntegers, kMul + "indices call=1 share=0.001\n"},
      {Why::kCarried, kMul + "indices call=1 share=0.02\n"},
      {Why::kFound, kMul + "figures slot=1 numel=4 wrong_integers=2 squared_reference=4\n"
                           "indices call=1 share=0.5\n"
                           "answer asked=index_figures call=1 numbers=1\n"}};
  std::map<Why, int> seen;
  for (const auto& [why, rows] : cases) {
    ++seen[why];
    SCOPED_TRACE(NameOf(why) + std::string("\n") + rows);
    LostChanges run;
    const Replay replay(TapeOf(rows), run);
    ASSERT_FALSE(replay.judged().empty());
    EXPECT_STREQ(NameOf(replay.judged().back().verdict.why), NameOf(why));
    EXPECT_EQ(replay.judged().back().verdict.finding != kNone, why == Why::kFound);
    EXPECT_EQ(WhyText(replay.judged().back()).empty(), why == Why::kClean);
  }
  EXPECT_EQ(seen.size(), std::size(Vocabulary<Why>::kNames)) << "a verdict has no case";
}

TEST(Replay, TellsWhatCameInAndWhoseErrorItIs) {
  LostChanges run;
  const Replay replay(
      TapeOf(kWrong + Then("aten.relu.default", "squared_error=1.44 squared_reference=4")), run);
  const Replay::Judged& judged = replay.judged().back();
  EXPECT_DOUBLE_EQ(judged.error, 0.6);
  EXPECT_DOUBLE_EQ(judged.came_in, 0.5);
  EXPECT_EQ(judged.origin, 0);
  EXPECT_EQ(WhyText(judged),
            "carried: 0.5 came in, and it is less than 5 times as much; the error of finding 0");
}

// --- recorded and replayed ---

// A front end that knows the figures of the first input and finds a cure.
class Front : public Evidence {
 public:
  Front(Judge& judge, Tape& tape) : judge_(judge), tape_(tape) {}

  int InputFigures(int input) override {
    if (input != 0) return kNone;
    Figures figures;
    figures.slot = 100 + asked_++;
    figures.found.numel = 4;
    figures.found.nonzero = 4;
    figures.found.squared_error = 4e-6;
    figures.found.squared_reference = 4;
    figures.found.integers = true;
    judge_.Take(figures);
    tape_.Add(figures);
    return figures.slot;
  }
  int IndexFigures() override { return InputFigures(0); }
  bool Fills() override { return false; }
  bool DependsOnNoise(const std::vector<int>&) override { return true; }
  bool IsNoiseOfElements(double) override { return true; }
  std::optional<bool> RoundingDecides(std::string& why) override {
    why = "not tried, too dear";
    return std::nullopt;
  }
  std::vector<std::array<double, 2>> Operands() override { return {{1, 2}, {3, 4}}; }
  std::optional<Singular> SingularAt() override { return std::nullopt; }
  std::optional<std::string> MadeUnwritten(int) override { return "train.py:3"; }
  bool IsAboveZero(int) override { return true; }
  Owner OwnerOf(int) override { return {"buffer mean of Norm, 1", true}; }
  CureAnswer FindCure(FindingKind kind, double before, bool) override {
    if (kind == FindingKind::kFlushed) return {std::nullopt, "not found"};
    return {Cure{{"train.py:1", "train.py:2"}, {"aten.a"}, "float64", before, 0.125}, ""};
  }

 private:
  Judge& judge_;
  Tape& tape_;
  int asked_ = 0;
};

std::string Told(const Findings& findings, const std::vector<int>& numbers) {
  std::ostringstream told;
  for (const int number : numbers) {
    const Finding& each = findings[number];
    told << number << " " << NameOf(each.kind) << " " << NameOf(each.severity) << " "
         << NameOf(each.precision) << " " << each.dtype << " " << each.share << " " << each.error_in
         << " " << each.error_out << " '" << each.why_no_cure << "'";
    if (each.carried) told << " " << each.carried->whose << " " << each.carried->made_at;
    for (const auto& [held, reference] : each.operands) told << " " << held << "/" << reference;
    for (const Reach& reach : each.reach) told << " " << NameOf(reach.what) << reach.error;
    if (each.cure) {
      told << " " << each.cure->what << each.cure->error_before << each.cure->error_after;
      for (const std::string& line : each.cure->lines) told << " " << line;
      for (const std::string& op : each.cure->operators) told << " " << op;
    }
    told << "\n";
  }
  return told.str();
}

// Judges the rows of a tape as a monitor does, and records what it is told. Returns the findings.
std::string Record(const Tape& rows, Tape& tape) {
  LostChanges run;
  Judge judge(run, rows.step, rows.first_loss);
  Front front(judge, tape);
  tape.step = rows.step;
  const auto take = [&](const auto& row) {
    using T = std::remove_cvref_t<decltype(row)>;
    if constexpr (std::is_same_v<T, Answer>) return;  // the front answers
    tape.Add(row);
    if constexpr (std::is_same_v<T, Result> || std::is_same_v<T, Indices>) {
      RecordingEvidence evidence(front, row.call, tape);
      judge.Take(row, evidence);
    } else if constexpr (!std::is_same_v<T, Answer>) {
      judge.Take(row);
    }
  };
  for (const Row& row : rows.rows) std::visit(take, row);
  return Told(judge.findings(), judge.Finish());
}

// Without what was known of inputs, so that the judge has to ask.
std::string Asking(const std::string& rows) {
  return std::regex_replace(rows, std::regex("(; memory=1[^\n]*) slot=0"), "$1");
}

TEST(Replay, WhatWasRecordedYieldsTheSameFindings) {
  std::vector<std::string> tapes;
  for (const auto& [kind, rows] : kKinds) tapes.push_back(rows);
  tapes.push_back(kWrong + Then("aten.sub.Tensor", "squared_error=1"));
  tapes.push_back(kRange + Then("aten.relu.default", "range=1 squared_reference=4"));
  tapes.push_back(
      "place op=aten.mul.Tensor\ncall number=1 place=0 ; memory=1\n"
      "figures slot=1 numel=4 infinite=1\n" +
      kResult + "loss memory=2 slot=1\n");
  tapes.push_back(
      "place op=aten.mul.Tensor\n"
      "figures slot=0 numel=4 infinite=1 squared_reference=4\n"
      "call number=1 place=0 ; memory=1 slot=0\nfigures slot=1 numel=4 infinite=1\n" +
      kResult + "loss memory=2 slot=1\n");
  tapes.push_back(kMul + "indices call=1 share=0.5\n");
  for (const std::string& rows : tapes) {
    for (const std::string& each : {rows, Asking(rows)}) {
      SCOPED_TRACE(each);
      Tape tape;
      const std::string findings = Record(TapeOf(each), tape);
      const auto read = ReadTape(TextOf(tape));
      ASSERT_TRUE(read) << read.error().Text();
      LostChanges run;
      const Replay replay(*read, run);
      EXPECT_EQ(Told(replay.findings(), replay.counting()), findings);
      EXPECT_EQ(replay.unanswered(), 0);
    }
  }
}

TEST(Replay, QuestionsWithoutAnAnswerAreCounted) {
  LostChanges run;
  const Replay replay(TapeOf(kRange + "loss memory=2 slot=1\n"), run);
  EXPECT_EQ(replay.unanswered(), 2) << "operands and cure";
  ASSERT_EQ(replay.counting().size(), 1u);
  EXPECT_FALSE(replay.findings()[0].cure);
  EXPECT_NE(PageOf(TapeOf(""), replay).find("2 questions of the judge had no answer"),
            std::string::npos);
  // An answer belongs to the row before it.
  LostChanges other;
  const Replay late(TapeOf(kRange + "loss memory=2 slot=1\nanswer asked=operands call=1\n"), other);
  EXPECT_EQ(late.unanswered(), 2);
}

// Whatever a damaged file holds, it is refused or it is judged.
TEST(Replay, DamagedTapesAreRefusedOrJudged) {
  std::string all = "mpnanny tape 1 step=7 first_loss=2\n";
  for (const auto& [kind, rows] : kKinds) all += rows;
  all +=
      "enters memory=1 error=0.5\nmask call=1 mask=1 share=0.5\ndecided mask=1 source=a\n"
      "read memory=2 source=a\nleaves memory=2 place=0\nformats layer=0 numel=4 finite=4\nfed "
      "call=1 input=0\n"
      "gradient_again name=w memory=2\noptimizer skipped_at=2\ngradient name=w memory=2 slot=1\n"
      "optimizer_ends\nchange call=1 memory=2 name=w slot=1 seen=0 numel=4 moved=4 change=1 "
      "lost_change=1\ntogether name=w numel=4 moved=4 change=1\nlost_line name=w mean=1\n"
      "kept_at_random name=w\nstate name=w memory=2 slot=1\n";
  ASSERT_TRUE(ReadTape(all)) << ReadTape(all).error().Text();
  constexpr std::string_view kBytes = "0123456789-.,;= \n\"\\eainfx";
  std::mt19937 random(1);
  int judged = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string damaged = all;
    for (int each = 0; each < 1 + round % 3; ++each) {
      const size_t at = random() % damaged.size();
      const char byte = kBytes[random() % kBytes.size()];
      switch (random() % 3) {
        case 0:
          damaged[at] = byte;
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        default:
          damaged.insert(at, 1, byte);
      }
    }
    const auto tape = ReadTape(damaged);
    if (!tape) {
      EXPECT_FALSE(tape.error().message.empty());
      EXPECT_FALSE(tape.error().hint.empty()) << tape.error().message;
      continue;
    }
    ++judged;
    LostChanges run;
    const Replay replay(*tape, run);
    EXPECT_FALSE(PageOf(*tape, replay).empty());
    EXPECT_FALSE(RowsOf(*tape, replay).empty());
    EXPECT_TRUE(ReadTape(TextOf(*tape)));
  }
  EXPECT_GT(judged, 300);
}

}  // namespace
}  // namespace mpnanny::judgement
