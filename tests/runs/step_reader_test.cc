// Seeks of single steps against the walk over all of them.
#include "engines/runs/step_reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

void ExpectSeeksAsWalked(const TempFolder& folder, const std::string& file, size_t ranks) {
  auto roots = AllowedRoots::Create({folder.path()});
  ASSERT_TRUE(roots);
  auto source = runs::OpenRun(folder.File(file), *roots, {});
  ASSERT_TRUE(source) << source.error().Text();
  ASSERT_EQ(source->others.size() + 1, ranks);
  std::vector<runs::StepRow> rows;
  ASSERT_TRUE(runs::ForEachStep(*source, {}, [&](const runs::StepRow& row) {
    rows.push_back(row);
    return true;
  }));
  ASSERT_GT(rows.size(), 20u);
  auto reader = runs::StepReader::Create(*source);
  ASSERT_TRUE(reader);
  for (int64_t step = -2; step <= rows.back().step + 2; ++step) {
    const runs::StepRow* after = nullptr;
    const runs::StepRow* before = nullptr;
    for (const runs::StepRow& row : rows) {
      if (row.step >= step && !after) after = &row;
      if (row.step <= step) before = &row;
    }
    auto from = reader->From(step);
    ASSERT_TRUE(from);
    ASSERT_EQ(from->has_value(), after != nullptr) << step;
    if (after) {
      EXPECT_EQ((*from)->step, after->step);
      EXPECT_EQ((*from)->loss, after->loss) << step;
      EXPECT_EQ((*from)->flags, after->flags) << step;
      EXPECT_EQ((*from)->only_in_ring, after->only_in_ring);
    }
    auto up_to = reader->UpTo(step);
    ASSERT_TRUE(up_to);
    ASSERT_EQ(up_to->has_value(), before != nullptr) << step;
    if (before) {
      EXPECT_EQ(**up_to, before->step);
    }
  }
  EXPECT_FALSE(*reader->From(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(*reader->UpTo(std::numeric_limits<int64_t>::max()), rows.back().step);
  EXPECT_EQ((*reader->From(std::numeric_limits<int64_t>::min()))->step, rows.front().step);
}

TEST(StepReaderTest, OneProcessWithItsFlightRecorder) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  const int64_t run = db.Run("killed", "");
  RingFile ring(folder.File("m.db"), run, 1.7e9);
  std::mt19937 random(3);
  for (int64_t step = 0; step < 60; ++step) {
    if (random() % 3 == 0) continue;
    if (step < 50) db.Step(step, {.loss = static_cast<double>(step)});
    if (step > 40) ring.Step(step, static_cast<double>(step) + 0.5);
  }
  ring.Write();
  ExpectSeeksAsWalked(folder, "m.db", 1);
}

TEST(StepReaderTest, RanksMerged) {
  TempFolder folder;
  std::mt19937 random(4);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string number = std::to_string(rank);
    Recording db(folder.File("metrics.rank" + number + ".db"));
    db.Run("train", "closed", "fp16", 1.7e9 + static_cast<double>(rank));
    db.Execute("UPDATE run SET world_size=2, rank=" + number);
    for (int64_t step = 0; step < 60; ++step) {
      if (random() % 3 > 0) db.Step(step, {.loss = static_cast<double>(step + rank)});
    }
  }
  ExpectSeeksAsWalked(folder, "metrics.rank0.db", 2);
}

}  // namespace
}  // namespace mpnanny::test
