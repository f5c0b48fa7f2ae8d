// The diagnosis as text: how files are named.
#include <gtest/gtest.h>

#include <string>

#include "engines/diagnosis/answer/report.h"

namespace mpnanny::diagnosis {
namespace {

std::string TextOf(const Subject& subject, const std::string& reason) {
  Diagnosis diagnosis;
  diagnosis.verdict = Health::kDegraded;
  diagnosis.reason = runs::Sentence(std::string(reason));
  return DiagnosisText(subject, Facts(), diagnosis, 8000);
}

TEST(DiagnosisText, NamesFilesFromTheFolderOfTheScript) {
  const Subject subject{
      .run = "/home/u/p/nanny_logs/metrics.db#1", .name = "train", .folder = "/home/u/p"};
  const std::string text =
      TextOf(subject,
             "/home/u/p/model.py:3 (at /home/u/p/a/b.py:4), /data/home/u/p/c.py:5, "
             "/home/u/pp/d.py:6, x_/home/u/p/e.py:7");
  EXPECT_NE(text.find(": model.py:3 (at a/b.py:4), /data/home/u/p/c.py:5, /home/u/pp/d.py:6, "
                      "x_/home/u/p/e.py:7"),
            std::string::npos)
      << text;
  // The handle is given to other tools as it stands.
  EXPECT_NE(text.find("Run: /home/u/p/nanny_logs/metrics.db#1 \"train\", code in /home/u/p\n"),
            std::string::npos)
      << text;
}

TEST(DiagnosisText, WithoutAKnownFolderNamesStay) {
  const std::string text = TextOf({.run = "/m.db#1", .name = "train"}, "/home/u/p/model.py:3");
  EXPECT_NE(text.find(": /home/u/p/model.py:3"), std::string::npos) << text;
  EXPECT_EQ(text.find("code in"), std::string::npos) << text;
}

}  // namespace
}  // namespace mpnanny::diagnosis
