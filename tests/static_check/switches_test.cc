// What a switch of the user decides is no error: it is a warning that names the condition, and a
// place to judge where nobody switches it on.
#include <string>

#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

// A training step that clips scaled gradients where `condition` holds.
Report Clips(const std::string& parameters, const std::string& condition,
             const std::string& after = "") {
  return CheckCode(
      "import torch\n"
      "def step(model, loss, optimizer" +
      parameters +
      "):\n"
      "    scaler = torch.amp.GradScaler('cuda')\n"
      "    scaler.scale(loss).backward()\n"
      "    if " +
      condition +
      ":\n"
      "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
      "    scaler.step(optimizer)\n"
      "    scaler.update()\n"
      "    optimizer.zero_grad()\n" +
      after);
}

std::string Severities(const Report& report) {
  std::string all;
  for (const Finding& finding : report.findings) {
    if (finding.rule == "clip-before-unscale") all += SeverityName(finding.severity);
  }
  for (const Candidate& one : report.candidates) {
    if (one.rule == "clip-before-unscale") all += "candidate";
  }
  return all;
}

TEST(Switches, WhatAParameterDecidesIsAWarningThatNamesIt) {
  for (const std::string condition :
       {"clip", "clip is not None", "clip > 0", "not (clip is None)", "clip and model.training"}) {
    const Report report = Clips(", clip=None", condition);
    EXPECT_EQ(Severities(report), "warning") << condition;
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_TRUE(report.findings[0].message.starts_with("Where `" + condition + "` holds, gradients are clipped"))
        << report.findings[0].message;
  }
  EXPECT_EQ(Severities(Clips(", args", "args.clip > 0")), "warning");
  EXPECT_EQ(Severities(Clips(", clip", "clip")), "warning");
}

TEST(Switches, WhatIsOnByDefaultOrNoSwitchIsAnError) {
  EXPECT_EQ(Severities(Clips(", clip=1.0", "clip")), "error");
  EXPECT_EQ(Severities(Clips("", "True")), "error");
  EXPECT_EQ(Severities(Clips("", "model.training")), "error");
  EXPECT_EQ(Severities(Clips("", "loss.item() > 3")), "error");
  EXPECT_EQ(Severities(Clips(", use_amp=False", "use_amp")), "error");
}

TEST(Switches, WhatNobodySwitchesOnIsAPlaceToJudge) {
  EXPECT_EQ(Severities(Clips(", clip=None", "clip", "step(m, l, o)\n")), "candidate");
  EXPECT_EQ(Severities(Clips(", clip=None", "clip", "step(m, l, o, 1.0)\n")), "warning");
  EXPECT_EQ(Severities(Clips(", clip=None", "clip", "step(m, l, o)\nstep(m, l, o, clip=1.0)\n")),
            "warning");
  EXPECT_EQ(Severities(Clips(", clip=None", "clip", "step(m, l, o, **options)\n")), "warning");
}

TEST(Switches, AnAttributeThatOnlyInitSetsIsOne) {
  const auto with = [](const std::string& more) {
    return Severities(
        CheckCode("import torch\n"
                  "class Trainer:\n"
                  "    def __init__(self, clip):\n"
                  "        self.clip = clip\n"
                  "        self.scaler = torch.amp.GradScaler('cuda')\n"
                  "    def step(self, model, loss, optimizer):\n"
                  "        self.scaler.scale(loss).backward()\n"
                  "        if self.clip:\n"
                  "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                  "        self.scaler.step(optimizer)\n"
                  "        self.scaler.update()\n"
                  "        optimizer.zero_grad()\n" +
                  more));
  };
  EXPECT_EQ(with(""), "warning");
  EXPECT_EQ(with("    def start(self):\n        self.clip = True\n"), "error");
}

TEST(Switches, AScalerThatNobodySwitchesOnIsMadeAnewForNothing) {
  const auto report = [](const std::string& call) {
    return CheckCode(
        "import torch\n"
        "def train_one_epoch(model, loader, optimizer, epoch, use_amp=False):\n"
        "    scaler = torch.amp.GradScaler('cuda', enabled=use_amp)\n"
        "    for x in loader:\n"
        "        with torch.autocast('cuda', dtype=torch.float16, enabled=use_amp):\n"
        "            loss = model(x).mean()\n"
        "        optimizer.zero_grad()\n"
        "        scaler.scale(loss).backward()\n"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
        "for e in range(9):\n"
        "    train_one_epoch(model, loader, optimizer, e" +
        call + ")\n");
  };
  EXPECT_EQ(Found(report("")), std::set<std::string>{});
  EXPECT_EQ(Found(report(", use_amp=True")),
            std::set<std::string>{"3 warning scaler-recreated-per-epoch"});
}

}  // namespace
}  // namespace mpnanny::check
