// A tape as a file: every row comes back as it was, and a damaged file says where and what.
#include "engines/judgement/tape_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engines/judgement/fields.h"
#include "engines/judgement/references.h"

namespace mpnanny::judgement {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::string kHead = "mpnanny tape 1\n";

// What rows refer to: places 0 and 1, call 3 with two inputs.
const std::string kBefore = "place op=aten.a\nplace op=aten.b\ncall number=3 place=1 ; ;\n";

// The last row of a tape that ends with this line.
Row ReadRow(const std::string& line) {
  const auto tape = ReadTape(kHead + kBefore + line + "\n");
  EXPECT_TRUE(tape) << line << "\n" << (tape ? "" : tape.error().Text());
  return tape ? tape->rows.back() : Row();
}

// What reading the text says is wrong, with the hint.
std::string WrongWith(const std::string& text) {
  const auto tape = ReadTape(text);
  return tape ? "" : tape.error().Text();
}

// The line under every kind of row, with every field.
const std::pair<Row, const char*> kRows[] = {
    {Place{.op = "aten.mul.Tensor",
           .forward = "torch.mul",
           .phase = Phase::kBackward,
           .file = "train.py",
           .line = 12,
           .module = "fc1"},
     "place op=aten.mul.Tensor forward=torch.mul phase=backward file=train.py line=12 module=fc1"},
    {Figures{.slot = 2,
             .found = {.numel = 1,
                       .range = 2,
                       .undefined = 3,
                       .infinite = 4,
                       .reference_only = 5,
                       .nonzero = 6,
                       .flushed = 7,
                       .wrong_integers = 8,
                       .clipped = 9,
                       .integers = true,
                       .squared_error = 0.5,
                       .squared_reference = 1.5,
                       .squared_flushed = 2.5,
                       .max_error = 3.5,
                       .max_reference = 4.5,
                       .max_held = 5.5,
                       .flushed_that_matter = 10,
                       .flushed_in_range = 11,
                       .flushed_that_matter_in_range = 12}},
     "figures slot=2 numel=1 range=2 undefined=3 infinite=4 reference_only=5 nonzero=6 flushed=7 "
     "wrong_integers=8 clipped=9 integers=true squared_error=0.5 squared_reference=1.5 "
     "squared_flushed=2.5 max_error=3.5 max_reference=4.5 max_held=5.5 flushed_that_matter=10 "
     "flushed_in_range=11 flushed_that_matter_in_range=12"},
    {Enters{.memory = 7, .error = 0.25}, "enters memory=7 error=0.25"},
    {Call{.number = 4,
          .place = 1,
          .kept = false,
          .inputs = {{.memory = 5,
                      .type = Element::kBFloat16,
                      .offset = 9,
                      .position = 2,
                      .slot = 3,
                      .read = false},
                     {}}},
     "call number=4 place=1 kept=false ; memory=5 type=bfloat16 offset=9 position=2 slot=3 "
     "read=false ;"},
    {Result{.call = 3,
            .index = 1,
            .memory = 6,
            .type = Element::kFloat16,
            .shape = {2, 3},
            .position = 4,
            .slot = 5,
            .rounding = 0.125,
            .written = true,
            .state = "fc.weight"},
     "result call=3 index=1 memory=6 type=float16 shape=2,3 position=4 slot=5 rounding=0.125 "
     "written=true state=fc.weight"},
    {Indices{.call = 3, .index = 1, .type = Element::kInt32, .shape = {4}, .share = 0.5},
     "indices call=3 index=1 type=int32 shape=4 share=0.5"},
    {Mask{.call = 3, .mask = 2, .share = 0.5}, "mask call=3 mask=2 share=0.5"},
    {Decided{.mask = 2, .source = "train.py:3"}, "decided mask=2 source=train.py:3"},
    {Read{.memory = 4, .source = "train.py:4"}, "read memory=4 source=train.py:4"},
    {Leaves{.memory = 4, .place = 1, .type = Element::kFloat16, .offset = 8},
     "leaves memory=4 place=1 type=float16 offset=8"},
    {Formats{.layer = 2,
             .found = {.numel = 1,
                       .finite = 2,
                       .absmax = 0.5,
                       .rms = 1.5,
                       .fp16 = 2.5,
                       .bf16 = 3.5,
                       .e4m3 = 4.5,
                       .e5m2 = 5.5,
                       .e4m3_scale = -3,
                       .e5m2_scale = 4,
                       .fp16_overflow = 5,
                       .fp16_underflow = 6}},
     "formats layer=2 numel=1 finite=2 absmax=0.5 rms=1.5 fp16=2.5 bf16=3.5 e4m3=4.5 e5m2=5.5 "
     "e4m3_scale=-3 e5m2_scale=4 fp16_overflow=5 fp16_underflow=6"},
    {Fed{.call = 3, .input = 1}, "fed call=3 input=1"},
    {Loss{.memory = 4, .slot = 5, .size = 2.25, .alone = true},
     "loss memory=4 slot=5 size=2.25 alone=true"},
    {Output{.memory = 4}, "output memory=4"},
    {GradientAgain{.name = "w", .memory = 4}, "gradient_again name=w memory=4"},
    {Optimizer{.skipped_at = 65536.0, .alone = true}, "optimizer skipped_at=65536 alone=true"},
    {Gradient{.name = "w", .memory = 4, .slot = 5}, "gradient name=w memory=4 slot=5"},
    {OptimizerEnds{}, "optimizer_ends"},
    {Change{.call = 3,
            .made = 2,
            .index = 1,
            .memory = 4,
            .type = Element::kBFloat16,
            .shape = {7},
            .name = "w",
            .slot = 5,
            .seen = 6,
            .in_parts = true,
            .found = {.numel = 1,
                      .moved = 2,
                      .lost = 3,
                      .change = 0.5,
                      .lost_change = 1.5,
                      .kept_change = 2.5,
                      .squared_change = 3.5,
                      .squared_error = 4.5}},
     "change call=3 made=2 index=1 memory=4 type=bfloat16 shape=7 name=w slot=5 seen=6 "
     "in_parts=true numel=1 moved=2 lost=3 change=0.5 lost_change=1.5 kept_change=2.5 "
     "squared_change=3.5 squared_error=4.5"},
    {Together{.name = "w", .found = {.numel = 1, .moved = 2}}, "together name=w numel=1 moved=2"},
    {LostLine{
         .seen = 6, .name = "w", .excused = true, .magnitude = 0.5, .mean = 1.5, .held_sum = 2.5},
     "lost_line seen=6 name=w excused=true magnitude=0.5 mean=1.5 held_sum=2.5"},
    {KeptAtRandom{.name = "w"}, "kept_at_random name=w"},
    {State{.name = "bn.mean", .memory = 4, .slot = 5}, "state name=bn.mean memory=4 slot=5"},
    {Answer{.asked = Asked::kCure,
            .call = 3,
            .at = 1,
            .numbers = {0.5, 2},
            .words = {"range", "", "a, b"}},
     "answer asked=cure call=3 at=1 numbers=0.5,2 words=range,\"\",\"a, b\""}};

TEST(TapeText, EveryKindOfRowIsALineThatComesBack) {
  std::vector<bool> seen(std::variant_size_v<Row>);
  for (const auto& [row, line] : kRows) {
    seen[row.index()] = true;
    EXPECT_EQ(TextOf(row), line);
    EXPECT_EQ(TextOf(ReadRow(line)), line);
  }
  for (size_t at = 0; at < seen.size(); ++at) EXPECT_TRUE(seen[at]) << kRowWords[at];
}

TEST(TapeText, WhatHasItsUsualValueIsNotWritten) {
  EXPECT_EQ(TextOf(Row(Place{})), "place");
  EXPECT_EQ(TextOf(Row(Call{})), "call");
  EXPECT_EQ(TextOf(Row(Result{})), "result");
  const auto result = std::get<Result>(ReadRow("result call=3"));
  EXPECT_EQ(result.slot, kNone);
  EXPECT_EQ(result.memory, kNone);
  EXPECT_FALSE(std::get<Place>(ReadRow("place")).module);
}

TEST(TapeText, TheFirstLineTellsTheStep) {
  Tape tape;
  tape.step = 120;
  tape.first_loss = 2.3;
  EXPECT_EQ(TextOf(tape), "mpnanny tape 1 step=120 first_loss=2.3\n");
  tape.Add(Output{4});
  const auto read = ReadTape(TextOf(tape));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->step, 120);
  EXPECT_EQ(read->first_loss, 2.3);
  EXPECT_EQ(read->rows.size(), 1u);
  EXPECT_FALSE(ReadTape(kHead)->first_loss);
}

