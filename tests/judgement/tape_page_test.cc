// A tape for a person: what was found, with its figures, and why each result is a finding or none.
#include "engines/judgement/tape_page.h"

#include <gtest/gtest.h>

#include <string>

#include "engines/judgement/tape_text.h"

namespace mpnanny::judgement {
namespace {

const char kTape[] = R"(mpnanny tape 1 step=120 first_loss=2.3
place op=aten.mul.Tensor forward=torch.mul file=train.py line=12 module=fc
place op=aten.relu.default file=train.py line=13 module=""
place op=aten.exp.default phase=backward
figures slot=0 numel=4 squared_error=4e-6 squared_reference=4 max_reference=1
call number=1 place=0 ; memory=1 type=float16 slot=0
figures slot=1 numel=4 nonzero=4 squared_error=1 squared_reference=4 max_reference=1
result call=1 memory=2 type=float16 shape=2,2 slot=1
answer asked=cure call=1 numbers=0.5,0.001,1 words=amplified,"",float32,train.py:12,aten.mul.Tensor
figures slot=2 numel=4 squared_error=1.44 squared_reference=4 max_reference=1
call number=2 place=1 ; memory=2 type=float16 slot=1
result call=2 memory=3 type=float16 shape=4 slot=2
loss memory=3 slot=2
figures slot=3 numel=4 range=1 nonzero=4 squared_reference=3 max_reference=1e5
call number=3 place=2 ; memory=1 type=float16 slot=0
result call=3 memory=4 type=float16 slot=3
answer asked=cure call=3 words=range,"not tried, too dear"
)";

TEST(TapePage, TellsTheFindingsAndEveryRow) {
  const auto tape = ReadTape(kTape);
  ASSERT_TRUE(tape) << tape.error().Text();
  LostChanges run;
  const Replay replay(*tape, run);
  EXPECT_EQ(PageOf(*tape, replay),
            R"(Step 120, 16 rows, 3 places, first loss 2.3.
3 results: 2 found, 1 carried.
2 questions of the judge had no answer on the tape: it was recorded by another version.

finding 0: WARNING amplified, aten.mul.Tensor at train.py:12 (forward, module fc)
    float16 [2, 2]; 100 % of it; error 0.001 → 0.5; largest reference 1
    reaches loss (0.6)
    cure in float32: train.py:12; error 0.5 → 0.001
)");
  const std::string rows = RowsOf(*tape, replay);
  for (const char* line :
       {"0  place op=aten.mul.Tensor forward=torch.mul file=train.py line=12 module=fc\n1  place ",
        "\n5  figures slot=1 numel=4 nonzero=4 squared_error=1 squared_reference=4 "
        "max_reference=1\n      error 0.5 of 4 elements\n6  ",
        "\n6  result call=1 memory=2 type=float16 shape=2,2 slot=1\n      aten.mul.Tensor at "
        "train.py:12 (forward, module fc); error 0.5 of 4 elements\n      finding 0\n7  answer ",
        "\n9  call number=2 place=1 ; memory=2 type=float16 slot=1\n      aten.relu.default at "
        "train.py:13 (forward, the model); input 0 has error 0.5 of finding 0\n10  ",
        "\n      carried: 0.5 came in, and it is less than 5 times as much; the error of finding 0"
        "\n11  loss memory=3 slot=2\n      error 0.6 of 4 elements\n12  ",
        "\n      error 0 of 4 elements, 1 not finite here only\n",
        "\nDoes not count: finding 1: INFO range, aten.exp.default (backward)\n    float16 []; 25 "
        "% of it; error 0.001 → inf; largest reference 1e+05\n    reaches nothing\n    cure not "
        "known: not tried, too dear\n"}) {
    EXPECT_NE(rows.find(line), std::string::npos) << line << "\n" << rows;
  }
}

TEST(TapePage, TellsWhatLeavesALayer) {
  const auto tape = ReadTape(R"(mpnanny tape 1
place op=aten.mul.Tensor file=train.py line=12 module=fc
place op=aten.relu.default file=train.py line=13 module=act
figures slot=0 numel=4 squared_error=4e-6 squared_reference=4 max_reference=1
call number=1 place=0 ; memory=1 type=float16 slot=0
figures slot=1 numel=4 nonzero=4 squared_error=4e-4 squared_reference=4 max_reference=7
result call=1 memory=2 type=float16 shape=4 slot=1
call number=2 place=1 ; memory=2 type=float16 slot=1
formats layer=0 numel=4 finite=4 rms=1 fp16=0.0004 bf16=0.002 fp16_overflow=1
)");
  ASSERT_TRUE(tape) << tape.error().Text();
  LostChanges run;
  const std::string rows = RowsOf(*tape, Replay(*tape, run));
  EXPECT_NE(rows.find("\nLayers, and what leaves them:\n"
                      "  fc (forward): float16; 1 operator; error 0.01; largest reference 7; error "
                      "in float16 0.0004, bfloat16 0.002, float8_e4m3fn 0, float8_e5m2 0, share "
                      "that overflows float16 0.25, underflows it 0\n"),
            std::string::npos)
      << rows;
}

TEST(TapePage, ATapeWithoutFindingsSaysSo) {
  const auto tape = ReadTape("mpnanny tape 1\n");
  LostChanges run;
  EXPECT_EQ(PageOf(*tape, Replay(*tape, run)),
            "Step 0, 0 rows, 0 places.\n0 results.\nNothing was found.\n");
}

}  // namespace
}  // namespace mpnanny::judgement
