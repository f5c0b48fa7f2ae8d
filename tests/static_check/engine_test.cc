// The engine on input that is broken, large or odd, and silence where nothing is wrong.
#include "engines/check/engine.h"

#include <string>
#include <tuple>
#include <utility>

#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

constexpr char kBadLoop[] =
    "import torch\n"
    "def train(model, loader, optimizer, loss_fn):\n"
    "    scaler = torch.amp.GradScaler('cuda')\n"
    "    for x, y in loader:\n"
    "        optimizer.zero_grad()\n"
    "        scaler.scale(loss_fn(model(x), y)).backward()\n"
    "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    "        scaler.step(optimizer)\n"
    "        scaler.update()\n";

TEST(Engine, NamesTheExactPlace) {
  const Report report = CheckCode(kBadLoop);
  ASSERT_EQ(report.findings.size(), 1u);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.rule, "clip-before-unscale");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(std::tuple(finding.line, finding.column, finding.end_line, finding.end_column),
            std::tuple(7, 9, 7, 64));
  EXPECT_EQ(finding.excerpt, "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)");
  EXPECT_EQ(finding.cases, std::vector<std::string>{"clip-before-unscale"});
  EXPECT_EQ(report.files_scanned, 1);
}

TEST(Engine, ColumnsCountCodePoints) {
  const Report report =
      CheckCode(Replaced(kBadLoop, "        torch.nn", "        名 = '\U0001F600é'; torch.nn"));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].line, 7);
  EXPECT_EQ(report.findings[0].column, 19);
}

TEST(Engine, LineEndsAndByteOrderMarksDoNotMoveFindings) {
  for (const std::string& code :
       {Replaced(kBadLoop, "\n", "\r\n"), "\xEF\xBB\xBF" + std::string(kBadLoop)}) {
    const Report report = CheckCode(code);
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings[0].line, 7);
    EXPECT_EQ(report.findings[0].column, 9);
    EXPECT_FALSE(report.findings[0].excerpt.ends_with('\r'));
  }
}

TEST(Engine, SyntaxErrorsLeaveTheRest) {
  const Report report = CheckCode(std::string(kBadLoop) + "\ndef broken(:\n    print 'python 2'\n");
  EXPECT_EQ(Found(report), std::set<std::string>{"7 error clip-before-unscale"});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("syntax error"), std::string::npos);
  EXPECT_NE(report.notes[0].find("example.py:"), std::string::npos);
}

// tree-sitter-python 0.25 does not know a star before parentheses outside of any: valid Python is
// not called wrong.
TEST(Engine, AFormThatTheParserDoesNotKnowIsNotCalledAnError) {
  const Report report = CheckCode(std::string(kBadLoop) + "\ndef f(a, b):\n    return a, *(b)\n");
  EXPECT_EQ(Found(report), std::set<std::string>{"7 error clip-before-unscale"});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("or a form that the parser does not know"), std::string::npos);
}

TEST(Engine, BytesThatAreNoUtf8AreReadAsFarAsPossible) {
  const Report report = CheckCode("# caf\xE9 \xFF\n" + std::string(kBadLoop));
  EXPECT_EQ(Found(report), std::set<std::string>{"8 error clip-before-unscale"});
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("not UTF-8"), std::string::npos);
}

TEST(Engine, WhatIsNoPythonIsSkippedWithANote) {
  using std::string_literals::operator""s;
  for (const std::string& text :
       {"import torch\0\0"s, "import torch\n" + std::string(kMaxSourceBytes, '#'),
        "import torch\nx = " + std::string(20000, '(') + "1" + std::string(20000, ')') + "\n",
        "import torch\n" + std::string(5000, '[')}) {
    const Report report = CheckCode(text);
    EXPECT_TRUE(report.findings.empty());
    EXPECT_FALSE(report.notes.empty()) << text.substr(0, 60);
  }
}

// What doubles with each level of nesting would not end.
TEST(Engine, NestingDoesNotMultiplyTheWork) {
  std::string loops = "import torch\nscaler = torch.amp.GradScaler('cuda')\n";
  std::string casts = "x";
  std::string choice = "a";
  for (int i = 0; i < 60; ++i) {
    loops += std::string(static_cast<size_t>(i), ' ') +
             (i % 2 == 0 ? "for x in y:\n" : "if f" + std::to_string(i) + ":\n");
    casts = "y.to(" + casts + ".dtype)";
    choice = "(" + choice + " if c else (d, e)[0])";
  }
  loops += std::string(60, ' ') + "scaler.scale(x).backward()\n";
  const Report report =
      CheckCode(loops + "z = " + casts + "\n" + "a, b = " + casts + ", " + choice + "\n");
  EXPECT_EQ(report.files_scanned, 1);
  EXPECT_TRUE(report.notes.empty()) << report.notes[0];
}