TEST(TapeText, NumbersComeBackToTheBit) {
  for (const double each :
       {0.0, -0.0, 0.1, 1.0 / 3, 1e-300, 5e-324, std::numeric_limits<double>::max(),
        -std::numeric_limits<double>::min(), 0x1.fffffffffffffp-1, kInf, -kInf}) {
    const auto row = std::get<Enters>(ReadRow(TextOf(Row(Enters{1, each}))));
    EXPECT_EQ(std::bit_cast<uint64_t>(row.error), std::bit_cast<uint64_t>(each)) << each;
  }
  for (const double each : {kNan, -kNan}) {
    EXPECT_EQ(TextOf(Row(Enters{1, each})), "enters memory=1 error=nan");
    EXPECT_TRUE(std::isnan(std::get<Enters>(ReadRow(TextOf(Row(Enters{1, each})))).error));
  }
  for (const int64_t each : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0},
                             std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(std::get<Enters>(ReadRow(TextOf(Row(Enters{each, 1})))).memory, each);
  }
}

TEST(TapeText, TextsComeBackWhateverIsInThem) {
  const std::string zero("\0", 1);
  const std::string every = [] {
    std::string bytes;
    for (int each = 0; each < 256; ++each) bytes += static_cast<char>(each);
    return bytes;
  }();
  for (const std::string& each :
       {std::string("a=b"), std::string("with blanks"), std::string("\"quoted\""),
        std::string("back\\slash"), std::string("a,b;c"), std::string(";"), std::string("# no"),
        std::string("line\nline\r\n\ttab"), std::string("\xe6\x8d\x9f\xe5\xa4\xb1"),
        std::string("\x1b[31m"), zero, every}) {
    const std::string line = TextOf(Row(KeptAtRandom{each}));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(std::get<KeptAtRandom>(ReadRow(line)).name, each);
    const Answer answer{
        .asked = Asked::kOwner, .call = 3, .numbers = {}, .words = {each, "", each}};
    EXPECT_EQ(std::get<Answer>(ReadRow(TextOf(Row(answer)))).words, answer.words);
  }
  // An empty text of what may not be there.
  Place place;
  place.module = "";
  EXPECT_EQ(TextOf(Row(place)), "place module=\"\"");
  EXPECT_EQ(std::get<Place>(ReadRow("place module=\"\"")).module, "");
}

