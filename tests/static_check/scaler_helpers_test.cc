// Calls of functions that are followed, and of what is not seen.
#include <gtest/gtest.h>

#include <string>

#include "tests/static_check/scaler_training.h"

namespace mpnanny::check {
namespace {

// Another name of the same optimizer, and of that name.
TEST(ScalerHelpers, OtherNames) {
  ExpectInStep("a = optimizer\nscaler.unscale_(a)\nscaler.unscale_(optimizer)  # double-unscale");
  ExpectInStep(
      "a = optimizer\nb = a\nc = b\nscaler.unscale_(c)\n"
      "scaler.unscale_(optimizer)  # double-unscale");
  ExpectInStep("a = optimizer\na = kind\nscaler.unscale_(optimizer)\nscaler.unscale_(a)");
  ExpectInStep("a = self.first\nb = self.second\nscaler.unscale_(a)\nscaler.unscale_(b)");
}

TEST(ScalerHelpers, Arguments) {
  const std::string finish =
      "def finish(scaler, optimizer, last=False, *, clears=True):\n"
      "    scaler.step(optimizer)\n"
      "    if last:\n"
      "        scaler.update()\n"
      "    if clears:\n"
      "        optimizer.zero_grad()\n";
  const auto expect = [&](const std::string& lines, const std::string& more = "") {
    ExpectMarked(Training("scaler.scale(model(x).mean()).backward()\n" + lines + "\n",
                          "import functools\n" + finish + more));
  };
  const std::string wrong = "  # step-without-update";
  expect("finish(scaler, optimizer)" + wrong);
  expect("finish(scaler, optimizer, True)");
  expect("finish(scaler, optimizer, last=True)");
  expect("finish(scaler, optimizer, last=False)" + wrong);
  expect("finish(optimizer=optimizer, scaler=scaler, last=True)");
  expect("finish(scaler, last=True, optimizer=optimizer)");
  // What the caller knows.
  expect("if kind:\n    finish(scaler, optimizer, kind)");
  expect("if not kind:\n    finish(scaler, optimizer, kind)" + wrong);
  const std::string end =
      "def end(scaler, optimizer, last=True):\n    finish(scaler, optimizer, last)\n";
  expect("end(scaler, optimizer)", end);
  expect("end(scaler, optimizer, False)" + wrong, end);
  const std::string without =
      "def end(optimizer, scaler=None):\n"
      "    if scaler is not None:\n"
      "        finish(scaler, optimizer, True)\n"
      "    else:\n"
      "        optimizer.step()\n";
  expect("end(optimizer)  # plain-step-scaled", without);
  expect("end(optimizer, scaler)", without);
  const std::string off = Replaced(Replaced(without, "scaler=None", "scaler, use_amp=False"),
                                   "scaler is not None", "use_amp");
  expect("end(optimizer, scaler)  # plain-step-scaled", off);
  expect("end(optimizer, scaler, True)", off);
  // What the helper has learnt, and has not.
  const std::string ready =
      "def ready(scaler, optimizer, on):\n"
      "    if on:\n"
      "        scaler.unscale_(optimizer)\n"
      "def unscale(scaler, optimizer, on):\n"
      "    scaler.unscale_(optimizer)\n";
  const std::string last = "\nfinish(scaler, optimizer, True)";
  const std::string again = "    scaler.unscale_(optimizer)";
  expect("ready(scaler, optimizer, kind)\nif not kind:\n" + again + last, ready);
  expect("ready(scaler, optimizer, kind)\nif kind:\n" + again + "  # double-unscale" + last, ready);
  expect("unscale(scaler, optimizer, kind)\nif kind:\n" + again + "  # double-unscale" + last,
         ready);
  // What functools.partial fixes.
  expect("end = functools.partial(finish, scaler)\nend(optimizer, True)");
  expect("end = functools.partial(finish, scaler)\nend(optimizer)" + wrong);
  expect("end = functools.partial(finish, scaler, last=True)\nend(optimizer)");
  expect("end = functools.partial(finish, scaler, optimizer)\nend(last=True)");
  expect("end = lambda o: finish(scaler, o, True)\nend(optimizer)");
  expect("end = lambda o: finish(scaler, o)\nend(optimizer)" + wrong);
  // What a function gives back.
  const std::string clip = std::string("\n") + kClipCall;
  const std::string scaled =
      "def scaled(scaler, loss):\n"
      "    return scaler.scale(loss)\n"
      "def plain(scaler, loss):\n"
      "    scaler.scale(loss)\n"
      "    return loss\n";
  ExpectMarked(Training(
      "loss = scaled(scaler, model(x))\nloss.backward()" + clip + "  # clip-scaled\n", scaled));
  ExpectMarked(Training(
      "loss = plain(scaler, model(x))\nloss.backward()  # plain-loss" + clip + "\n", scaled));
  // What it is given.
  const std::string back = "def back(loss):\n    loss.backward()\n";
  ExpectMarked(Training("back(scaler.scale(model(x)))" + clip + "  # clip-scaled\n", back));
  ExpectMarked(
      Training("loss = scaler.scale(model(x))\nback(loss)" + clip + "  # clip-scaled\n", back));
  ExpectMarked(
      Training("loss = scaler.scale(model(x))\nback(loss / 2)" + clip + "  # clip-scaled\n", back));
  ExpectMarked(Training("back(model(x))  # plain-loss" + clip + "\n", back));
  // A function inside has the names around it.
  ExpectMarked(Training("def ready():\n    scaler.unscale_(optimizer)\nready()" + clip +
                        "\nready()  # double-unscale\nscaler.step(optimizer)\nscaler.update()\n"));
}

TEST(ScalerHelpers, SeenAndUnseen) {
  ExpectInStep("ready(x)\nCLIP  # clip-scaled", "ready = lambda y: print(y)\n");
  ExpectMarked(
      Training("backward(model, x)  # plain-backward\nscaler.step(optimizer)\nscaler.update()\n",
               "def backward(model, x):\n"
               "    loss = model(x).mean()\n"
               "    loss.backward()  # plain-loss\n"));
  // What is not seen: an inherited method may step and update.
  const std::string twice =
      "from other import Base\n"
      "class Trainer(Base):\n"
      "    def __init__(self, model, optimizer):\n"
      "        self.model, self.optimizer = model, optimizer\n"
      "        self.act, self.hook = torch.relu, self.model.hook\n"
      "        self.scaler = torch.amp.GradScaler('cuda')\n"
      "    def train(self, x):\n"
      "        self.scaler.scale(self.model(x).mean()).backward()\n"
      "        self.scaler.unscale_(self.optimizer)\n"
      "        CALL\n"
      "        self.scaler.scale(self.model(x).mean()).backward()\n"
      "        self.scaler.unscale_(self.optimizer)MARK\n";
  const auto calls = [&](const std::string& call, const std::string& mark) {
    ExpectMarked("import torch\n" + Replaced(Replaced(twice, "CALL", call), "MARK", mark));
  };
  calls("self.finish_step()", "");
  calls("super().train(x)", "");
  calls("finish(self)", "");
  calls("self.hook(x)", "");
  calls("self.act(x)", "  # double-unscale");
  calls("self.model(x)", "  # double-unscale");
  calls("self.parameters()", "  # double-unscale");
  calls("self.compute_loss(x)", "  # double-unscale");
  ExpectInStep("other(scaler)\nCLIP");
  ExpectInStep("other(optimizer)\nCLIP  # clip-scaled");
}

}  // namespace
}  // namespace mpnanny::check
