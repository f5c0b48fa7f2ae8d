// run_summary: its course, its reasons, and the page to send on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>
#include <tuple>

#include "base/data_files.h"
#include "engines/diagnosis/summary/markdown.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

using summary::CourseLine;
using summary::MarkdownCode;
using summary::MarkdownText;

Json Summary(const TempFolder& folder) {
  auto output = Call("run_summary", {{"run", "m.db"}}, folder.path());
  EXPECT_TRUE(output) << (output ? "" : output.error().Text());
  return output ? output->structured : Json::object();
}

std::string Page(const Json& summary) {
  static const DataFiles data = *DataFiles::Create();
  return FindTool("run_summary").definition.command.formats.at("md")(summary, {data, false});
}

TEST(SummaryTest, CourseOfALongRunHasAtMost32StretchesAndKeepsExtremes) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("r");
  db.Execute("BEGIN");
  for (int64_t step = 0; step < 10'000; ++step) {
    db.Step(step, {.loss = step == 7'000   ? 50.0
                           : step == 9'999 ? kNan
                                           : 1.0,
                   .scale = step == 3'000 ? 2.0 : 1024.0});
  }
  db.Execute("COMMIT");
  const Json course = Summary(folder)["course"];
  const size_t count = course["step"].size();
  EXPECT_LE(count, 32u);
  EXPECT_GE(count, 16u);
  EXPECT_EQ(course["step"][0], 0);
  double greatest = 0, least = 1e9;
  for (size_t i = 0; i < count; ++i) {
    greatest = std::max(greatest, course["loss_max"][i].get<double>());
    least = std::min(least, course["loss_scale"][i].get<double>());
  }
  EXPECT_EQ(greatest, 50);
  EXPECT_EQ(least, 2);
  EXPECT_EQ(course["loss"][0], 1);
  EXPECT_EQ(course["loss"].back(), "nan");
}

// Steps `first` to 49 have gradients that are not finite, every `each`th of them.
void RecordBadGradients(Recording& db, int64_t first, int64_t each) {
  db.Run("r", "closed", "bf16");
  for (int64_t step = 0; step < 50; ++step) {
    const bool bad = step >= first && (step - first) % each == 0;
    db.Step(step, {.loss = 1.0, .flags = bad ? 4u : 0u});
  }
  const int64_t layer = db.Layer("head");
  db.Alert(first, {.type = "NAN", .phase = "backward", .layer = layer, .kind = 3});
}

TEST(SummaryTest, NonFiniteGradientsUpToTheEndAreNotStable) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    RecordBadGradients(db, 20, 1);
  }
  const Json summary = Summary(folder);
  EXPECT_EQ(summary["stable"], false);
  EXPECT_NE(DumpJson(summary["reasons"]).find("first at step 20"), std::string::npos);
}

TEST(SummaryTest, GradientsThatNeverCameIntoTheWeightsDoNotDecide) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    RecordBadGradients(db, 20, 10);
  }
  const Json summary = Summary(folder);
  EXPECT_EQ(summary["stable"], true);
  EXPECT_NE(DumpJson(summary["reasons"]).find("3 steps, first at step 20, and did not come into"),
            std::string::npos);
  const auto diagnosis = Call("diagnose_run", {{"run", "m.db"}}, folder.path());
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->structured["verdict"], "healthy");
}

TEST(SummaryTest, ALossThatBreaksAfterNonFiniteGradientsDecides) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    RecordBadGradients(db, 20, 10);
    db.Step(50, {.loss = std::nullopt, .flags = 1});
  }
  EXPECT_EQ(Summary(folder)["stable"], false);
}

TEST(SummaryTest, WarningsAreToldAndDoNotDecide) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("r");
  for (int64_t step = 0; step < 50; ++step) {
    db.Step(step, {.loss = 1.0 - 0.01 * static_cast<double>(step)});
  }
  db.Alert(30, {.type = "STALE_UPDATE", .severity = "WARNING"});
  const Json summary = Summary(folder);
  EXPECT_EQ(summary["stable"], true);
  EXPECT_EQ(summary["verdict"], "healthy");
  EXPECT_NE(DumpJson(summary["reasons"]).find("1 WARNING alert: STALE_UPDATE from step 30"),
            std::string::npos);
}