TEST(TapeText, RemarksEmptyLinesAndWindowsLinesAreRead) {
  const auto tape =
      ReadTape("# a remark\n\nmpnanny tape 1 step=2\r\n# more\n\noutput memory=4\r\n");
  ASSERT_TRUE(tape) << tape.error().Text();
  EXPECT_EQ(tape->step, 2);
  ASSERT_EQ(tape->rows.size(), 1u);
  EXPECT_EQ(std::get<Output>(tape->rows[0]).memory, 4);
  EXPECT_TRUE(ReadTape("mpnanny tape 1")) << "the last line may lack its end";
}

TEST(TapeText, AFileThatIsNoTapeIsNamed) {
  EXPECT_EQ(WrongWith(""), "The file is empty. Record the tape again.");
  EXPECT_EQ(WrongWith("# only a remark\n"), "The file is empty. Record the tape again.");
  for (const char* each : {"{\"json\": 1}", "mpnanny", "output memory=4", "MPNANNY TAPE 1"}) {
    EXPECT_TRUE(
        WrongWith(each).starts_with("Line 1: This is no tape: it does not begin with "
                                    "'mpnanny tape 1'."))
        << WrongWith(each);
  }
  EXPECT_EQ(WrongWith("mpnanny tape 2 step=1\n"),
            "Line 1: The tape is of version '2', this mpnanny reads version 1. A later version may "
            "have written it: read the tape with the mpnanny that wrote it.");
  EXPECT_EQ(WrongWith("mpnanny tape one\n").find("Line 1: The tape is of version 'one'"), 0u);
}

