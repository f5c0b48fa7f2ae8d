// The map of a project: where precision is decided, by line, whatever else stands in the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engines/check/map/map_report.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

constexpr char kTraining[] = R"(import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), eps=1e-8)
averaged = AveragedModel(model)
scaler = torch.amp.GradScaler("cuda")


class Loss:
    def compute(self, x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(x.float(), y)


def train(batches, use_amp):
    for x, y in batches:
        with torch.autocast("cuda"):
            out = model(x)
            with torch.autocast("cuda", enabled=False):
                loss = F.mse_loss(out.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    with torch.autocast("cuda", enabled=use_amp):
        model(x)
    torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
)";

Report MapOf(const std::vector<Source>& sources) {
  Options options;
  options.map = true;
  options.threads = 2;
  auto report = Check(sources, options, Rules(), {});
  EXPECT_TRUE(report) << report.error().Text();
  return *std::move(report);
}

std::vector<std::string> PartOf(const std::vector<Source>& sources, const char* part) {
  std::vector<std::string> lines;
  const ToolOutput output = ShowMap(MapOf(sources), 8000);
  for (const Json& place : output.structured["map"][part]) {
    lines.push_back(place["at"].get<std::string>() + " " + place["what"].get<std::string>());
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Map, TellsWhereEachPartStands) {
  const std::vector<Source> sources = {{"train.py", kTraining}};
  EXPECT_EQ(PartOf(sources, "entry_points"),
            (Lines{"train.py:23 scaler.scale(loss).backward() in train"}));
  EXPECT_EQ(PartOf(sources, "autocast"),
            (Lines{"train.py:13 autocast, cuda, bfloat16, on in Loss.compute",
                   "train.py:19 autocast, cuda, float16 (the default), on in train",
                   "train.py:27 autocast, cuda, float16 (the default), on or off at run time in "
                   "train: torch.autocast(\"cuda\", enabled=use_amp)"}));
  EXPECT_EQ(PartOf(sources, "scalers"),
            (Lines{"train.py:8 scaler = torch.amp.GradScaler(\"cuda\")",
                   "train.py:23 scaler: scale@23 unscale_@24 step@25 update@26 in train"}));
  EXPECT_EQ(PartOf(sources, "boundaries"),
            (Lines{"train.py:14 x.float(), under autocast (bfloat16)",
                   "train.py:21 autocast off in train"}));
  EXPECT_EQ(PartOf(sources, "losses"),
            (Lines{"train.py:14 F.cross_entropy(x.float(), y), under autocast (bfloat16)",
                   "train.py:22 F.mse_loss(out.float(), y), autocast off"}));
  EXPECT_EQ(PartOf(sources, "optimizers"),
            (Lines{"train.py:6 torch.optim.AdamW(model.parameters(), eps=1e-8)"}));
  EXPECT_EQ(PartOf(sources, "averages"), (Lines{"train.py:7 AveragedModel(model)"}));
  const Lines saved = PartOf(sources, "checkpoints");
  ASSERT_EQ(saved.size(), 3U);
  EXPECT_TRUE(saved[0].ends_with("saves the state of an optimizer") ||
              saved[0].starts_with("train.py:29 torch.save"));
}

TEST(Map, NamesAloneAreNoEvidence) {
  // Neither torch's scaler, nor its losses or optimizers, for all their names.
  const Source other{"data.py",
                     "import torch\nfrom sklearn.preprocessing import StandardScaler\n"
                     "scaler = StandardScaler()\nscaler.scale(x)\noptimizer = make()\n"
                     "def cross_entropy(a):\n    return a\nloss = cross_entropy(torch.ones(1))\n"};
  for (const char* part : {"scalers", "losses", "optimizers", "autocast", "entry_points"}) {
    EXPECT_EQ(PartOf({other}, part), Lines{}) << part;
  }
}

TEST(Map, FindsWeightsAndSettings) {
  const Source model{"m.py", "import torch\nnet = torch.nn.Linear(2, 2)\nnet = net.half()\n"};
  EXPECT_EQ(PartOf({model}, "casts"), (Lines{"m.py:3 net cast to float16"}));
  const Source settings{"ds.json",
                        R"({"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128}})"};
  const Lines found = PartOf({settings}, "settings");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("DeepSpeed: "), std::string::npos);
  EXPECT_NE(found[0].find("fp16.loss_scale=128"), std::string::npos);
}

