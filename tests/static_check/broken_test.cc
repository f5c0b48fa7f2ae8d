// Broken sources that a fuzzer found to lead astray: a rule asked for what such code lacks. Each is
// checked with every rule, also with those that are off by default; sanitizers see what it reads.
#include <string>

#include "engines/check/syntax/syntax.h"
#include "engines/check/syntax/text_search.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

Report CheckWithEveryRule(const std::string& code) {
  Options options;
  options.rules = Rules().Ids();
  options.skip_without_torch = false;
  const auto report = Check({{"a.py", code}}, options, Rules(), {});
  EXPECT_TRUE(report) << report.error().Text();
  return report ? *report : Report{};
}

TEST(Broken, ARegionOutsideOfEveryStatement) {
  const Report report = CheckWithEveryRule(
      "import torch\n"
      "with torch.autocast('cuda'), y)\n"
      "    loss = model(x)\n");
  EXPECT_EQ(report.files_scanned, 1);
  EXPECT_EQ(report.notes.size(), 1u);
}

// What is not there has no text, no parent and no children, and is part of no function.
TEST(Broken, NoNodeSaysNothing) {
  const auto syntax = Syntax::Parse("def f(:\n    x\n", {});
  ASSERT_TRUE(syntax);
  EXPECT_TRUE(syntax->has_error());
  const Node& nothing = (*syntax)[kNoNode];
  EXPECT_EQ(nothing.kind, Kind::kOther);
  EXPECT_EQ(nothing.parent, kNoNode);
  EXPECT_EQ(nothing.first_child, kNoNode);
  EXPECT_EQ(nothing.after, kNoNode);
  EXPECT_EQ(syntax->FunctionOf(kNoNode), 0);
  EXPECT_EQ(syntax->Enclosing(kNoNode, Kind::kClass), kNoNode);
  EXPECT_EQ(syntax->Text(kNoNode), "");
}

// The function around such a place has no text, and words are looked for in it.
TEST(Broken, ATextThatIsNotThereHoldsNoWord) {
  EXPECT_FALSE(Holds({}, "word"));
  EXPECT_FALSE(Holds("wor", "word"));
  EXPECT_TRUE(Holds("a word", "word"));
  EXPECT_TRUE(Holds("a word", {}));
  EXPECT_FALSE(Holds({}, {}));
  CheckWithEveryRule(
      "import torch\nmodel.half()\noptimizer = torch.optim.Adam([{\"params\": "
      "model.parameters()}], lr=1e-3)\nx(model(x), y).backward()\ntorch.step()\n");
}

}  // namespace
}  // namespace mpnanny::check