TEST(TapeText, ALineOfALaterVersionSaysSo) {
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"teleported memory=4", "There are no rows 'teleported'."},
           {"output memory=4 colour=red", "'colour' is no field of it"},
           {"call number=1 place=1 ; memory=4 colour=red", "'colour' is no field of it"},
           {"answer asked=weather call=3", "asked='weather': one of input, index_figures, "},
           {"output memory=4 ; memory=5", "Only a call has inputs."}}) {
    const std::string wrong = WrongWith(kHead + kBefore + line + "\n");
    EXPECT_EQ(wrong.find("Line 5: " + what), 0u) << wrong;
    EXPECT_NE(wrong.find("A later version may have written it"), std::string::npos) << wrong;
  }
}

TEST(TapeText, DamageIsNamedWithItsLine) {
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"output memory=", "memory='': a whole number of 64 bits was expected."},
           {"output memory=4x", "memory='4x': a whole number of 64 bits was expected."},
           {"output memory=4.5", "memory='4.5': a whole number of 64 bits was expected."},
           {"output memory=9223372036854775808", "memory='9223372036854775808': a whole number"},
           {"output memory=\"4\"", "memory='\"4\"': a whole number of 64 bits was expected."},
           {"fed call=3 input=2147483648", "input='2147483648': a whole number of 32 bits"},
           {"enters memory=1 error=big", "error='big': a number was expected."},
           {"enters memory=1 error=1e999", "error='1e999': a number was expected."},
           {"loss memory=4 alone=1", "alone='1': true or false was expected."},
           {"result call=3 type=float17", "type='float17': one of float16, bfloat16, "},
           {"result call=3 shape=2,,3", "shape='2,,3': a list, with commas, each of it a whole"},
           {"result call=3 shape=2,", "shape='2,': a list, with commas"},
           {"kept_at_random name=\"open", "name='\"open': a text was expected."},
           {"kept_at_random name=\"", "name='\"': a text was expected."},
           {"kept_at_random name=\"a\\q\"", "name='\"a\\q\"': a text was expected."},
           {"kept_at_random name=\"a\\x4\"", "name='\"a\\x4\"': a text was expected."},
           {"kept_at_random name=\"a\\xzz\"", "name='\"a\\xzz\"': a text was expected."},
           {"kept_at_random name=\"a\"b", "name='\"a\"b': a text was expected."},
           {"kept_at_random name=a\"b\"", "name='a\"b\"': a text was expected."},
           {"kept_at_random name=a\\n", "name='a\\n': a text was expected."},
           {"kept_at_random name=\"\\\"", "name='\"\\\"': a text was expected."},
           {"output memory", "'memory' is no field: name=value was expected."},
           {"output =4", "'=4' is no field: name=value was expected."},
           {"output memory=4 memory=5", "'memory' is no field of it, or stands there twice."},
           {std::string("output memory=4\0", 16), "memory='4"}}) {
    const std::string wrong = WrongWith(kHead + kBefore + line + "\noutput memory=1\n");
    EXPECT_EQ(wrong.find("Line 5: " + what), 0u) << line << "\n" << wrong;
  }
  EXPECT_EQ(WrongWith("mpnanny tape 1 ; memory=1\n").find("Line 1: Only a call has inputs."), 0u);
  EXPECT_EQ(WrongWith("mpnanny tape 1 step=x\n").find("Line 1: step='x': a whole number"), 0u);
  EXPECT_LT(WrongWith(kHead + "output memory=" + std::string(100000, '9')).size(), 300u);
}

