// The order of a GradScaler's calls through helpers: deeper than one call, through objects, lambdas
// and partial, and in other files. The traps that a reader falls into must stay silent.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

// "train.py:7 clip-before-unscale"; of the rule `to_judge` candidates, too.
std::vector<std::string> FoundLines(const std::vector<Source>& sources,
                                    const std::string& to_judge = "") {
  const auto report = Check(sources, {}, Rules(), {});
  EXPECT_TRUE(report);
  std::vector<std::string> found;
  if (!report) return found;
  for (const Finding& finding : report->findings)
    found.push_back(finding.path + ":" + std::to_string(finding.line) + " " + finding.rule);
  for (const Candidate& one : report->candidates) {
    if (one.rule == to_judge)
      found.push_back(one.path + ":" + std::to_string(one.line) + " " + one.rule);
  }
  std::sort(found.begin(), found.end());
  return found;
}

using Lines = std::vector<std::string>;

constexpr char kWrapper[] =
    "import torch\n"
    "class Scaling:\n"
    "    def __init__(self):\n"
    "        self._scaler = torch.amp.GradScaler('cuda')\n"
    "    def backward(self, loss):\n"
    "        self._scaler.scale(loss).backward()\n"
    "    def unscale(self, optimizer):\n"
    "        self._scaler.unscale_(optimizer)\n"
    "    def step(self, optimizer, last=True):\n"
    "        if last:\n"
    "            self._scaler.step(optimizer)\n"
    "            self._scaler.update()\n";

TEST(ScalerOrder, FollowsWrappersOfOtherFiles) {
  const std::string train =
      "import torch\n"
      "from .wrapper import Scaling\n"
      "def train(model, loader, optimizer):\n"
      "    scaling = Scaling()\n"
      "    for x in loader:\n"
      "        optimizer.zero_grad()\n"
      "        scaling.backward(model(x).mean())\n"
      "        UNSCALE\n"
      "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
      "        scaling.step(optimizer)\n";
  const Source wrapper{"src/wrapper.py", kWrapper};
  EXPECT_EQ(FoundLines({wrapper, {"src/train.py", Replaced(train, "UNSCALE", "pass")}}),
            Lines{"src/train.py:9 clip-before-unscale"});
  EXPECT_EQ(
      FoundLines(
          {wrapper, {"src/train.py", Replaced(train, "UNSCALE", "scaling.unscale(optimizer)")}}),
      Lines{});
  EXPECT_EQ(FoundLines({wrapper,
                        {"src/train.py", Replaced(train, "UNSCALE",
                                                  "scaling.unscale(optimizer); "
                                                  "scaling.unscale(optimizer)")}}),
            Lines{"src/train.py:8 double-unscale"});
}

// The argument decides which way the helper goes, and the caller asks the same question again.
TEST(ScalerOrder, ArgumentsCarryTheQuestion) {
  const std::string train =
      "import torch\n"
      "from .wrapper import Scaling\n"
      "def train(model, loader, optimizer, every):\n"
      "    scaling = Scaling()\n"
      "    for i, x in enumerate(loader):\n"
      "        scaling.backward(model(x).mean() / every)\n"
      "        if (i + 1) % every == 0:\n"
      "            scaling.unscale(optimizer)\n"
      "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
      "        scaling.step(optimizer, last=LAST)\n"
      "        if (i + 1) % every == 0:\n"
      "            optimizer.zero_grad()\n";
  const Source wrapper{"src/wrapper.py", kWrapper};
  EXPECT_EQ(
      FoundLines({wrapper, {"src/train.py", Replaced(train, "LAST", "(i + 1) % every == 0")}}),
      Lines{});
  EXPECT_EQ(FoundLines({wrapper, {"src/train.py", Replaced(train, "LAST", "False")}}),
            Lines{"src/train.py:8 double-unscale"});
}

