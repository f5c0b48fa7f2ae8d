// Which event a call is, and on which paths it happens.
#include <gtest/gtest.h>

#include <string>

#include "tests/static_check/scaler_training.h"

namespace mpnanny::check {
namespace {

TEST(ScalerPaths, Clips) {
  ExpectInStep("CLIP  # clip-scaled");
  ExpectInStep("torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)  # clip-scaled");
  ExpectInStep("model.clip_grad_norm_(1.0)  # clip-scaled");
  ExpectInStep("scaler.unscale_(optimizer)\nCLIP");
  // The framework's clipping unscales.
  ExpectInStep("accelerator.clip_grad_norm_(model.parameters(), 1.0)");
  ExpectInStep("self.accelerator.clip_grad_norm_(model.parameters(), 1.0)");
  ExpectInStep("fabric.clip_gradients(model, 1.0)");
  // It only measures, or the limit carries the scale as well.
  ExpectInStep("torch.nn.utils.clip_grad_norm_(model.parameters(), 1e7)");
  ExpectInStep("torch.nn.utils.clip_grad_norm_(model.parameters(), 1e6)  # clip-scaled");
  ExpectInStep("model.clip_grad_norm_(1e7)");
  ExpectInStep("torch.nn.utils.clip_grad_norm_(model.parameters(), scaler.get_scale())");
  // One of the project is what its name says, or what it does.
  ExpectInStep("clip_gradients(model, optimizer, scaler)",
               "def clip_gradients(model, optimizer, scaler):\n"
               "    scaler.unscale_(optimizer)\n");
  ExpectInStep("clip_gradients(model)  # clip-scaled",
               "def clip_gradients(model):\n"
               "    for p in model.parameters():\n"
               "        shrink(p)\n");
}

TEST(ScalerPaths, UsesOfGradients) {
  ExpectInStep("for p in model.parameters():\n    n = p.grad.norm()  # gradients-read");
  ExpectInStep("n = get_grad_norm(model.parameters())  # gradients-read");
  ExpectInStep("n = get_grad_norm(model.parameters(), scaler)");
  ExpectInStep("for p in model.parameters():\n    p.grad.clamp_(-1, 1)  # gradients-read");
  ExpectInStep("for p in model.parameters():\n    p.grad += 0.1 * p  # gradients-read");
  ExpectInStep("for p in model.parameters():\n    p.grad.nan_to_num_()  # nan-replaced");
  ExpectInStep("n = torch.cat([p.grad for p in model.parameters()]).max()  # gradients-read");
  ExpectInStep("for p in model.parameters():\n    n = torch.zeros_like(p.grad).max()");
  ExpectInStep(
      "grads = [p.grad for p in model.parameters()]\nfor g in grads:\n"
      "    n = g.max()  # gradients-read");
  ExpectInStep("for p in model.parameters():\n    grad = p.grad\nCLIP  # clip-scaled");
  // Unscaled by hand.
  ExpectInStep("for p in model.parameters():\n    p.grad.div_(2)\nCLIP");
  ExpectInStep("x.grad.div_(2)\nCLIP");
  ExpectInStep("x.grad.norm()\nCLIP  # clip-scaled");
  ExpectInStep("x.grad = y\nCLIP");
  ExpectInStep(
      "scale = scaler.get_scale() * 2\nfor p in model.parameters():\n    n = p.grad.norm()");
  ExpectInStep("measure(model)\nscale = 2 * scaler.get_scale()",
               "def measure(model):\n"
               "    for p in model.parameters():\n"
               "        n = p.grad.norm()\n");
  ExpectInStep("measure(model)  # gradients-read",
               "def measure(model):\n"
               "    for p in model.parameters():\n"
               "        n = p.grad.norm()\n");
  // Cleared.
  ExpectInStep("for p in model.parameters():\n    p.grad = None\nCLIP");
  ExpectInStep("for p in model.parameters():\n    p.grad.zero_()\nCLIP");
}

TEST(ScalerPaths, BackwardPasses) {
  const auto expect = [](std::string backward) {
    ExpectMarked(Training(backward + "\nscaler.step(optimizer)\nscaler.update()\n"));
  };
  const std::string clip = std::string("\n") + kClipCall;
  const std::string wrong = clip + "  # clip-scaled";
  expect("model(x).mean().backward()  # plain-loss plain-backward");
  expect("loss = model(x).mean()\nloss.backward(retain_graph=True)  # plain-loss plain-backward");
  expect("loss = model(x)\nloss.mean().backward()  # plain-loss plain-backward");
  expect("torch.autograd.backward(scaler.scale(model(x).mean()))" + wrong);
  expect("torch.autograd.backward(tensors=scaler.scale(model(x).mean()))" + wrong);
  expect("scaler.scale(model(x).mean()).backward(None)" + wrong);
  // Whose the loss is, is not known: a parameter, one of a helper, one that another branch scales.
  expect("kind.backward()" + clip);
  expect("_scale(model(x).mean()).backward()" + clip);
  expect("loss = model(x).mean()\nif use:\n    loss = scaler.scale(loss)\nloss.backward()");
  // A framework scales as it likes, where it is not told by whom.
  expect("engine.backward(model(x).mean())" + clip);
  expect("y.backward(scaler.scale(x))" + clip);
  expect("fabric.backward(scaler.scale(model(x).mean()))" + wrong);
  expect("self.manual_backward(scaler.scale(model(x).mean()))" + wrong);
  expect("self.manual_backward(model(x).mean())" + clip);
  expect(
      "with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:\n"
      "    scaled_loss.backward()" +
      clip);
  // What variables hold.
  expect("loss = scaler.scale(model(x).mean())\nloss.backward()" + wrong);
  expect("loss = scaler.scale(model(x).mean())\nloss /= 2\nloss.backward()" + wrong);
  expect("loss, y = scaler.scale(model(x).mean()), x\nloss.backward()" + wrong);
  expect("if (loss := scaler.scale(model(x).mean())) is not None:\n    loss.backward()" + wrong);
  expect("loss = scaler.scale(model(x).mean())\nif kind:\n    loss = x\nloss.backward()" + wrong);
  expect("loss = scaler.scale(model(x).mean())\nif kind:\n    y = x\nloss.backward()" + wrong);
  expect("(scaler.scale(model(x).mean()) if use_amp else model(x).mean()).backward()" + wrong);
}

TEST(ScalerPaths, StepsOfTheOptimizer) {
  const auto expect = [](const std::string& lines, const std::string& definitions = "") {
    ExpectMarked(Training(
        "scaler.scale(model(x).mean()).backward()\n" + lines + "\nscaler.update()\n", definitions));
  };
  const std::string wrong = "  # plain-step-scaled plain-step-updated";
  expect("optimizer.step()" + wrong);
  expect("optimizer.step(closure=None)" + wrong);
  expect("optimizer.step(None)" + wrong);
  expect("optimizer.step(scaler=None)" + wrong);
  // A wrapper's step is the scaler's.
  expect("optimizer.step(scaler=scaler)");
  expect("optimizer.step(grad_scaler=kind)");
  expect("optimizer.step(x, scaler)");
  ExpectMarked(
      Training("accelerator.scaler.scale(model(x).mean()).backward()\noptimizer.step()\n"
               "accelerator.scaler.update()\n"));
  // Where the scaler's step is the other branch, and where gradients are unscaled by hand.
  expect(
      "if kind:\n    scaler.step(optimizer)\nelse:\n    optimizer.step()\n    "
      "scaler.unscale_(optimizer)");
  expect("scale = 1 / scaler.get_scale()\noptimizer.step()\nscaler.unscale_(optimizer)");
  // update(new_scale) asks for nothing.
  ExpectMarked(Training("scaler.scale(model(x).mean()).backward()\nscaler.update(2.0)\n"));
  ExpectMarked(
      Training("scaler.scale(model(x).mean()).backward()\n"
               "scaler.update()  # update-without-step\n"));
}

TEST(ScalerPaths, Branches) {
  ExpectInStep("if use:\n    scaler.unscale_(optimizer)\nif use:\n    CLIP");
  ExpectInStep("if use:\n    scaler.unscale_(optimizer)\nif not use:\n    CLIP  # clip-scaled");
  ExpectInStep(
      "if kind == 1:\n    scaler.unscale_(optimizer)\nelif kind == 2:\n"
      "    scaler.unscale_(optimizer)\nelse:\n    scaler.unscale_(optimizer)\nCLIP");
  ExpectInStep(
      "if kind == 1:\n    scaler.unscale_(optimizer)\nelif kind == 2:\n    pass\nelse:\n"
      "    scaler.unscale_(optimizer)\nCLIP  # clip-scaled");
  ExpectInStep("kind and scaler.unscale_(optimizer)\nif kind:\n    CLIP");
  ExpectInStep("kind and scaler.unscale_(optimizer)\nif not kind:\n    CLIP  # clip-scaled");
  ExpectInStep("kind or scaler.unscale_(optimizer)\nif not kind:\n    CLIP");
  ExpectInStep("kind or scaler.unscale_(optimizer)\nif kind:\n    CLIP  # clip-scaled");
  ExpectInStep("scaler.unscale_(optimizer) if kind else None\nif kind:\n    CLIP");
  ExpectInStep(
      "scaler.unscale_(optimizer) if kind else None\nif not kind:\n"
      "    CLIP  # clip-scaled");
  ExpectInStep("if kind:\n    raise ValueError\nelse:\n    scaler.unscale_(optimizer)\nCLIP");
  ExpectInStep("with open(kind):\n    CLIP  # clip-scaled");
  ExpectInStep("with scaler.unscale_(optimizer):\n    CLIP");
  ExpectInStep(
      "match kind:\n    case 1:\n        scaler.unscale_(optimizer)\n    case _:\n"
      "        CLIP  # clip-scaled");
  ExpectInStep(
      "match kind:\n    case 1:\n        scaler.unscale_(optimizer)  # double-unscale\n"
      "        continue");
  ExpectInStep("try:\n    scaler.unscale_(optimizer)\nfinally:\n    CLIP");
  ExpectInStep(
      "try:\n    pass\nexcept ValueError:\n    scaler.unscale_(optimizer)\n"
      "CLIP  # clip-scaled");
  ExpectInStep(
      "try:\n    pass\nexcept ValueError:\n    scaler.unscale_(optimizer)\nelse:\n"
      "    CLIP  # clip-scaled");
  // Another answer may be given where the variable is another.
  ExpectInStep(
      "if kind:\n    scaler.unscale_(optimizer)\nif use:\n    norm = 1\nif kind:\n    CLIP");
  ExpectInStep(
      "if kind:\n    scaler.unscale_(optimizer)\nif use:\n    kind = 1\nif kind:\n"
      "    CLIP  # clip-scaled");
  // A flag.
  ExpectInStep(
      "done = False\nif kind:\n    scaler.unscale_(optimizer)\n    done = True\n"
      "if done:\n    CLIP");
  ExpectInStep(
      "done = False\nif kind:\n    scaler.unscale_(optimizer)\n    done = True\n"
      "if not done:\n    CLIP  # clip-scaled");
}

// What stands behind a condition is done in time, unless the way there is another one.
TEST(ScalerPaths, GradientsThatAreClearedAtTimes) {
  const auto expect = [](const std::string& mark, const std::string& clear) {
    const std::string code = Training("scaler.scale(model(x).mean()).backward()" + mark +
                                      "\nscaler.step(optimizer)\nscaler.update()\n" + clear);
    ExpectMarked(Replaced(code, "loader:\n        optimizer.zero_grad()\n", "loader:\n"));
  };
  const std::string wrong = "  # stale-gradients";
  expect(wrong, "");
  expect("", "optimizer.zero_grad()");
  expect("", "if kind:\n    optimizer.zero_grad()");
  expect("", "if kind:\n    if norm:\n        optimizer.zero_grad()");
  expect("", "if kind:\n    pass\nelse:\n    optimizer.zero_grad()");
  expect("", "if kind:\n    if use_amp:\n        optimizer.zero_grad()");
  expect(wrong, "if kind:\n    if not use_amp:\n        optimizer.zero_grad()");
  expect(wrong,
         "if kind:\n    if use_amp:\n        pass\n    else:\n        optimizer.zero_grad()");
  expect(wrong, "if not use_amp:\n    optimizer.zero_grad()");
  expect(wrong, "if kind:\n    pass");
  // By code that is not seen.
  expect("", "reset_gradients()");
  expect("", "self.prepare_step()");
  expect(wrong, "prepare_sample(x)");
  expect(wrong, "scheduler.step()");
  expect(wrong, "model(x)");
  expect("", "self.unknown()");
  expect(wrong, "self.model(x)");
}

TEST(ScalerPaths, Loops) {
  ExpectInStep("for _ in range(1):\n    scaler.unscale_(optimizer)");
  ExpectInStep("for _ in range(2):\n    scaler.unscale_(optimizer)  # double-unscale");
  ExpectInStep("for _ in kind:\n    scaler.unscale_(optimizer)\n    break");
  ExpectInStep("while kind:\n    scaler.unscale_(optimizer)  # double-unscale");
  ExpectInStep(
      "for _ in kind:\n    if use:\n        continue\n    scaler.unscale_(optimizer)  # "
      "double-unscale");
  // All are unscaled, also where the loop may leave some out.
  for (const std::string unscale :
       {"    scaler.unscale_(o)", "    if o.on:\n        scaler.unscale_(o)"})
    ExpectMarked(Training("scaler.scale(model(x).mean()).backward()\nfor o in kind:\n" + unscale +
                          "\n" + kClipCall +
                          "\nfor o in kind:\n    scaler.step(o)\nscaler.update()\n"));
  // A check leaves the turn.
  ExpectInStep(
      "scaler.unscale_(optimizer)\nif not torch.isfinite(norm):\n    continue  # skipped-update");
  ExpectInStep("scaler.unscale_(optimizer)  # double-unscale\nif use:\n    continue");
  ExpectMarked(
      Training("scaler.scale(model(x).mean()).backward()\nscaler.unscale_(optimizer)\n"
               "if torch.isfinite(norm):  # skipped-update\n"
               "    scaler.step(optimizer)\n    scaler.update()\n"));
  ExpectInStep("scaler.unscale_(optimizer)\nif not torch.isfinite(norm):\n    break");
}

}  // namespace
}  // namespace mpnanny::check
