// Comments that silence findings, and those that silence nothing.
#include "engines/check/report/suppressions.h"

#include <string>

#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

// The finding is in the call of clip_grad_norm_, which spans the lines of {0} to {2}.
std::string Code(const std::string& top, const std::string& above, const std::string& first,
                 const std::string& second, const std::string& below) {
  return top +
         "import torch\n"
         "def train(model, loss, optimizer):\n"
         "    scaler = torch.amp.GradScaler('cuda')\n"
         "    scaler.scale(loss).backward()\n" +
         above + "    torch.nn.utils.clip_grad_norm_(" + first +
         "\n"
         "        model.parameters()," +
         second +
         "\n"
         "        1.0)" +
         below +
         "\n"
         "    scaler.step(optimizer)\n"
         "    scaler.update()\n";
}

bool IsSilent(const std::string& code) {
  const Report report = CheckCode(code);
  EXPECT_TRUE(report.notes.empty()) << report.notes[0];
  EXPECT_EQ(report.suppressed, report.findings.empty() ? 1 : 0) << code;
  return report.findings.empty();
}

TEST(Suppressions, StandOnAnyLineOfTheStatementOrAloneAbove) {
  EXPECT_FALSE(IsSilent(Code("", "", "", "", "")));
  const std::string mark = "  # mpnanny: ignore[clip-before-unscale]";
  EXPECT_TRUE(IsSilent(Code("", "", mark, "", "")));
  EXPECT_TRUE(IsSilent(Code("", "", "", mark, "")));
  EXPECT_TRUE(IsSilent(Code("", "", "", "", mark)));
  EXPECT_TRUE(IsSilent(Code("", "  " + mark + "\n", "", "", "")));
  EXPECT_TRUE(IsSilent(Code("", "  " + mark + "\n    # since the model is frozen\n", "", "", "")));
  EXPECT_FALSE(IsSilent(Code("", "  " + mark + "\n\n", "", "", ""))) << "an empty line parts them";
  EXPECT_FALSE(IsSilent(Code("", "    x = 1" + mark + "\n", "", "", "")))
      << "that is the line above's own";
  EXPECT_FALSE(IsSilent(Code("", "", "", "", "\n    x = 1" + mark)));
}

TEST(Suppressions, OfTheWholeFileStandAtItsTop) {
  for (const char* top :
       {"# mpnanny: ignore-file\n",
        "#!/usr/bin/env python\n# mpnanny: ignore-file[clip-before-unscale]\n",
        "'''About.'''\n# mpnanny: ignore-file[double-unscale, clip-before-unscale]\n"}) {
    EXPECT_TRUE(IsSilent(Code(top, "", "", "", ""))) << top;
  }
  EXPECT_FALSE(IsSilent(Code("# mpnanny: ignore-file[double-unscale]\n", "", "", "", "")));
  EXPECT_FALSE(IsSilent(Code("x = 1\n# mpnanny: ignore-file\n", "", "", "", "")));
}

TEST(Suppressions, AreCommentsAndNothingElse) {
  EXPECT_FALSE(IsSilent(Code("", "    x = '''\n    # mpnanny: ignore'''\n", "", "", "")));
  EXPECT_FALSE(IsSilent(Code("", "    # mpnanny: ignored this for years\n", "", "", "")));
  EXPECT_FALSE(IsSilent(Code("", "    # mpnanny: ignore[]\n", "", "", "")));
  EXPECT_TRUE(IsSilent(Code("", "    # mpnanny: ignore  # noqa\n", "", "", "")));
}

// A comment in the block of a `with` is not about the `with`.
TEST(Suppressions, OfABlockStandAtItsHead) {
  const auto count = [](const std::string& text) { return CheckCode(text).findings.size(); };
  const std::string mark = "  # mpnanny: ignore";
  const std::string old =
      "import torch\nwith torch.cuda.amp.autocast(torch.bfloat16):{}\n    x = 1{}\n";
  const auto with = [&](const std::string& head, const std::string& inside) {
    std::string text = old;
    text.replace(text.find("{}"), 2, head);
    return text.replace(text.find("{}"), 2, inside);
  };
  ASSERT_EQ(count(with("", "")), 1u);
  EXPECT_EQ(count(with(mark, "")), 0u);
  EXPECT_EQ(count(with("", mark)), 1u);
  EXPECT_EQ(count(with("\n    # mpnanny: ignore", "")), 1u);
}

TEST(Suppressions, ThatSilenceNothingAreTold) {
  Options options;
  options.report_unused_ignores = true;
  const auto notes = [&](const std::string& code) {
    const auto report = Check({{"a.py", code}}, options, Rules(), {});
    EXPECT_TRUE(report);
    return report->notes;
  };
  EXPECT_TRUE(notes(Code("", "", "  # mpnanny: ignore", "", "")).empty());
  auto told =
      notes(Code("", "", "  # mpnanny: ignore[clip-before-unscale, double-unscale]", "", ""));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], "a.py:5: `# mpnanny: ignore[double-unscale]` silences nothing.");
  told = notes(Code("# mpnanny: ignore-file[clip-before-unscaled]\n", "", "", "", ""));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(
      told[0].find("a.py:1: `# mpnanny: ignore-file[clip-before-unscaled]` names no rule. Did "
                   "you mean 'clip-before-unscale'"),
      std::string::npos)
      << told[0];
  options.ignore = {"double-unscale"};
  EXPECT_TRUE(
      notes(Code("", "", "  # mpnanny: ignore[clip-before-unscale, double-unscale]", "", ""))
          .empty())
      << "a rule that did not run could not be silenced";
  EXPECT_TRUE(notes("import torch\ndef f(model):\n    for b in [1]:\n"
                    "        torch.set_default_dtype(torch.half)  # mpnanny: ignore\n")
                  .empty())
      << "it silences a place to judge";
  options.min_severity = Severity::kError;
  EXPECT_TRUE(notes("import torch\ntorch.autocast('cuda')  # mpnanny: ignore\n").empty())
      << "it silences what is merely not shown";
}

}  // namespace
}  // namespace mpnanny::check