// What a judge would look up by its number, and what it would add up.
TEST(TapeText, RowsThatReferToWhatIsNotThereAreRefused) {
  const std::string most = std::to_string(kMostRows);
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"call number=1 place=2", "there is no place 2 before it"},
           {"call number=1 place=-1", "there is no place -1 before it"},
           {"leaves memory=1", "there is no place -1 before it"},
           {"leaves memory=1 place=2", "there is no place 2 before it"},
           {"formats layer=0 numel=-1", "numel=-1 is no count of elements"},
           {"call number=-1 place=0", "call -1 is no number from 0 to 2097151"},
           {"call number=" + most + " place=0", "call " + most + " is no number from 0"},
           {"call number=2147483647 place=0", "call 2147483647 is no number from 0"},
           {"figures slot=-1 numel=1", "slot -1 is no number from 0"},
           {"figures slot=" + most, "slot " + most + " is no number from 0"},
           {"figures slot=1 numel=-1", "numel=-1 is no count of elements"},
           {"figures slot=1 numel=1 range=9223372036854775807", "range=9223372036854775807 is no"},
           {"change call=3 numel=9223372036854775807", "numel=9223372036854775807 is no count"},
           {"change call=3 moved=-1", "moved=-1 is no count of elements"},
           {"together name=w lost=-1", "lost=-1 is no count of elements"},
           {"result call=4", "there is no call 4 before it"},
           {"result call=2", "there is no call 2 before it"},
           {"result call=-1", "there is no call -1 before it"},
           {"result call=2147483647", "there is no call 2147483647 before it"},
           {"indices call=4", "there is no call 4 before it"},
           {"mask call=-2147483648", "there is no call -2147483648 before it"},
           {"change call=4", "there is no call 4 before it"},
           {"fed call=4", "there is no call 4 before it"},
           {"fed call=3 input=2", "its call has no input 2"},
           {"fed call=3 input=-1", "its call has no input -1"},
           {"answer asked=fills call=4", "there is no call 4 before it"},
           {"answer asked=input call=3", "the answer is one number, of a slot"},
           {"answer asked=input call=3 numbers=1,2", "the answer is one number, of a slot"},
           {"answer asked=input call=3 numbers=1e300", "the answer is no slot"},
           {"answer asked=input call=3 numbers=nan", "the answer is no slot"},
           {"answer asked=index_figures call=3 numbers=0.5", "the answer is no slot"},
           {"answer asked=index_figures call=3 numbers=-2", "the answer is no slot"}}) {
    const std::string wrong = WrongWith(kHead + kBefore + line + "\n");
    EXPECT_EQ(wrong.find("Line 5: This "), 0u) << line << "\n" << wrong;
    EXPECT_NE(wrong.find("refers to what is not there: " + what), std::string::npos) << wrong;
    EXPECT_NE(wrong.find("damaged"), std::string::npos) << wrong;
  }
  const std::string last = std::to_string(kMostRows - 1);
  EXPECT_EQ(WrongWith(kHead + kBefore + "call number=0 place=0\nresult call=0\n"), "");
  for (const std::string& line :
       {"call place=0 number=" + last,
        "figures slot=" + last + " numel=" + std::to_string(kMostElements),
        std::string("fed call=3 input=1"), std::string("answer asked=input call=3 numbers=-1"),
        "answer asked=input call=3 numbers=" + last}) {
    EXPECT_EQ(WrongWith(kHead + kBefore + line + "\n"), "");
  }
}

}  // namespace
}  // namespace mpnanny::judgement
