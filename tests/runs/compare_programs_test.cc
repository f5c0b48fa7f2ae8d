// compare_runs of two runs that are not one program in two settings.
#include <gtest/gtest.h>

#include <string>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

class ComparePrograms : public ::testing::Test {
 protected:
  void Record(const char* file, const std::string& prefix, int layers, const std::string& script) {
    Recording db(folder_.File(file));
    db.Run("run");
    for (int l = 0; l < layers; ++l) db.Layer(prefix + std::to_string(l));
    db.Execute("UPDATE layer SET numel = 64");
    db.Execute("UPDATE run SET environment = '{\"script\": \"" + script + "\"}'");
    for (int64_t step = 0; step < 40; ++step) db.Step(step, {.loss = 1.0});
  }
  // The first line; the field beside it.
  std::string Told() {
    const auto output = Call("compare_runs", {{"a", "a.db"}, {"b", "b.db"}}, folder_.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    if (!output) return "";
    field_ = output->structured["different_programs"];
    return output->text.substr(0, output->text.find('\n'));
  }

  TempFolder folder_;
  Json field_;
};

TEST_F(ComparePrograms, OneProgramIsNotTold) {
  Record("a.db", "blocks.", 12, "/home/x/train.py");
  Record("b.db", "module.blocks.", 11, "/home/y/train.py");
  EXPECT_TRUE(Told().starts_with("Verdict on b"));
  EXPECT_EQ(field_, nullptr);
}

TEST_F(ComparePrograms, OtherLayersOtherSizesOtherScripts) {
  Record("a.db", "blocks.", 12, "/home/x/train.py");
  Record("b.db", "generator.", 8, "/home/x/train.py");
  EXPECT_TRUE(
      Told().starts_with("a and b are two different programs: they share 0 of 12 and 8 layers."))
      << Told();
  EXPECT_TRUE(field_.is_string());
  Record("b.db", "blocks.", 12, "/home/x/gan.py");
  EXPECT_TRUE(Told().starts_with("a and b come from two scripts: a ran train.py, b gan.py."))
      << Told();
  Recording(folder_.File("b.db")).Execute("UPDATE layer SET numel = 65");
  EXPECT_TRUE(
      Told().starts_with("a and b are two different programs: 12 of 12 layers of one name "
                         "have other sizes; a ran train.py, b gan.py."))
      << Told();
}

}  // namespace
}  // namespace mpnanny::test
