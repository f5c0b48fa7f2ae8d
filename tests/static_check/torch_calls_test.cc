// What a call of torch is made of, and what an expression says of its values by its form.
#include "engines/check/facts/torch_calls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/static_check/read_project.h"

namespace mpnanny::check {
namespace {

constexpr char kHead[] =
    "import math\n"
    "import sys\n"
    "import numpy as np\n"
    "import torch\n"
    "import torch.nn.functional as F\n";

// A function of x, y and z, of which nothing is known, and the expression that it asks for.
ReadProject Asked(const std::string& expression, const std::string& before = "pass") {
  return ReadProject(kHead + std::string("def f(x, y, z):\n    ") + before + "\n    probe(" +
                     expression + ")\n");
}

std::string TextAt(const FileFacts& facts, NodeId node) {
  return node == kNoNode ? "" : std::string(facts.syntax.Text(node));
}

// "clamp of x" of torch's functions, "x.clamp" of methods; "" of what is no such call.
std::string Told(const FileFacts& facts, const std::optional<TorchCall>& call) {
  if (!call) return "";
  const std::string tensor = TextAt(facts, call->tensor), name(call->name);
  return call->is_method ? tensor + "." + name : name + " of " + tensor;
}

TEST(TorchCalls, FunctionsAndMethodsAreOneForm) {
  const struct {
    const char *expression, *call, *first, *by_name;
  } kTable[] = {{"torch.clamp(x, y, max=z)", "clamp of x", "y", "z"},
                {"x.clamp(y, max=z)", "x.clamp", "y", "z"},
                {"(x + 1).clamp(y)", "x + 1.clamp", "y", ""},
                {"(torch.clamp(x, y))", "clamp of x", "y", ""},
                {"F.softmax(x, y)", "softmax of x", "y", ""},
                {"torch.special.expit(x)", "expit of x", "", ""},
                {"torch.clamp(input=x, max=z)", "clamp of x", "", "z"},
                {"torch.clamp(self=x)", "clamp of x", "", ""},
                {"torch.clamp(x, y, z)", "clamp of x", "y", ""},
                {"x.clamp(y, z)", "x.clamp", "y", ""},
                {"np.clip(x, y)", "", "", ""},
                {"clamp(x, y)", "", "", ""},
                {"torch.nn.utils.clip_grad_norm_(x, y)", "", "", ""},
                {"x", "", "", ""},
                {"x + y", "", "", ""}};
  for (const auto& each : kTable) {
    const ReadProject project = Asked(each.expression);
    const FileFacts& facts = project.file();
    const auto call = TorchCallAt(facts, project.Probed());
    EXPECT_EQ(Told(facts, call), each.call) << each.expression;
    if (!call) continue;
    EXPECT_EQ(facts.syntax.Unwrap(project.Probed()), call->node);
    EXPECT_EQ(TextAt(facts, ArgumentOf(facts, *call, 0, "min")), each.first) << each.expression;
    EXPECT_EQ(TextAt(facts, ArgumentOf(facts, *call, -1, "max")), each.by_name) << each.expression;
  }
  const ReadProject project = Asked("x");
  EXPECT_FALSE(TorchCallAt(project.file(), kNoNode));
  const ReadProject both = Asked("torch.clamp(x, y, z)");
  const auto call = TorchCallAt(both.file(), both.Probed());
  EXPECT_EQ(TextAt(both.file(), ArgumentOf(both.file(), *call, 1, "max")), "z");
}

TEST(TorchCalls, AllCallsOfTheNamesAreVisited) {
  const ReadProject project(kHead +
                            std::string("torch.exp(a)\nb.exp()\nnp.exp(c)\nexp(d)\nF.relu(e)\n"
                                        "torch.log(g.exp())\n"));
  std::vector<std::string> seen;
  const auto visit = [&](const TorchCall& call) { seen.push_back(Told(project.file(), call)); };
  ForEachTorchCall(project.file(), {"relu", "exp"}, visit);
  EXPECT_EQ(seen, (std::vector<std::string>{"relu of e", "exp of a", "b.exp", "g.exp"}));
}

TEST(TorchCalls, ANameThatIsAssignedOnceStandsForItsValue) {
  const auto traced = [](const std::string& expression, const std::string& before) {
    const ReadProject project = Asked(expression, before);
    return TextAt(project.file(), Traced(project.file(), project.Probed()));
  };
  EXPECT_EQ(traced("a", "a = (x + 1)"), "x + 1");
  EXPECT_EQ(traced("(a)", "a = x + 1"), "x + 1");
  EXPECT_EQ(traced("a", "a = x; a = y"), "a") << "which one is not known";
  EXPECT_EQ(traced("b", "a = x.exp(); b = a"), "a") << "one step";
  EXPECT_EQ(traced("x", "pass"), "x");
  EXPECT_EQ(traced("x.a", "x.a = y"), "x.a") << "no name";
  const auto named = [](const std::string& expression, const std::string& before) {
    const ReadProject project = Asked(expression, before);
    return Told(project.file(), TracedCall(project.file(), project.Probed(), {"exp", "log"}));
  };
  EXPECT_EQ(named("a", "a = x.exp()"), "x.exp");
  EXPECT_EQ(named("torch.log(x)", "pass"), "log of x");
  EXPECT_EQ(named("a", "a = x.sqrt()"), "");
  EXPECT_EQ(named("x + 1", "pass"), "");
}

TEST(TorchCalls, WhatIsSquared) {
  const struct {
    const char *expression, *squared;
  } kTable[] = {{"x ** 2", "x"},
                {"x ** 2.0", "x"},
                {"x ** two", "x"},
                {"(x + y) ** 2", "(x + y)"},
                {"x * x", "x"},
                {"x[0, 1] * x[0,1]", "x[0, 1]"},
                {"(x) * x", "(x)"},
                {"x * (\n        x)", "x"},
                {"x.pow(2)", "x"},
                {"torch.pow(x, 2)", "x"},
                {"x.pow(exponent=2)", "x"},
                {"x.square()", "x"},
                {"torch.square(x)", "x"},
                {"a", "x"},
                {"x ** 3", ""},
                {"2 ** x", ""},
                {"x * y", ""},
                {"x + x", ""},
                {"x / x", ""},
                {"x.pow(3)", ""},
                {"x.pow(y)", ""},
                {"torch.pow(2, x)", ""},
                {"x.exp()", ""},
                {"np.square(x)", ""},
                {"x", ""}};
  for (const auto& each : kTable) {
    const ReadProject project = Asked(each.expression, "two = 2; a = x * x");
    EXPECT_EQ(TextAt(project.file(), SquareOf(project.file(), project.Probed())), each.squared)
        << each.expression;
  }
}

TEST(TorchCalls, TextsAndOperators) {
  const auto alike = [](const std::string& binary) {
    const ReadProject project = Asked(binary);
    const FileFacts& facts = project.file();
    return SameText(facts, facts.syntax.Child(project.Probed(), PythonFields().left),
                    facts.syntax.Child(project.Probed(), PythonFields().right));
  };
  EXPECT_TRUE(alike("x[0, 1] + x[0,1]"));
  EXPECT_TRUE(alike("x[0, 1] + x[0,\n        1]"));
  EXPECT_TRUE(alike("x[0, 1] + x[0,\t1]"));
  EXPECT_TRUE(alike("x + (x)"));
  EXPECT_FALSE(alike("x + y"));
  const ReadProject project = Asked("x");
  EXPECT_TRUE(SameText(project.file(), project.Probed(), project.Probed()));
  EXPECT_FALSE(SameText(project.file(), kNoNode, project.Probed()));
  EXPECT_FALSE(SameText(project.file(), project.Probed(), kNoNode));
  EXPECT_FALSE(SameText(project.file(), kNoNode, kNoNode)) << "nothing is like nothing";

  for (const std::string op : {"+", "-", "**", "@"}) {
    const ReadProject binary = Asked("x " + op + " y");
    EXPECT_EQ(OperatorOf(binary.file(), binary.Probed()), op);
  }
  for (const char* other : {"-x", "x", "x.exp()", "x > y"}) {
    const ReadProject none = Asked(other);
    EXPECT_EQ(OperatorOf(none.file(), none.Probed()), "") << other;
  }
}

TEST(TorchCalls, Constants) {
  constexpr double kMax = 3.4028234663852886e38, kEps = 1.1920928955078125e-07,
                   kTiny = 1.1754943508222875e-38;
  const struct {
    const char* expression;
    std::optional<double> value;
  } kTable[] = {{"1e-9", 1e-9},
                {"-1e9", -1e9},
                {"n", 7},
                {"-n", -7},
                {"x", {}},
                {"-x", {}},
                {"x + 1", {}},
                {"float('-inf')", -HUGE_VAL},
                {"torch.tensor(-1e9)", -1e9},
                {"torch.tensor(data=-1e9)", -1e9},
                {"-torch.tensor(1e9)", -1e9},
                {"torch.as_tensor(3.0)", 3},
                {"torch.scalar_tensor(3.0)", 3},
                {"np.float32(3.0)", 3},
                {"x.new_tensor(3.0)", 3},
                {"torch.tensor(n)", 7},
                {"torch.tensor(x)", {}},
                {"torch.tensor()", {}},
                {"torch.full(3.0)", {}},
                {"np.float64(3.0)", {}},
                {"x.float(3.0)", {}},
                {"torch.tensor(3.0).to(x)", 3},
                {"torch.tensor(3.0).type_as(x)", 3},
                {"torch.tensor(3.0).cuda()", 3},
                {"torch.tensor(3.0).item()", 3},
                {"torch.tensor(3.0).exp()", {}},
                {"t", 3},
                {"int(3.0)", {}},
                {"float(torch.finfo(torch.float32).min)", -kMax},
                {"torch.finfo(torch.float32).min", -kMax},
                {"torch.finfo(torch.float32).max", kMax},
                {"-torch.finfo(torch.float32).max", -kMax},
                {"-(torch.finfo(torch.float32).max)", -kMax},
                {"torch.finfo(torch.float32).eps", kEps},
                {"torch.finfo(torch.float32).tiny", kTiny},
                {"torch.finfo(torch.float32).smallest_normal", kTiny},
                {"torch.finfo(torch.float32).bits", {}},
                {"torch.finfo(torch.float).max", kMax},
                {"torch.finfo(type=torch.float32).max", kMax},
                {"torch.finfo('float32').max", kMax},
                {"torch.finfo(\"float32\").max", kMax},
                {"torch.finfo('float16').max", {}},
                {"torch.finfo().max", kMax},
                {"np.finfo().max", {}},
                {"np.finfo(np.float32).max", kMax},
                {"np.finfo(np.float64).max", {}},
                {"torch.finfo(torch.float16).max", {}},
                {"torch.finfo(x.dtype).max", {}},
                {"torch.iinfo(torch.float32).max", {}},
                {"x.max", {}},
                {"sys.maxsize", 9.22e18},
                {"-sys.maxsize", -9.22e18},
                {"sys.float_info.max", 1.7976931348623157e308},
                {"-sys.float_info.max", -1.7976931348623157e308},
                {"sys.float_info.min", {}},
                {"m", -kMax}};
  for (const auto& each : kTable) {
    const ReadProject project =
        Asked(each.expression, "n = 7; t = torch.tensor(3.0); m = torch.finfo(torch.float32).min");
    EXPECT_EQ(Constant(project.file(), project.Probed()), each.value) << each.expression;
  }
}

// NEGATIVE of another file, where every file that the import may mean gives it the same number.
TEST(TorchCalls, ImportedConstants) {
  const auto value = [](const std::string& import, const std::string& name,
                        const std::vector<Source>& others) {
    std::vector<Source> sources = {
        {"net/model.py", kHead + import + "\ndef f(x):\n    probe(" + name + ")\n"}};
    sources.insert(sources.end(), others.begin(), others.end());
    const ReadProject project(std::move(sources));
    return Constant(project.file(), project.Probed());
  };
  const std::string from = "from .constants import NEGATIVE";
  const Source constants{"net/constants.py", "import torch\nNEGATIVE = -1e9\nSmall = 3\n"};
  const Source same{"old/constants.py", "import torch\nNEGATIVE = -1e9\n"};
  const Source other{"old/constants.py", "import torch\nNEGATIVE = -1e4\n"};
  const Source text{"old/constants.py", "import torch\nNEGATIVE = 'none'\n"};
  const Source twice{"old/constants.py", "import torch\nNEGATIVE = 1\nNEGATIVE = 2\n"};
  const Source without{"old/constants.py", "import torch\nPOSITIVE = 1\n"};
  const Source elsewhere{"net/sizes.py", "import torch\nNEGATIVE = -1e4\n"};
  const Source longer{"net/my_constants.py", "import torch\nNEGATIVE = -1e4\n"};
  using Number = std::optional<double>;
  EXPECT_EQ(value(from, "NEGATIVE", {constants}), Number(-1e9));
  EXPECT_EQ(value(from, "-NEGATIVE", {constants}), Number(1e9));
  EXPECT_EQ(value(from, "NEGATIVE", {}), Number());
  EXPECT_EQ(value(from, "NEGATIVE", {constants, same}), Number(-1e9));
  EXPECT_EQ(value(from, "NEGATIVE", {constants, other}), Number());
  EXPECT_EQ(value(from, "NEGATIVE", {constants, text}), Number());
  EXPECT_EQ(value(from, "NEGATIVE", {constants, twice}), Number(-1e9));
  EXPECT_EQ(value(from, "NEGATIVE", {constants, without, elsewhere, longer}), Number(-1e9));
  EXPECT_EQ(value("from net.constants import NEGATIVE as LOW", "LOW", {constants, other}),
            Number(-1e9));
  EXPECT_EQ(value("from net.constants import NEGATIVE as low", "low", {constants}), Number())
      << "a name in small letters may be anything";
  EXPECT_EQ(value("from .constants import Small", "Small", {constants}), Number());
  EXPECT_EQ(value("from .sizes import NEGATIVE", "NEGATIVE",
                  {{"net/sizes/__init__.py", "import torch\nNEGATIVE = 5\n"}}),
            Number(5));
  EXPECT_EQ(value("NEGATIVE = x", "NEGATIVE", {constants}), Number()) << "not imported";
}

// What an exponential is taken of: nothing that can be large and positive.
TEST(TorchCalls, WhatIsBoundedAbove) {
  const struct {
    const char* expression;
    bool bounded;
  } kTable[] = {
      {"11", true},
      {"11.5", false},
      {"x", false},
      {"x + y", false},
      {"x.exp()", false},
      // Minus what is never below zero.
      {"-x.abs()", true},
      {"-(x.abs())", true},
      {"-torch.norm(x)", true},
      {"-F.softplus(x)", true},
      {"-x ** 2", true},
      {"-x.square()", true},
      {"-d", true},
      {"-(x * y)", true},
      {"-x", false},
      {"+x.abs()", false},
      {"~x.abs()", false},
      {"-x.log()", false},
      {"x.abs().neg()", true},
      {"torch.negative(x.abs())", true},
      {"x.neg()", false},
      // Less its maximum.
      {"x - x.max()", true},
      {"x - m", true},
      {"x - max_of_x", true},
      {"x - x.logsumexp(0)", true},
      {"x - x.min()", false},
      {"x - y", false},
      {"-x.abs() - y.abs()", true},
      {"-x.abs() - y", false},
      {"x - y.abs()", false},
      {"x + x.max()", false},
      // Times a number.
      {"-0.5 * x ** 2", true},
      {"x ** 2 * -0.5", true},
      {"x.abs() / -2", true},
      {"-1 * x", false},
      {"x * -1", false},
      {"0.5 * -x.abs()", true},
      {"1 * -x.abs()", true},
      {"0.5 * x", false},
      {"2 * F.logsigmoid(x)", false},
      {"0 * x", false},
      {"-x.abs() / y", true},
      {"-x.abs() * 3", true},
      {"x.abs() / y", false},
      {"x.tanh() * y", false},
      // Between two limits it stays there.
      {"-1 * x.tanh()", true},
      {"x.sigmoid() * -2", true},
      {"-x.tanh()", true},
      {"x.cos().neg()", true},
      {"-1 * x.clamp(-3, 3)", true},
      {"-x.clamp(min=-3)", true},
      {"-x.clamp_min(-3)", true},
      {"-1 * x.clamp(max=3)", false},
      {"-limited(x)", true},
      {"-1 * limited(x)", true},
      {"-1 * other(x)", false},
      // Twice minus is plus.
      {"-1 * -x.abs()", false},
      {"-1 * (x - x.max())", false},
      {"-1 * F.log_softmax(x)", false},
      {"-1 * F.logsigmoid(x)", false},
      {"-1 * torch.minimum(x, y)", false},
      // By the function.
      {"F.log_softmax(x, -1)", true},
      {"F.logsigmoid(x)", true},
      {"x.tanh()", true},
      {"torch.sigmoid(x)", true},
      {"x.softmax(-1)", true},
      {"x.cos()", true},
      {"x.sin()", true},
      {"F.cosine_similarity(x, y)", true},
      {"torch.minimum(x, y)", true},
      {"F.hardtanh(x)", true},
      {"torch.erf(x)", true},
      {"torch.maximum(x, y)", false},
      {"x.clamp(max=11)", true},
      {"x.clamp(0, 11)", true},
      {"torch.clamp(x, max=11)", true},
      {"torch.clip(x, 0, 11)", true},
      {"x.clamp_(max=11)", true},
      {"x.clamp_max(11)", true},
      {"torch.clamp_max(x, 11)", true},
      {"x.clamp(max=12)", false},
      {"x.clamp_max(12)", false},
      {"x.clamp(0, 12)", false},
      {"torch.clamp(x, 0, 12)", false},
      {"x.clamp(min=0)", false},
      {"x.clamp(0)", false},
      {"x.clamp(max=z)", true},  // somebody chose it
      // What keeps the values.
      {"x.tanh().view(-1)", true},
      {"x.tanh().half()", true},
      {"torch.transpose(x.tanh(), 0, 1)", true},
      {"x.view(-1)", false},
      {"x.tanh().exp()", false},
      {"a", true},
      {"a.view(-1)", true},
      {"limited(x)", true},
      {"clipped(x)", true},
      {"other(x)", false},
  };
  const std::string functions =
      "def limited(x):\n    return x.clamp(max=3)\n"
      "def clipped(x):\n    return np.clip(x, 0, 3)\n"
      "def other(x):\n    return x\n";
  for (const auto& each : kTable) {
    const ReadProject project(kHead + functions +
                              "def f(x, y, z):\n    m = x.amax(); a = -x.abs(); d = x.abs()\n"
                              "    probe(" +
                              each.expression + ")\n");
    EXPECT_EQ(IsBoundedAbove(project.file(), project.Probed(), 11), each.bounded)
        << each.expression;
  }
  // Five steps deep.
  for (const char* around : {"(_).view(-1)", "0.5 * (_)", "(_) - y.abs()"}) {
    std::string expression = "x.tanh()";
    const auto bounded = [&] {
      const ReadProject project = Asked(expression);
      return IsBoundedAbove(project.file(), project.Probed(), 11);
    };
    const auto wrap = [&] { expression = Replaced(around, "_", expression); };
    for (int i = 0; i < 4; ++i) wrap();
    EXPECT_TRUE(bounded()) << expression;
    wrap();
    EXPECT_FALSE(bounded()) << expression;
  }
  const ReadProject project = Asked("x");
  EXPECT_FALSE(IsBoundedAbove(project.file(), kNoNode, 11));
}

TEST(TorchCalls, IndicesThatAreTensors) {
  const struct {
    const char* expression;
    bool is_tensor;
  } kTable[] = {{"x[x > 0]", true},
                {"x[0, y == z]", true},
                {"x[i]", true},
                {"x[y.long()]", true},
                {"x[torch.arange(3)]", true},
                {"x[j]", true},
                {"x[torch.cat(parts)]", true},
                {"x[y.argsort()]", true},
                {"x[0]", false},
                {"x[y]", false},
                {"x[1:]", false},
                {"x[y.float()]", false},
                {"(x > 0)[0]", false},
                {"i[0]", false},
                {"torch.arange(3)[0]", false},
                {"x[y.exp()]", false}};
  for (const auto& each : kTable) {
    const ReadProject project =
        Asked(each.expression, "h = x.half(); i = y.long(); j = torch.nonzero(y)");
    EXPECT_EQ(IsTensorIndex(project.file(), project.Probed()), each.is_tensor) << each.expression;
  }
}

TEST(TorchCalls, WhatMayBeZero) {
  const struct {
    const char *expression, *form;
  } kTable[] = {{"x ** 2", "a square"},
                {"x.square()", "a square"},
                {"x.max() - x.min()", "a range"},
                {"torch.amax(x, 0) - torch.amin(x, 0)", "a range"},
                {"top - x.min()", "a range"},
                {"x.max() - y", ""},
                {"x - x.min()", ""},
                {"x.min() - x.max()", ""},
                {"x.max() + x.min()", ""},
                {"x - y", ""},
                {"x.var()", "a variance"},
                {"torch.var(x, 0)", "a variance"},
                {"x.std()", "a standard deviation"},
                {"x.norm()", "a norm"},
                {"torch.linalg.vector_norm(x)", "a norm"},
                {"F.relu(x)", "a rectified value"},
                {"(x ** 2).sum()", "a sum of squares"},
                {"torch.mean(x * x)", "a sum of squares"},
                {"x.square().max()", "a sum of squares"},
                {"x.square().amax()", "a sum of squares"},
                {"x.square().prod()", ""},
                {"x.sigmoid()", "a probability"},
                {"x.abs().max()", "magnitudes"},
                {"x.abs().sum()", "magnitudes"},
                {"F.relu(x).mean()", "magnitudes"},
                {"x.abs().prod()", ""},
                {"x.sum()", ""},
                {"x.exp().sum()", ""},
                {"x.var().sqrt()", "a variance"},
                {"x.var().unsqueeze(0)", "a variance"},
                {"x.var().view(-1)", "a variance"},
                {"x.var().expand_as(y)", "a variance"},
                {"x.var().exp()", ""},
                {"v", "a variance"},
                {"x.abs()", ""},
                {"x", ""}};
  for (const auto& each : kTable) {
    const ReadProject project = Asked(each.expression, "top = x.max(); v = x.var()");
    EXPECT_EQ(ZeroForm(project.file(), project.Probed()), each.form) << each.expression;
  }
  const auto deep = [](int views) {
    std::string expression = "x.var()";
    for (int i = 0; i < views; ++i) expression += ".view(-1)";
    const ReadProject project = Asked(expression);
    return std::string(ZeroForm(project.file(), project.Probed()));
  };
  EXPECT_EQ(deep(5), "a variance");
  EXPECT_EQ(deep(6), "");
}

TEST(TorchCalls, WhereTrainingMayBe) {
  const auto may = [](const std::string& path, const std::string& function,
                      const std::string& before = "if x:") {
    const std::string head = function.empty() ? "if 1:" : "def " + function + "(x):";
    const ReadProject project(
        std::vector<Source>{{path, kHead + head + "\n    " + before + "\n        probe(x)\n"}});
    return MayTrain(project.file(), project.Probed());
  };
  EXPECT_TRUE(may("net/model.py", "forward"));
  EXPECT_TRUE(may("net/model.py", ""));
  EXPECT_FALSE(may("net/model.py", "forward", "with torch.no_grad():"));
  for (const char* path : {"net/evaluate.py", "net/metrics.py", "net/inference/run.py",
                           "tools/export.py", "deploy/model.py", "pipelines/model.py",
                           "tools/dump_weights.py", "demo.py", "trackers/model.py"}) {
    EXPECT_FALSE(may(path, "forward")) << path;
    EXPECT_FALSE(may(path, "")) << path;
  }
  for (const char* function : {"evaluate", "validate", "test_step", "infer", "sample_image",
                               "export", "predict", "generate", "decode", "metric", "to_onnx",
                               "visualize", "plot", "to_rgb", "log_images", "beam_search"}) {
    EXPECT_FALSE(may("net/model.py", function)) << function;
  }
}

}  // namespace
}  // namespace mpnanny::check