TEST(Engine, FilesWithoutTorchAreSkipped) {
  const auto report =
      Check({{"a.py", "print('hello')\n"}, {"b.py", kBadLoop}, {"empty.py", ""}}, {}, Rules(), {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->files_scanned, 1);
  EXPECT_EQ(report->files_skipped, 2);
  EXPECT_TRUE(report->notes.empty());
}

// It leads from a file that imports to one that defines, and nobody imports where torch is nowhere.
TEST(Engine, APackageIsReadOnlyForFilesThatUseTorch) {
  const Source package{"pkg/__init__.py", "from .plain import helper\n"};
  const Source plain{"pkg/plain.py", "def helper(x):\n    return x\n"};
  const Source user{"pkg/user.py", "import torch\nfrom . import helper\n"};
  const auto without = Check({package, plain}, Options(), Rules(), {});
  ASSERT_TRUE(without) << without.error().Text();
  EXPECT_EQ(std::pair(without->files_scanned, without->files_skipped), std::pair(0, 2));
  const auto with = Check({package, plain, user}, Options(), Rules(), {});
  ASSERT_TRUE(with) << with.error().Text();
  EXPECT_EQ(std::pair(with->files_scanned, with->files_skipped), std::pair(2, 1));
}

TEST(Engine, SeverityAndRulesSelect) {
  Options options;
  options.rules = {"double-unscale"};
  auto report = Check({{"a.py", kBadLoop}}, options, Rules(), {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->findings.empty());
  options.rules = {};
  options.ignore = {"clip-before-unscale"};
  report = Check({{"a.py", kBadLoop}}, options, Rules(), {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->findings.empty());
  options.ignore = {"clip-before-unscaled"};
  report = Check({{"a.py", kBadLoop}}, options, Rules(), {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::kInvalidInput);
  EXPECT_NE(report.error().Text().find("clip-before-unscale'"), std::string::npos)
      << report.error().Text();
}

// FP16 is an option of this project, and nothing says whether this model runs in it.
TEST(Engine, WhatTheTextDoesNotProveIsNoFinding) {
  const std::string code =
      "import torch\nfrom torch import nn\n\n"
      "class Attention(nn.Module):\n"
      "    def forward(self, q, k):\n"
      "        return (q @ k.transpose(-2, -1)).softmax(dim=-1)\n\n"
      "def build(args):\n"
      "    model = Attention()\n"
      "    return model.half() if args.fp16 else model\n";
  const auto report = Check({{"a.py", code}}, {}, Rules(), {});
  ASSERT_TRUE(report);
  EXPECT_EQ(Found(*report), std::set<std::string>{});
}

TEST(Engine, CancelStops) {
  const CancelSource source;
  source.Cancel();
  const auto report = Check({{"a.py", kBadLoop}}, {}, Rules(), source.token());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::kCancelled);
}

TEST(Engine, TellsHowFarItIsAndWhatItHas) {
  const std::string bad =
      "import torch\ndef f(loss, p, o):\n    s = torch.amp.GradScaler('cuda')\n"
      "    s.scale(loss).backward()\n    torch.nn.utils.clip_grad_norm_(p, 1.0)\n"
      "    s.step(o)\n    s.update()\n";
  Options options;
  std::vector<size_t> steps;
  std::vector<size_t> found;
  options.on_step = [&](size_t done, size_t total, const Report& so_far) {
    EXPECT_EQ(total, 6u);
    steps.push_back(done);
    found.push_back(so_far.findings.size());
  };
  const std::vector<Source> sources = {{"a.py", bad}, {"b.py", "print(1)\n"}, {"c.py", bad}};
  options.threads = 1;
  const auto report = Check(sources, options, Rules(), CancelToken());
  ASSERT_TRUE(report);
  EXPECT_EQ(steps, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(found.front(), 0u);
  EXPECT_EQ(2 * found.back(), report->findings.size()) << "c.py is as bad as a.py";

  steps.clear();
  options.threads = 3;
  const auto together = Check(sources, options, Rules(), CancelToken());
  ASSERT_TRUE(together);
  EXPECT_EQ(steps.size(), 6u);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_EQ(Found(*together), Found(*report));
}

TEST(Suppression, SilencesOneRuleOrAll) {
  const std::string line = "clip_grad_norm_(model.parameters(), 1.0)";
  for (const char* comment : {"  # mpnanny: ignore", "  # mpnanny: ignore[clip-before-unscale]",
                              "  # noqa  # mpnanny: ignore[double-unscale, clip-before-unscale]"}) {
    const Report report = CheckCode(Replaced(kBadLoop, line, line + comment));
    EXPECT_TRUE(report.findings.empty()) << comment;
    EXPECT_EQ(report.suppressed, 1) << comment;
  }
  EXPECT_EQ(CheckCode(Replaced(kBadLoop, line, line + "  # mpnanny: ignore[double-unscale]"))
                .findings.size(),
            1u);
}

TEST(Notebooks, AreOneModuleAndToldByCell) {
  const std::string json =
      "{\"nbformat\": 4, \"cells\": ["
      "{\"cell_type\": \"markdown\", \"source\": [\"# Title\\n\"]},"
      "{\"cell_type\": \"code\", \"source\": [\"%matplotlib inline\\n\", \"!pip install x\\n\", "
      "\"import torch\\n\","
      "\"from torch.nn.utils import clip_grad_norm_ as limit\\n\", \"scaler = "
      "torch.amp.GradScaler('cuda')\"]},"
      "{\"cell_type\": \"code\", \"source\": \"%%bash\\necho 'import torch\"},"
      "{\"cell_type\": \"code\", \"source\": [\"for x in loader:\\n\", \"    "
      "scaler.scale(net(x)).backward()\\n\","
      "\"    limit(net.parameters(), 1.0)\\n\", \"    scaler.step(optimizer)\\n\", \"    "
      "scaler.update()\\n\", \"    optimizer.zero_grad()\\n\"]}]}";
  const Report report = CheckCode(json, "work/nb.ipynb");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].path, "work/nb.ipynb:cell 4");
  EXPECT_EQ(report.findings[0].line, 3);
  EXPECT_EQ(report.findings[0].end_line, 3);
  EXPECT_EQ(report.findings[0].column, 5);
  EXPECT_TRUE(report.notes.empty());
  const Report broken = CheckCode("{\"torch\": 1", "x.ipynb");
  EXPECT_TRUE(broken.findings.empty());
  EXPECT_EQ(broken.notes.size(), 1u);
}

TEST(Silence, Fp32ProjectsHearNothing) {
  const Report report = CheckCode(
      "import torch\n"
      "import torch.nn.functional as F\n"
      "from sklearn.preprocessing import StandardScaler\n"
      "def train(model, loader, x):\n"
      "    scaler = StandardScaler()\n"
      "    x = scaler.fit_transform(x)\n"
      "    optimizer = torch.optim.Adam(model.parameters(), eps=1e-8)\n"
      "    for x, y in loader:\n"
      "        optimizer.zero_grad()\n"
      "        scores = (x @ x.T).masked_fill(y, -1e9)\n"
      "        p = (scores + 1e-12).log().clamp(1e-7, 1 - 1e-7)\n"
      "        loss = F.binary_cross_entropy(torch.log(torch.softmax(p, -1)), y)\n"
      "        loss.backward()\n"
      "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
      "        optimizer.step()\n"
      "    torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, "
      "'a.pt')\n");
  EXPECT_TRUE(report.findings.empty()) << *Found(report).begin();
}

// A docstring holds an example loop; it is text.
TEST(Silence, DocstringsAreText) {
  EXPECT_TRUE(CheckCode("import torch\n'''\n" + std::string(kBadLoop) + "'''\n").findings.empty());
}

// The wrapper owns the protocol; whoever calls it does it right.
TEST(Silence, WrappersLikeNativeScaler) {
  const Report report = CheckCode(
      "import torch\n"
      "class NativeScaler:\n"
      "    def __init__(self):\n"
      "        self._scaler = torch.amp.GradScaler('cuda')\n"
      "    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, "
      "update_grad=True):\n"
      "        self._scaler.scale(loss).backward()\n"
      "        if update_grad:\n"
      "            if clip_grad is not None:\n"
      "                assert parameters is not None\n"
      "                self._scaler.unscale_(optimizer)\n"
      "                norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)\n"
      "            else:\n"
      "                self._scaler.unscale_(optimizer)\n"
      "                norm = 0\n"
      "            self._scaler.step(optimizer)\n"
      "            self._scaler.update()\n"
      "        return norm\n"
      "    def state_dict(self):\n"
      "        return self._scaler.state_dict()\n"
      "def train(model, loader, optimizer, loss_scaler, max_norm):\n"
      "    for i, x in enumerate(loader):\n"
      "        with torch.autocast('cuda'):\n"
      "            loss = model(x)\n"
      "        if loss_scaler is not None:\n"
      "            loss_scaler(loss, optimizer, clip_grad=max_norm, "
      "parameters=model.parameters())\n"
      "        else:\n"
      "            loss.backward()\n"
      "            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)\n"
      "            optimizer.step()\n");
  EXPECT_TRUE(report.findings.empty()) << *Found(report).begin();
}

// One file has an autocast region, another the model: whether the model runs in it is not proved.
TEST(Project, ARegionOfAnotherFileProvesNothing) {
  const Source model{
      "model.py",
      "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def forward(self, q, k, m):\n"
      "        s = q @ k\n        return s.masked_fill(m, -1e9)\n"};
  const std::string train =
      "import torch\ndef f(model, x):\n    with torch.autocast('cuda', dtype=torch.DTYPE):\n       "
      " return model(x)\n";
  for (const std::string dtype : {"float16", "bfloat16"}) {
    const auto report =
        Check({model, {"train.py", Replaced(train, "DTYPE", dtype)}}, {}, Rules(), {});
    ASSERT_TRUE(report);
    EXPECT_EQ(Found(*report), std::set<std::string>{}) << dtype;
  }
}

}  // namespace
}  // namespace mpnanny::check
