// Edits are offered only where the other paths of the code stay as they were.
#include <gtest/gtest.h>

#include <string>

#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

constexpr char kTrainHead[] = R"(import torch

def train(model, batches, optimizer, use_amp, clip, every):
    scaler = torch.amp.GradScaler("cuda") if use_amp else None
    for i, x in enumerate(batches):
        with torch.autocast("cuda"):
            loss = model(x)
)";

// The text that the edit of the only finding of the rule inserts; "none" without an edit.
std::string EditOf(const std::string& body) {
  Options options;
  options.rules = {"clip-before-unscale"};
  const auto report = Check({{"train.py", kTrainHead + body}}, options, Rules(), {});
  EXPECT_TRUE(report);
  EXPECT_EQ(report->findings.size(), 1U) << body;
  if (report->findings.empty()) return "no finding";
  const auto& edits = report->findings.front().edits;
  return edits.empty() ? "none" : edits.front().text;
}

constexpr char kClipLine[] = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n";

TEST(Edits, UnscaleStandsWhereTheStepFollowsInTheSameBlock) {
  EXPECT_NE(EditOf(std::string("        scaler.scale(loss).backward()\n        ") + kClipLine +
                   "        scaler.step(optimizer)\n        scaler.update()\n")
                .find("scaler.unscale_(optimizer)"),
            std::string::npos);
}

TEST(Edits, UnscaleStandsInABranchWhoseStepFollowsInAnyCase) {
  EXPECT_NE(EditOf(std::string("        scaler.scale(loss).backward()\n        if clip:\n"
                               "            ") +
                   kClipLine + "        scaler.step(optimizer)\n        scaler.update()\n")
                .find("scaler.unscale_(optimizer)"),
            std::string::npos);
}

TEST(Edits, NoneWhereTheScalerMayBeNone) {
  EXPECT_EQ(EditOf(std::string("        if scaler is not None:\n"
                               "            scaler.scale(loss).backward()\n"
                               "        else:\n            loss.backward()\n        ") +
                   kClipLine +
                   "        if scaler is not None:\n            scaler.step(optimizer)\n"
                   "            scaler.update()\n        else:\n            optimizer.step()\n"),
            "none");
}

TEST(Edits, NoneWhereEveryMicroBatchIsClippedAndFewStep) {
  EXPECT_EQ(EditOf(std::string("        scaler.scale(loss).backward()\n        ") + kClipLine +
                   "        if i % every == 0:\n            scaler.step(optimizer)\n"
                   "            scaler.update()\n"),
            "none");
}

TEST(Edits, NoneWhereTheTurnMayEndBeforeTheStep) {
  EXPECT_EQ(EditOf(std::string("        scaler.scale(loss).backward()\n        ") + kClipLine +
                   "        if i % every:\n            continue\n"
                   "        scaler.step(optimizer)\n        scaler.update()\n"),
            "none");
}

}  // namespace
}  // namespace mpnanny::check