TEST(Map, ANameOfARegionIsFollowedToWhatItStandsFor) {
  const Source source{
      "m.py",
      "import contextlib\nimport torch\n"
      "ctx = contextlib.nullcontext() if cpu else torch.autocast(kind, dtype=dtype)\n"
      "with ctx:\n    pass\n"};
  const Lines found = PartOf({source}, "autocast");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with("m.py:4 autocast, device not known here, dtype not known here"));
  EXPECT_TRUE(found[0].ends_with(
      ": ctx = contextlib.nullcontext() if cpu else torch.autocast(kind, dtype=dtype)"));
}

TEST(Map, WhatIsCalledAsAnAutocastIsFollowedToItsClass) {
  const std::string code =
      "import torch\n"
      "from contextlib import nullcontext\n"
      "from torch.cuda.amp import autocast as ac\n"
      "region = ac if torch.cuda.is_available() else nullcontext\n"
      "half = lambda: torch.autocast('cuda', dtype=torch.float16)\n"
      "nothing = lambda: nullcontext()\n"
      "def f(model, x):\n"
      "    with region():\n"
      "        model(x)\n"
      "    with half():\n"
      "        model(x)\n"
      "    with nothing():\n"
      "        return model(x)\n";
  const std::vector<std::string> found = PartOf({{"a.py", code}}, "autocast");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].starts_with("a.py:8 ")) << found[0];  // on or off is not known
  EXPECT_EQ(found[1], "a.py:10 autocast, cuda, float16, on in f");
}

TEST(Map, PlacesThatSayTheSameAreOneLine) {
  std::string many = "import torch\ndef f(x):\n";
  for (int i = 0; i < 9; ++i) many += "    y = x.half()\n";
  EXPECT_EQ(PartOf({{"m.py", many}}, "boundaries"), (Lines{"m.py:3, 4, 5, 6, … x.half()"}));
}

TEST(Map, TheFilesThatTrainComeFirst) {
  const Source aside{"a.py", "import torch\ny = torch.nn.MSELoss()\n"};
  const Lines losses = PartOf({aside, {"z.py", kTraining}}, "losses");
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_TRUE(losses[0].starts_with("z.py:"));
  EXPECT_TRUE(losses[2].starts_with("a.py:"));
}

TEST(Map, ALargeProjectHasRoomForEveryPart) {
  std::vector<Source> sources;
  for (int i = 0; i < 60; ++i) sources.push_back({"part" + std::to_string(i) + ".py", kTraining});
  const Report report = MapOf(sources);
  const ToolOutput output = ShowMap(report, 8000);
  EXPECT_LE(DumpJson(output.structured).size(), kMapBytes);
  EXPECT_LE(output.text.size(), kMapBytes);
  size_t shown = 0, left = 0;
  for (const char* part : {"entry_points", "autocast", "scalers", "boundaries", "losses",
                           "optimizers", "averages", "checkpoints"}) {
    EXPECT_GE(output.structured["map"][part].size(), 2U) << part;
    shown += output.structured["map"][part].size();
    left += output.structured["map"]["left_out"].value(part, 0U);
  }
  EXPECT_EQ(shown + left, report.map.size());
  const ToolOutput whole = ShowMap(report, SIZE_MAX);
  EXPECT_FALSE(whole.structured["map"].contains("left_out"));
}

TEST(Map, WhatStandsInTheCodeIsEscaped) {
  const Source hostile{
      "m\x1b[2J.py",
      "import torch\nloss = torch.nn.MSELoss(  # \xe2\x80\xae\n  reduction='\x07')\n"};
  const Lines losses = PartOf({hostile}, "losses");
  ASSERT_EQ(losses.size(), 1U);
  for (const char c : losses[0]) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(Map, BrokenAndEmptySourcesHaveOne) {
  for (const std::string& text :
       {std::string("import torch\ndef f(:\n  x.half(\n"), std::string(""), std::string("\xff\xfe"),
        std::string("import torch\nwith torch.autocast(\n")}) {
    const ToolOutput output = ShowMap(MapOf({{"b.py", text}}), 8000);
    EXPECT_TRUE(output.structured["map"].is_object());
    EXPECT_FALSE(output.text.empty());
  }
}

}  // namespace
}  // namespace mpnanny::check