// A helper that is handed no scaler does nothing with one, and what the caller scales stays so.
TEST(ScalerOrder, AnArgumentSaysThatThereIsNoScaler) {
  const Source helper{"src/helper.py",
                      "import torch\n"
                      "def exists(x):\n"
                      "    return x is not None\n"
                      "def step(optimizer, scaler):\n"
                      "    scaler.unscale_(optimizer) if exists(scaler) else None\n"
                      "    scaler.step(optimizer) if exists(scaler) else optimizer.step()\n"
                      "    scaler.update() if exists(scaler) else None\n"
                      "    optimizer.zero_grad()\n"};
  const std::string train =
      "import torch\n"
      "from .helper import step\n"
      "def train(model, loader, optimizer):\n"
      "    scaler = torch.amp.GradScaler('cuda')\n"
      "    for x in loader:\n"
      "        BACKWARD\n"
      "        step(optimizer, SCALER)\n";
  const auto with = [&](const char* backward, const char* scaler) {
    const std::string text = Replaced(Replaced(train, "BACKWARD", backward), "SCALER", scaler);
    return FoundLines({helper, {"src/train.py", text}}, "optimizer-step-with-scaler");
  };
  EXPECT_EQ(with("model(x).mean().backward()", "None"), Lines{});
  EXPECT_EQ(with("scaler.scale(model(x).mean()).backward()", "scaler=scaler"), Lines{});
  EXPECT_EQ(with("scaler.scale(model(x).mean()).backward()", "scaler=None"),
            Lines{"src/train.py:7 optimizer-step-with-scaler"});
}

// Where `scaler and (norm or value)` fails, the one or the other is off.
TEST(ScalerOrder, AnAndThatFailsLeavesTwoWays) {
  const std::string code =
      "import torch\n"
      "class Trainer:\n"
      "    def __init__(self, norm, value):\n"
      "        self.scaler = torch.amp.GradScaler('cuda')\n"
      "    def backward(self, loss):\n"
      "        self.scaler.scale(loss).backward() if self.scaler else loss.backward()\n"
      "    def update(self, module, optimizer, norm, value):\n"
      "        scaler = self.scaler\n"
      "        if scaler and (ASKED):\n"
      "            scaler.unscale_(optimizer)\n"
      "        if norm:\n"
      "            torch.nn.utils.clip_grad_norm_(module.parameters(), norm)\n"
      "        if value:\n"
      "            torch.nn.utils.clip_grad_value_(module.parameters(), value)\n"
      "        if scaler:\n"
      "            scaler.step(optimizer)\n"
      "            scaler.update()\n"
      "        else:\n"
      "            optimizer.step()\n"
      "        optimizer.zero_grad()\n";
  EXPECT_EQ(FoundLines({{"a.py", Replaced(code, "ASKED", "norm or value")}}, "clip-before-unscale"),
            Lines{});
  EXPECT_EQ(FoundLines({{"a.py", Replaced(code, "ASKED", "norm")}}, "clip-before-unscale"),
            Lines{"a.py:14 clip-before-unscale"});
}

TEST(ScalerOrder, FindingsOfAHelperAreToldWhereItIsWrong) {
  const Source helper{"src/helper.py",
                      "import torch\n"
                      "def step(loss, model, optimizer, scaler):\n"
                      "    scaler.scale(loss).backward()\n"
                      "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                      "    scaler.step(optimizer)\n"
                      "    scaler.update()\n"
                      "    optimizer.zero_grad()\n"};
  const Source train{"src/train.py",
                     "import torch\n"
                     "from .helper import step\n"
                     "def train(model, loader, optimizer):\n"
                     "    scaler = torch.amp.GradScaler('cuda')\n"
                     "    for x in loader:\n"
                     "        step(model(x).mean(), model, optimizer, scaler)\n"};
  EXPECT_EQ(FoundLines({helper, train}), Lines{"src/helper.py:4 clip-before-unscale"});
}

TEST(ScalerOrder, FollowsHelpersOfHelpers) {
  const std::string code =
      "import functools\n"
      "import torch\n"
      "def limit(model, most):\n"
      "    torch.nn.utils.clip_grad_norm_(model.parameters(), most)\n"
      "def prepare(scaler, optimizer, model):\n"
      "    UNSCALE\n"
      "    limit(model, 1.0)\n"
      "def train(model, loader, optimizer):\n"
      "    scaler = torch.amp.GradScaler('cuda')\n"
      "    ready = functools.partial(prepare, scaler, model=model)\n"
      "    scaled = lambda loss: scaler.scale(loss).backward()\n"
      "    for x in loader:\n"
      "        optimizer.zero_grad()\n"
      "        scaled(model(x).mean())\n"
      "        ready(optimizer)\n"
      "        scaler.step(optimizer)\n"
      "        scaler.update()\n";
  EXPECT_EQ(FoundLines({{"a.py", Replaced(code, "UNSCALE", "pass")}}),
            Lines{"a.py:15 clip-before-unscale"});
  EXPECT_EQ(FoundLines({{"a.py", Replaced(code, "UNSCALE", "scaler.unscale_(optimizer)")}}),
            Lines{});
}

