// What one file of a project says is known in the others: functions, classes, types and autocast
// regions across imports.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

std::set<std::string> FoundIn(const std::vector<Source>& sources) {
  Options options;
  options.threads = 2;
  const auto report = Check(sources, options, Rules(), {});
  EXPECT_TRUE(report) << report.error().Text();
  std::set<std::string> found;
  for (const Finding& finding : report->findings)
    found.insert(finding.path + ":" + std::to_string(finding.line) + " " + finding.rule);
  // What callers hand in is no proof, and a place to judge whose type is known.
  for (const Candidate& one : report->candidates) {
    const bool type_open =
        std::any_of(one.unknown.begin(), one.unknown.end(),
                    [](const std::string& open) { return open.starts_with("the dtype of"); });
    if (!type_open) found.insert(one.path + ":" + std::to_string(one.line) + " " + one.rule);
  }
  return found;
}

const char kIou[] = R"(import torch

def train_ratio(inter, union):
    return inter / (union + 1e-9)
)";

TEST(Project, AnArgumentCarriesItsTypeIntoAnotherFile) {
  const char* train = R"(import torch
from utils.boxes import train_ratio

def f(a, b):
    return train_ratio(a.half(), b.half())
)";
  EXPECT_EQ(FoundIn({{"train.py", train}, {"utils/boxes.py", kIou}}),
            (std::set<std::string>{"utils/boxes.py:4 eps-underflow-fp16"}));
  EXPECT_EQ(FoundIn({{"utils/boxes.py", kIou}}), (std::set<std::string>{}));
}

TEST(Project, RelativeImportsReexportsAndStarsLeadToTheDefinition) {
  const char* call = "\n\ndef f(a, b):\n    return train_ratio(a.half(), b.half())\n";
  const std::set<std::string> expected = {"pkg/ops/boxes.py:4 eps-underflow-fp16"};
  const Source boxes{"pkg/ops/boxes.py", kIou};
  const Source init{"pkg/ops/__init__.py", "import torch\nfrom .boxes import train_ratio\n"};
  for (const char* import :
       {"from .ops.boxes import train_ratio", "from .ops import train_ratio",
        "from pkg.ops import *", "from .ops.boxes import train_ratio as train_ratio"}) {
    const Source train{"pkg/train.py", std::string("import torch\n") + import + call};
    EXPECT_EQ(FoundIn({train, boxes, init}), expected) << import;
  }
  const Source module{"pkg/train.py",
                      "import torch\nfrom .ops import boxes\n\ndef f(a, b):\n"
                      "    return boxes.train_ratio(a.half(), b.half())\n"};
  EXPECT_EQ(FoundIn({module, boxes, init}), expected);
}

TEST(Project, OfTwoFilesOfThatNameTheNearerOneIsMeant) {
  const Source train{"b/train.py",
                     "import torch\nfrom boxes import train_ratio\n\ndef f(a, b):\n"
                     "    return train_ratio(a.half(), b.half())\n"};
  EXPECT_EQ(FoundIn({train, {"a/boxes.py", kIou}, {"b/boxes.py", kIou}}),
            (std::set<std::string>{"b/boxes.py:4 eps-underflow-fp16"}));
  // Equally near: which one is meant is not known.
  EXPECT_EQ(FoundIn({{"c/train.py", train.text}, {"a/boxes.py", kIou}, {"b/boxes.py", kIou}}),
            (std::set<std::string>{}));
}

TEST(Project, ARegionAroundTheCallOfAModelHoldsInItsForward) {
  const Source net{"model.py", R"(import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        gate = self.fc(x)
        return gate / (gate.mean(-1, keepdim=True) + 1e-9)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x)
)"};
  const auto train = [](const char* dtype) {
    return Source{"train.py", std::string(R"(import torch
from model import Net

def build():
    model = Net()
    return model

def step(model, x):
    with torch.autocast("cuda", dtype=torch.)") +
                                  dtype + R"(), torch.no_grad():
        return model(x)

def main(x):
    model = build().cuda()
    step(model, x)
)"};
  };
  EXPECT_EQ(FoundIn({train("float16"), net}),
            (std::set<std::string>{"model.py:11 eps-underflow-fp16"}));
  EXPECT_EQ(FoundIn({train("bfloat16"), net}), (std::set<std::string>{}));
}

TEST(Project, AModelThatIsCastHasHalfLayers) {
  const Source net{"model.py", R"(import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        gate = self.fc(x)
        return gate / (gate.mean(-1, keepdim=True) + 1e-9)
)"};
  EXPECT_EQ(
      FoundIn({net, {"a.py", "import torch\nfrom model import Net\nm = Net().eval()\nm.half()\n"}}),
      (std::set<std::string>{"model.py:11 eps-underflow-fp16"}));
  EXPECT_EQ(FoundIn({net, {"a.py", "import torch\nfrom model import Net\nm = Net().eval()\n"}}),
            (std::set<std::string>{}));
}

TEST(Project, WhatAFunctionReturnsAndWhatSelfKeepsIsKnown) {
  EXPECT_EQ(FoundIn({{"a.py", R"(import torch

def half(x):
    return x.half()

class Scaler:
    def __init__(self, x):
        self.norm = x.half()

    def apply(self, x):
        y = half(x)
        return x / (self.norm + 1e-9), x / (y + 1e-9)
)"}}),
            (std::set<std::string>{"a.py:12 eps-underflow-fp16"}));
}

TEST(Project, FunctionsThatCallEachOtherEnd) {
  EXPECT_EQ(FoundIn({{"a.py", R"(import torch
from b import g

def f(x):
    return g(x.half())
)"},
                     {"b.py", R"(import torch
from a import f

def g(x):
    return f(x)
)"}}),
            (std::set<std::string>{}));
}

}  // namespace
}  // namespace mpnanny::check