// What the diagnosis calls degraded or broken the summary does not call stable, and what ended with
// an exception nobody calls healthy.
TEST(SummaryTest, TheVerdictIsTheDiagnosis) {
  TempFolder folder;
  {
    Recording db(folder.File("m.db"));
    db.Run("learns nothing");
    for (int64_t step = 0; step < 50; ++step) db.Step(step, {.loss = 1.0});
    db.Alert(30, {.type = "STALE_UPDATE", .severity = "WARNING"});
    db.Run("fails", "exception");
    for (int64_t step = 0; step < 50; ++step) {
      db.Step(step, {.loss = 1.0 - 0.01 * static_cast<double>(step)});
    }
  }
  for (const auto& [run, verdict, words] :
       {std::tuple("m.db#1", "degraded", "DEGRADED"),
        std::tuple("m.db#2", "healthy", "ENDED WITH AN EXCEPTION, numbers healthy")}) {
    auto diagnosis = Call("diagnose_run", {{"run", run}}, folder.path());
    auto summary = Call("run_summary", {{"run", run}}, folder.path());
    ASSERT_TRUE(diagnosis && summary);
    EXPECT_EQ(diagnosis->structured["verdict"], verdict);
    EXPECT_EQ(summary->structured["verdict"], verdict);
    EXPECT_EQ(summary->structured["stable"], std::string(verdict) == "healthy");
    const std::string headline = diagnosis->structured["headline"];
    const std::string reason = summary->structured["reasons"][0];
    EXPECT_TRUE(headline.starts_with(reason)) << headline << "\n" << reason;
    for (const std::string& text : {diagnosis->text, summary->text, Page(summary->structured)}) {
      EXPECT_NE(text.find(words), std::string::npos) << text;
    }
    EXPECT_EQ(diagnosis->text.find("HEALTHY"), std::string::npos) << diagnosis->text;
  }
}

TEST(SummaryTest, StepsThatARunningJobHasNotWrittenYetAreToldAsSuch) {
  for (const bool runs : {true, false}) {
    TempFolder folder;
    Recording db(folder.File("m.db"));
    const double started = runs ? static_cast<double>(std::time(nullptr)) : 1.7e9;
    const int64_t run = db.Run("r", "", "fp16", started);
    db.Step(0, {.loss = 1.0});
    RingFile ring(folder.File("m.db"), run, started);
    ring.Step(1, 0.9);
    ring.Write();
    const Json summary = Summary(folder);
    EXPECT_EQ(summary["status"], runs ? "running" : "killed");
    const std::string notes = DumpJson(summary["notes"]);
    EXPECT_NE(notes.find(runs ? "the run still goes on" : "the process ended before it could"),
              std::string::npos)
        << notes;
  }
}

TEST(SummaryMarkdownTest, OnePageWithEverything) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("my run", "exception", "fp16");
  for (int64_t step = 0; step < 60; ++step) {
    db.Step(step,
            {.loss = step < 40 ? 2.0 - 0.01 * static_cast<double>(step) : kNan, .scale = 1024});
  }
  db.Alert(40, {.type = "NAN", .layer = db.Layer("blocks.3.attn")});
  const std::string page = Page(Summary(folder));
  for (const char* part :
       {"# Run `my run`", "**BROKEN**, exception", "## How it went", "loss scale", "▁!",
        "## Alerts", "`NAN`", "`blocks.3.attn`", "## What to do next", "mpnanny diagnose",
        "## Environment", "`torch`", "2.13.0"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
  EXPECT_LT(page.size(), 8000u);
}

TEST(SummaryMarkdownTest, NamesMakeNoMarkup) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("x` | <script>alert(1)</script>\n# big");
  db.Step(0, {.loss = 1.0});
  const std::string name = "a|b`c``d [x](http://evil) *y* <b> \\| _z_\n\n# title";
  db.Alert(0, {.type = "NAN", .layer = db.Layer(name)});
  const std::string page = Page(Summary(folder));
  EXPECT_EQ(page.find("\n# title"), std::string::npos);
  EXPECT_EQ(page.find("\n# big"), std::string::npos);
  // Every row of the table of alerts has its five cells: pipes in names are escaped.
  const size_t row = page.find("| ERROR |");
  ASSERT_NE(row, std::string::npos) << page;
  int cells = 0;
  for (size_t at = row; page[at] != '\n'; ++at) {
    if (page[at] == '|' && (at == 0 || page[at - 1] != '\\')) ++cells;
  }
  EXPECT_EQ(cells, 6) << page.substr(row, 300);
  EXPECT_NE(page.find("```a\\|b`c``d"), std::string::npos) << page.substr(row, 300);
}

TEST(SummaryMarkdownTest, CodeSpansHoldWhatTheyAreGiven) {
  EXPECT_EQ(MarkdownCode("a.b"), "`a.b`");
  EXPECT_EQ(MarkdownCode("a`b"), "``a`b``");
  EXPECT_EQ(MarkdownCode("`a`"), "`` `a` ``");
  EXPECT_EQ(MarkdownCode(""), "`  `");
  EXPECT_EQ(MarkdownCode("a|b"), "`a\\|b`");
  EXPECT_EQ(MarkdownText("a_b [c](d) <e> | `f`"), "a\\_b \\[c\\](d) \\<e\\> \\| \\`f\\`");
}

TEST(SummaryMarkdownTest, CourseLineShowsExtremesGapsAndNonFinite) {
  EXPECT_EQ(CourseLine(Json::array()), "");
  EXPECT_EQ(CourseLine({0, 7, "nan", nullptr}), "▁█! ");
  EXPECT_EQ(CourseLine({3, 3}), "▄▄");
}

TEST(SummaryMarkdownTest, ARunOfWhichNothingWasRecorded) {
  TempFolder folder;
  Recording db(folder.File("m.db"));
  db.Run("empty");
  const std::string page = Page(Summary(folder));
  EXPECT_NE(page.find("Nothing recorded"), std::string::npos);
  EXPECT_NE(page.find("None."), std::string::npos);
}

}  // namespace
}  // namespace mpnanny::test