// An inherited method, one of the base class under the same name, and an alias of the optimizer.
TEST(ScalerOrder, FollowsInheritedMethods) {
  const Source base{"src/base.py",
                    "import torch\n"
                    "class Base:\n"
                    "    def after_backward(self):\n"
                    "        optimizer = self.optimizer\n"
                    "        self.scaler.unscale_(optimizer)\n"
                    "    def finish(self):\n"
                    "        self.scaler.step(self.optimizer)\n"
                    "        self.scaler.update()\n"};
  const std::string trainer =
      "import torch\n"
      "from .base import Base\n"
      "class Trainer(Base):\n"
      "    def __init__(self, model, optimizer):\n"
      "        self.model, self.optimizer = model, optimizer\n"
      "        self.scaler = torch.amp.GradScaler('cuda')\n"
      "    def finish(self):\n"
      "        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)\n"
      "        super().finish()\n"
      "    def train(self, loader):\n"
      "        for x in loader:\n"
      "            self.optimizer.zero_grad()\n"
      "            self.scaler.scale(self.model(x).mean()).backward()\n"
      "            HOOK\n"
      "            self.finish()\n";
  EXPECT_EQ(
      FoundLines({base, {"src/trainer.py", Replaced(trainer, "HOOK", "self.after_backward()")}}),
      Lines{});
  EXPECT_EQ(FoundLines({base, {"src/trainer.py", Replaced(trainer, "HOOK", "pass")}}),
            Lines{"src/trainer.py:15 clip-before-unscale"});
}

// Recursion and mutual recursion end, and say nothing.
TEST(ScalerOrder, RecursionEnds) {
  EXPECT_EQ(FoundLines({{"a.py",
                         "import torch\n"
                         "def a(scaler, loss, optimizer):\n"
                         "    scaler.scale(loss).backward()\n"
                         "    b(scaler, loss, optimizer)\n"
                         "def b(scaler, loss, optimizer):\n"
                         "    a(scaler, loss, optimizer)\n"
                         "    scaler.step(optimizer)\n"
                         "    scaler.update()\n"}}),
            Lines{});
}

// Paddle's scaler has methods of the same names.
TEST(ScalerOrder, OtherFrameworksAreNotJudged) {
  EXPECT_EQ(FoundLines({{"a.py",
                         "import paddle\n"
                         "def train(model, loader, optimizer):\n"
                         "    scaler = paddle.amp.GradScaler()\n"
                         "    for x in loader:\n"
                         "        scaler.scale(model(x)).backward()\n"
                         "        scaler.step(optimizer)\n"
                         "        optimizer.clear_grad()\n"}}),
            Lines{});
}

// Ludwig's trainer: L-BFGS computes its own gradients in a closure and leaves before the scaler.
TEST(ScalerOrder, AStepWithAClosureTakesGradientsOfItsOwn) {
  const std::string code =
      "import torch\n"
      "class Trainer:\n"
      "    def __init__(self, model, optimizer):\n"
      "        self.model, self.optimizer = model, optimizer\n"
      "        self.scaler = torch.amp.GradScaler('cuda')\n"
      "    def step(self, x):\n"
      "        if isinstance(self.optimizer, torch.optim.LBFGS):\n"
      "            def closure():\n"
      "                self.optimizer.zero_grad()\n"
      "                loss = self.model(x).mean()\n"
      "                loss.backward()\n"
      "                return loss\n"
      "            self.optimizer.step(CLOSURE)\n"
      "            return\n"
      "        self.scaler.scale(self.model(x).mean()).backward()\n"
      "        self.scaler.step(self.optimizer)\n"
      "        self.scaler.update()\n"
      "    def train(self, loader):\n"
      "        for x in loader:\n"
      "            self.step(x)\n";
  EXPECT_EQ(FoundLines({{"train.py", Replaced(code, "CLOSURE", "closure")}}), Lines{});
  EXPECT_EQ(FoundLines({{"train.py", Replaced(code, "CLOSURE", "closure=closure")}}), Lines{});
  EXPECT_NE(FoundLines({{"train.py", Replaced(code, "CLOSURE", "")}}), Lines{});
}

}  // namespace
}  // namespace mpnanny::check
