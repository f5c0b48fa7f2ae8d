// Tapes that small trainings of tests/shadow have written (record_tapes.py), judged again: what was
// found then is found now. UPDATE_TAPES=1 writes found.txt anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engines/judgement/replay.h"
#include "engines/judgement/tape_text.h"

namespace mpnanny::judgement {
namespace {

namespace fs = std::filesystem;

const fs::path kTapes = fs::path(MPNANNY_SOURCE_DIR) / "tests/judgement/tapes";

std::string ContentsOf(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<fs::path> Sorted(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& each : fs::directory_iterator(folder)) {
    if (each.path().extension() == extension) found.push_back(each.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string Line(const Finding& finding, const Calls& calls) {
  const Place& place = calls.PlaceOf(finding.place);
  std::string line = std::string(NameOf(finding.severity)) + " " + NameOf(finding.kind) + " " +
                     NameOf(finding.precision) + " " + place.op + " " + place.Source() + " " +
                     NameOf(place.phase) + " " + finding.dtype + " share " + Number(finding.share) +
                     " in " + Number(finding.error_in) + " out " + Number(finding.error_out);
  if (finding.cure) line += " cure " + finding.cure->what;
  if (finding.came_in) line += " came in " + calls.PlaceOf(finding.came_in->place).Source();
  if (finding.carried) line += std::string(" carried by ") + NameOf(finding.carried->kind);
  for (const Reach& each : finding.reach) {
    line += std::string(" > ") + NameOf(each.what) + " " + each.name + " " + Number(each.error);
  }
  return line;
}

// The findings of a training's tapes, a line each.
std::string Found(const fs::path& folder) {
  std::string text;
  LostChanges run;
  for (const fs::path& file : Sorted(folder, ".tape")) {
    const auto tape = ReadTape(ContentsOf(file));
    EXPECT_TRUE(tape) << file << (tape ? "" : tape.error().Text());
    if (!tape) continue;
    const Replay replay(*tape, run);
    EXPECT_EQ(replay.unanswered(), 0) << file;
    text += file.stem().string() + "\n";
    for (const int number : replay.counting())
      text += "  " + Line(replay.findings()[number], replay.judge().calls()) + "\n";
  }
  return text;
}

TEST(RecordedTapes, YieldWhatWasFoundOnThem) {
  int tapes = 0, healthy = 0;
  for (const auto& each : fs::directory_iterator(kTapes)) {
    const std::string found = Found(each.path());
    const fs::path expected = each.path() / "found.txt";
    if (std::getenv("UPDATE_TAPES") != nullptr) std::ofstream(expected) << found;
    EXPECT_EQ(found, ContentsOf(expected)) << each.path().filename();
    tapes += static_cast<int>(Sorted(each.path(), ".tape").size());
    healthy +=
        found.find("WARNING") == std::string::npos && found.find("ERROR") == std::string::npos ? 1
                                                                                               : 0;
  }
  EXPECT_GE(tapes, 60);
  EXPECT_GE(healthy, 10) << "trainings in which nothing is wrong";
}

}  // namespace
}  // namespace mpnanny::judgement
