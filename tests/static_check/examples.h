// The fenced Python examples of a rule page and the findings that their comments ask for.
#ifndef MPNANNY_TESTS_STATIC_CHECK_EXAMPLES_H_
#define MPNANNY_TESTS_STATIC_CHECK_EXAMPLES_H_

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engines/check/engine.h"
#include "engines/check/rule_set.h"

namespace mpnanny::check {

struct Example {
  std::string section;  // the heading it stands under
  int line = 0;         // of the page's body
  std::string path;     // "example.py", by the language of its fence
  std::string code;
  std::set<std::string> expected;  // "12 error clip-before-unscale"
  // "12 candidate dtype-mismatch": what the text does not prove, so that it is no finding.
  std::set<std::string> candidates;
};

// One finding, clip-before-unscale, in line 5.
inline constexpr char kClippedScaled[] =
    "import torch\n"
    "def f(loss, p, o):\n"
    "    s = torch.amp.GradScaler('cuda')\n"
    "    s.scale(loss).backward()\n"
    "    torch.nn.utils.clip_grad_norm_(p, 1.0)\n"
    "    s.step(o)\n"
    "    s.update()\n";

std::vector<Example> ReadExamples(const std::string& body);

// The embedded rules, loaded once.
const RuleSet& Rules();

Report CheckCode(const std::string& code, const std::string& path = "example.py");
// The findings in the form of Example::expected.
std::set<std::string> Found(const Report& report);
// The text with the first `from` replaced.
std::string Replaced(std::string text, const std::string& from, const std::string& to);
// Applies all edits of one finding to the code.
std::string Apply(const std::string& code, const Finding& finding);

}  // namespace mpnanny::check

#endif  // MPNANNY_TESTS_STATIC_CHECK_EXAMPLES_H_
