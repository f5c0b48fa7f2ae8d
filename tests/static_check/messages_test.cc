// What findings say of the code at hand: numbers and consequences that are worked out from it.
#include <string>

#include "engines/check/engine.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

// The message of the only finding, or place to judge, of that rule; "" if there is none, or
// several.
std::string MessageOf(const std::string& rule, const std::string& code) {
  std::string message;
  const Report report = CheckCode(code);
  for (const Finding& finding : report.findings) {
    if (finding.rule != rule) continue;
    if (!message.empty()) return "";
    message = finding.message;
  }
  for (const Candidate& one : report.candidates) {
    if (one.rule != rule) continue;
    if (!message.empty()) return "";
    message = one.hazard;
  }
  return message;
}

TEST(Messages, InitScaleTellsWhichGradientsOverflow) {
  const auto message = [](const std::string& scale) {
    return MessageOf(
        "scaler-config",
        "import torch\nscaler = torch.amp.GradScaler('cuda', init_scale=" + scale + ")\n");
  };
  EXPECT_NE(message("2.0**32").find("above 1.52513e-05 is inf"), std::string::npos)
      << message("2.0**32");
  EXPECT_NE(message("2.0**25").find("above 0.00195217 is inf"), std::string::npos)
      << message("2.0**25");
}

TEST(Messages, CustomFunctionsOfTorchAmpLackTheDevice) {
  const std::string message = MessageOf("autocast-bad-argument",
                                        "import torch\n"
                                        "class F(torch.autograd.Function):\n"
                                        "    @staticmethod\n"
                                        "    @torch.amp.custom_bwd\n"
                                        "    def backward(ctx, g):\n"
                                        "        return g\n");
  EXPECT_NE(message.find("no default for device_type"), std::string::npos) << message;
}

TEST(Messages, UnscaledLossMayMakeStepRaise) {
  const std::string message = MessageOf("backward-unscaled",
                                        "import torch\n"
                                        "def train(model, loader, optimizer, loss_fn):\n"
                                        "    scaler = torch.amp.GradScaler('cuda')\n"
                                        "    for x, y in loader:\n"
                                        "        optimizer.zero_grad()\n"
                                        "        loss_fn(model(x), y).backward()\n"
                                        "        scaler.step(optimizer)\n"
                                        "        scaler.update()\n");
  EXPECT_NE(message.find("AssertionError"), std::string::npos) << message;
}

}  // namespace
}  // namespace mpnanny::check
