// run_summary's outlook: trends of the newer half, and layers that grow towards FP16's maximum.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

constexpr int64_t kFp16 = 2, kBf16 = 3;

Result<ToolOutput> Outlook(const TempFolder& folder) {
  return Call("run_summary", {{"run", "m.db"}}, folder.path());
}

// 400 steps, sampled every 20th: a layer's largest value is multiplied by `factor` each step.
void Record(const std::string& path, double first, double factor, int64_t dtype,
            int64_t nan_at = -1) {
  Recording db(path);
  db.Run("r");
  const int64_t layer = db.Layer("blocks.3.ffn");
  const int64_t calm = db.Layer("blocks.4.ffn");
  db.Execute("BEGIN");
  for (int64_t step = 0; step <= 400; ++step) {
    db.Step(step, {.loss = 2.0 * std::pow(0.999, step), .grad_norm = 1.0 + 0.1 * (step % 2)});
    if (step % 20 != 0) continue;
    db.Stat(step, layer,
            {.dtype = dtype,
             .nan = step == nan_at ? 1 : 0,
             .absmax = first * std::pow(factor, static_cast<double>(step))});
    db.Stat(step, calm, {.dtype = dtype, .absmax = 30'000.0 + static_cast<double>(step % 40)});
  }
  db.Execute("COMMIT");
}

TEST(SummaryForecastTest, ALayerThatGrowsIsToldWithItsStep) {
  TempFolder folder;
  Record(folder.File("m.db"), 655.04, 1.01, kFp16);  // 65504 after 463 steps
  const auto summary = Outlook(folder);
  ASSERT_TRUE(summary);
  const Json& rows = summary->structured["forecast"];
  ASSERT_EQ(rows.size(), 1u) << rows;
  EXPECT_EQ(rows[0]["layer"], "blocks.3.ffn");
  EXPECT_EQ(rows[0]["kind"], "activation");
  EXPECT_EQ(rows[0]["end"], 65504);
  EXPECT_NEAR(rows[0]["step"].get<double>(), 463, 2);
  EXPECT_LE(rows[0]["earliest"], rows[0]["step"]);
  EXPECT_GE(rows[0]["latest"], rows[0]["step"]);
  EXPECT_NE(summary->text.find("Forecast: blocks.3.ffn's output, now 3.51e+04 and growing 1 % a "
                               "step, reaches 65504 (FP16) at about step 463"),
            std::string::npos)
      << summary->text;
}

TEST(SummaryForecastTest, OtherFormatsAndWhatIsBrokenAlreadyAreNotForecast) {
  for (const auto& [dtype, nan_at] : {std::pair(kBf16, -1), std::pair(kFp16, 300)}) {
    TempFolder folder;
    Record(folder.File("m.db"), 655.04, 1.01, dtype, nan_at);
    const auto summary = Outlook(folder);
    ASSERT_TRUE(summary);
    EXPECT_TRUE(summary->structured["forecast"].empty());
    EXPECT_EQ(summary->text.find("Forecast"), std::string::npos);
  }
}

TEST(SummaryForecastTest, ALossScaleThatFallsHasATrend) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("r");
    for (int64_t step = 0; step < 400; ++step) {
      db.Step(step, {.loss = 1.0, .scale = 1024.0 - static_cast<double>(step)});
    }
  }
  const auto summary = Outlook(folder);
  ASSERT_TRUE(summary);
  const Json& trend = summary->structured["trend"]["loss_scale"];
  EXPECT_NEAR(trend["per_100_steps"].get<double>(), -100.0 / 724, 0.01);
  EXPECT_NEAR(trend["scatter"].get<double>(), 0, 0.001);
  EXPECT_NE(summary->text.find("loss scale -1"), std::string::npos) << summary->text;
}

TEST(SummaryForecastTest, TrendsAreRelativeToTheNewerHalf) {
  TempFolder folder;
  Record(folder.File("m.db"), 10, 1, kFp16);
  const auto summary = Outlook(folder);
  ASSERT_TRUE(summary);
  const Json& trend = summary->structured["trend"];
  EXPECT_NEAR(trend["loss"]["per_100_steps"].get<double>(), -0.1, 0.003);  // 0.1 % a step
  EXPECT_LT(trend["loss"]["scatter"].get<double>(), 0.01);
  EXPECT_NEAR(trend["grad_norm"]["per_100_steps"].get<double>(), 0, 0.01);
  EXPECT_NEAR(trend["grad_norm"]["scatter"].get<double>(), 0.05 / 1.05, 0.002);
  EXPECT_TRUE(summary->structured["forecast"].empty());
}

TEST(SummaryForecastTest, AShortRunHasNeither) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("r");
  for (int64_t step = 0; step < 3; ++step) db.Step(step, {.loss = 1.0});
  const auto summary = Outlook(folder);
  ASSERT_TRUE(summary);
  EXPECT_TRUE(summary->structured["trend"]["loss"].is_null());
  EXPECT_TRUE(summary->structured["forecast"].empty());
  EXPECT_EQ(summary->text.find("Trend"), std::string::npos);
}

}  // namespace
}  // namespace mpnanny::test
