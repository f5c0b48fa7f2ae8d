// Training loops in which a line that is wrong says so in a comment, and what ScalerOrder says of
// them.
#ifndef MPNANNY_TESTS_STATIC_CHECK_SCALER_TRAINING_H_
#define MPNANNY_TESTS_STATIC_CHECK_SCALER_TRAINING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "engines/check/scaler/order.h"
#include "tests/static_check/read_project.h"
#include "tests/static_check/scaler_words.h"

namespace mpnanny::check {

// "8: clip-scaled" for each violation.
using Marks = std::multiset<std::string>;

inline Marks MarkedIn(const std::string& code) {
  Marks marks;
  std::istringstream lines(code);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t at = line.find("  # ");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + 4));
    for (std::string word; words >> word;) marks.insert(std::to_string(number) + ": " + word);
  }
  return marks;
}

inline Marks ToldOf(const std::string& code) {
  const ReadProject project(code);
  const Syntax& syntax = project.file().syntax;
  Marks marks;
  for (const Violation& violation : project.file().scaler_order->violations()) {
    const auto begin = syntax.text().begin();
    const auto lines = std::count(begin, begin + syntax[violation.node].begin, '\n');
    marks.insert(std::to_string(lines + 1) + ": " +
                 kViolations[static_cast<size_t>(violation.kind)] + (violation.guess ? "?" : ""));
  }
  return marks;
}

inline void ExpectMarked(const std::string& code) {
  EXPECT_EQ(ToldOf(code), MarkedIn(code)) << code;
}

// A training loop with these lines in it, and these definitions before it.
inline std::string Training(const std::string& lines, const std::string& definitions = "") {
  std::string code = "import torch\n" + definitions +
                     "def train(self, model, loader, optimizer, use, kind, norm):\n"
                     "    scaler = torch.amp.GradScaler('cuda')\n"
                     "    for x in loader:\n"
                     "        optimizer.zero_grad()\n";
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) code += "        " + line + "\n";
  return code;
}

// The same after a scaled backward pass, and with a step after the lines.
inline std::string Step(const std::string& lines, const std::string& definitions = "") {
  return Training("scaler.scale(model(x).mean()).backward()\n" + lines +
                      "\nscaler.step(optimizer)\nscaler.update()\n",
                  definitions);
}

inline constexpr char kClipCall[] = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)";

// `lines` with CLIP in full.
inline void ExpectInStep(std::string lines, const std::string& definitions = "") {
  for (size_t at = 0; (at = lines.find("CLIP", at)) != std::string::npos;)
    lines.replace(at, 4, kClipCall);
  ExpectMarked(Step(lines, definitions));
}

}  // namespace mpnanny::check

#endif  // MPNANNY_TESTS_STATIC_CHECK_SCALER_TRAINING_H_
