// Of which type an expression is, by what stands in it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/check/dtypes/dtypes.h"
#include "tests/static_check/read_project.h"

namespace mpnanny::check {
namespace {

constexpr char kImports[] =
    "import math\n"
    "import numpy as np\n"
    "import torch\n"
    "from torch import nn\n";

// "fp16", and "fp16, assumed" of what does not stand in the text.
std::string TypeIn(const std::string& code) {
  const ReadProject project(kImports + code);
  const Value value = project.file().dtypes->Of(project.Probed());
  return TypeName(value.type) + (value.assumed ? ", assumed" : "");
}

// Lines of a function's body, which end with a line break each.
std::string Body(const std::vector<std::string>& lines, const std::string& indent = "    ") {
  std::string text;
  for (const std::string& line : lines) text += indent + line + "\n";
  return text;
}

// x and q are parameters of which nothing is known; h, b, s and i are what x was cast to.
std::string Casts() {
  return "async def f(x, q):\n" +
         Body({"h = x.half()", "b = x.bfloat16()", "s = x.float()", "i = x.long()"});
}

std::string TypeOf(const std::string& expression, const std::string& before = "pass") {
  return TypeIn(Casts() + Body({before, "probe(" + expression + ")"}));
}

std::string TypeUnderAutocast(const std::string& expression) {
  return TypeIn(Casts() + Body({"with torch.autocast('cuda', dtype=torch.bfloat16):",
                                "    probe(" + expression + ")"}));
}

struct Expected {
  const char *expression, *type;
};

TEST(DtypeEval, NamesAndOperators) {
  const Expected kTable[] = {
      {"1", "number"},
      {"1.5", "number"},
      {"x", "unknown"},
      {"h", "fp16"},
      {"b", "bf16"},
      {"s", "fp32"},
      {"i", "index"},
      {"(h)", "fp16"},
      {"await h", "fp16"},
      {"-h", "fp16"},
      {"-1", "number"},
      {"h[0]", "fp16"},
      {"h[q]", "fp16"},
      {"x[0]", "unknown"},
      // The second result of these are positions.
      {"h.max(0)[0]", "fp16"},
      {"h.max(0)[1]", "index"},
      {"(h.topk(3))[1]", "index"},
      {"h.sort()[i]", "index"},
      {"h.abs()[1]", "fp16"},
      {"h if q else h", "fp16"},
      {"h if q  # or not\n        else h", "fp16"},
      {"h if q else b", "half"},
      {"h if q else s", "unknown"},
      {"h if q else x", "unknown"},
      {"h > 1", "index"},
      {"h == x", "index"},
      {"1 + 2", "number"},
      {"h + 1", "fp16"},
      {"1 - h", "fp16"},
      {"h * h", "fp16"},
      {"h + b", "fp32"},
      {"h + s", "fp32"},
      {"h * i", "fp16"},
      {"i + i", "index"},
      {"i * 2", "index"},
      {"h + x", "unknown"},
      {"x + h", "unknown"},
      {"h @ h", "fp16"},
      {"h ** 2", "fp16"},
      {"1 / h", "fp16"},
      {"h / 1", "fp16"},
      {"(z := h)", "fp16"},
      {"[h]", "unknown"},
      {"lambda: h", "unknown"},
      {"'text'", "unknown"},
      {"h if q else (lambda: h)", "unknown"},
      {"h if q else [h]", "unknown"},
  };
  for (const auto& [expression, type] : kTable) EXPECT_EQ(TypeOf(expression), type) << expression;
}

// What autocast makes of an operator is what it makes of the function that stands for it.
TEST(DtypeEval, OperatorsUnderAutocast) {
  const Expected kTable[] = {{"s @ s", "bf16"},  {"h @ h", "bf16"},   {"x @ x", "bf16"},
                             {"h ** 2", "fp32"}, {"2 ** h", "fp32"},  {"2 ** 3", "number"},
                             {"1 / h", "fp32"},  {"h / 1", "fp16"},   {"h / h", "fp16"},
                             {"1 - h", "fp16"},  {"1 * h", "fp16"},   {"s + s", "fp32"},
                             {"h + s", "fp32"},  {"-(s @ s)", "bf16"}};
  for (const auto& [expression, type] : kTable) {
    EXPECT_EQ(TypeUnderAutocast(expression), type) << expression;
  }
}

// An assignment counts wherever in an expression it stands.
TEST(DtypeEval, EveryPartOfAnExpressionIsWalked) {
  for (const char* holder :
       {"(z := h)", "-(z := h)", "x[(z := h)]", "(z := h)[0]", "(z := h) > 1", "1 < (z := h)",
        "q if (z := h) is None else q", "(z := h) + 1", "1 + (z := h)", "[(z := h)]", "q((z := h))",
        "q(k=(z := h))", "(z := h).foo", "f'{(z := h)}'"}) {
    EXPECT_EQ(TypeOf("z", std::string("y = ") + holder), "fp16") << holder;
  }
}

TEST(DtypeEval, Attributes) {
  const Expected kTable[] = {{"h.T", "fp16"},
                             {"h.mT", "fp16"},
                             {"h.H", "fp16"},
                             {"h.data", "fp16"},
                             {"h.grad", "fp16"},
                             {"h.values", "fp16"},
                             {"s.T", "fp32"},
                             {"h.shape", "number"},
                             {"h.ndim", "number"},
                             {"b.foo", "unknown"},
                             {"x.data", "unknown"},
                             {"cfg.width", "number"},
                             {"q.args.k", "number"},
                             {"math.pi", "number"},
                             {"torch.pi", "unknown"},
                             {"torch.finfo(x.dtype).min", "number"},
                             {"torch.iinfo(x.dtype).min", "unknown"},
                             {"q(x.dtype).min", "unknown"}};
  for (const auto& [expression, type] : kTable) EXPECT_EQ(TypeOf(expression), type) << expression;
  EXPECT_EQ(TypeOf("q.y", "q.y = h"), "fp16") << "assigned before";
  EXPECT_EQ(TypeOf("q.data", "q.data = s"), "fp32") << "assigned before";
}

// self.w is what __init__ made it, wherever a method is run again for what its callers give.
TEST(DtypeEval, AttributesOfTheClass) {
  const auto type_of = [](const std::string& assigned, const std::string& expression,
                          const std::string& base = "nn.Module") {
    return TypeIn("class M(" + base + "):\n    def __init__(self, w):\n" +
                  Body(assigned.empty() ? std::vector<std::string>{"pass"}
                                        : std::vector<std::string>{assigned},
                       "        ") +
                  "    def forward(self, x):\n        probe(" + expression +
                  ")\n        return x\n    def run(self, x):\n        return "
                  "self.forward(x.half())\n");
  };
  EXPECT_EQ(type_of("self.w = w.half()", "self.w"), "fp16");
  EXPECT_EQ(type_of("self.w = w.bfloat16()", "self.w"), "bf16");
  EXPECT_EQ(type_of("self.w = w.half()", "self.v"), "unknown");
  EXPECT_EQ(type_of("self.w = w", "self.w"), "unknown");
  EXPECT_EQ(type_of("self.w = w.half()", "x.w"), "unknown") << "another object's";
  EXPECT_EQ(type_of("", "x"), "fp16") << "what run() gives";
}

// nn.Parameter makes FP32 where autocast does the casting; elsewhere the whole module may be cast.
TEST(DtypeEval, Parameters) {
  const auto type_of = [](const std::string& made, const std::string& expression,
                          const std::string& region) {
    return TypeIn("class M(nn.Module):\n    def __init__(self):\n        self.p = " + made +
                  "\n    def forward(self, x):\n        h = x.half()\n        " + region +
                  "\n            probe(" + expression + ")\n");
  };
  const std::string autocast = "with torch.autocast('cuda', dtype=torch.float16):";
  const std::string parameter = "nn.Parameter(torch.zeros(3))";
  EXPECT_EQ(type_of(parameter, "self.p", autocast), "fp32");
  EXPECT_EQ(type_of(parameter, "self.p", "if x:"), "unknown");
  EXPECT_EQ(type_of(parameter, "self.p", "with torch.autocast('cuda', enabled=False):"), "unknown");
  EXPECT_EQ(type_of("torch.zeros(3)", "self.p", autocast), "unknown");
  EXPECT_EQ(type_of("other", "self.p", autocast), "unknown");
  EXPECT_EQ(type_of(parameter, "self.q", autocast), "unknown");
}

// Where all autocast of the project is FP16 on CUDA, a module's methods are taken to run under it,
// and what rests on that says so.
TEST(DtypeEval, WhatIsAssumedSaysSo) {
  const auto type_of = [](const std::string& expression) {
    return TypeIn(
        "class M(nn.Module):\n    def __init__(self):\n        self.p = nn.Parameter(q)\n"
        "    def forward(self, x):\n        probe(" +
        expression +
        ")\ndef train(m, x):\n    with torch.autocast('cuda', dtype=torch.float16):\n"
        "        x.exp()\n");
  };
  EXPECT_EQ(type_of("self.p"), "fp32, assumed");
  EXPECT_EQ(type_of("x @ x"), "fp16, assumed");
  EXPECT_EQ(type_of("(x @ x) + 1"), "fp16, assumed");
  EXPECT_EQ(type_of("x.half()"), "fp16");
  EXPECT_EQ(type_of("x.to(torch.float16)"), "fp16");
}

// By whose hand a value is 16-bit.
TEST(DtypeEval, TheOriginIsWhatMadeIt) {
  const auto origin_of = [](const std::string& before, const std::string& expression) {
    const ReadProject project(kImports + Casts() + Body({before, "probe(" + expression + ")"}));
    const Value value = project.file().dtypes->Of(project.Probed());
    return std::string(project.file().syntax.Text(value.origin));
  };
  EXPECT_EQ(origin_of("pass", "h"), "x.half()");
  EXPECT_EQ(origin_of("y = h + 1", "-y[0]"), "x.half()");
  EXPECT_EQ(origin_of("y = s.to(torch.float16)", "y.T"), "s.to(torch.float16)");
  EXPECT_EQ(origin_of("y = s.type_as(h)", "y"), "x.half()");
  EXPECT_EQ(origin_of("y = s.to(h)", "y"), "x.half()");
  EXPECT_EQ(origin_of("y = h.to('cuda')", "y"), "x.half()");
  EXPECT_EQ(origin_of("y = torch.zeros(3, dtype=torch.float16)", "y"),
            "torch.zeros(3, dtype=torch.float16)");
  // What a caller gives was made in another function.
  const ReadProject project(kImports +
                            std::string("def f(x):\n    probe(x)\ndef g(y):\n    f(y.half())\n"));
  const Value value = project.file().dtypes->Of(project.Probed());
  EXPECT_EQ(TypeName(value.type), "fp16");
  EXPECT_EQ(project.file().syntax.Text(value.origin), "x");
  EXPECT_NE(value.passed, kNoNode);
}

// Whether a name that was assigned outside is a Python number: beside a tensor it has no type.
std::string NumberIn(const std::string& assigned, const std::string& name = "N") {
  return TypeIn(assigned + "\ndef f(x):\n    h = x.half()\n    probe(" + name + ")\n");
}

TEST(DtypeEval, NamesOfNumbers) {
  const struct {
    const char* value;
    bool is_number;
  } kTable[] = {{"3", true},
                {"0.5", true},
                {"-3", true},
                {"-len(q)", true},
                {"-q", false},
                {"(3)", true},
                {"'3'", false},
                {"3 + 4", true},
                {"3 * len(q)", true},
                {"len(q) * 3", true},
                {"3 * q", false},
                {"q * 3", false},
                {"1 if q else len(q)", true},
                {"1 if q else q", false},
                {"q if q else 1", false},
                {"q or len(q)", true},
                {"len(q) or q", false},
                {"math.sqrt(q)", true},
                {"np.sqrt(2)", true},
                {"np.sqrt(q)", false},
                {"np.power(2, 3)", false},
                {"np.random()", false},
                {"torch.zeros(2)", false},
                {"float(q)", true},
                {"int(q)", true},
                {"len(q)", true},
                {"round(q)", true},
                {"str(q)", false},
                {"q.item()", true},
                {"q.size(0)", true},
                {"q.numel()", true},
                {"q.dim()", true},
                {"q.tolist()", true},
                {"q.sum()", false},
                {"q.float(1)", false},
                {"q.size()[1]", true},
                {"q.shape[0]", true},
                {"q[0]", false},
                {"q.shape", true},
                {"q.ndim", true},
                {"q.mean", false},
                {"math.pi", true},
                {"torch.pi", false},
                {"cfg.width", true},
                {"q.args.width", true},
                {"args.q.width", false},
                {"torch.finfo(torch.float16).max", true},
                {"torch.finfo(torch.float16).dtype.max", false},
                {"q(torch.float16).max", false},
                {"lambda: 1", false}};
  for (const auto& each : kTable) {
    EXPECT_EQ(NumberIn(std::string("N = ") + each.value), each.is_number ? "number" : "unknown")
        << each.value;
  }
}

TEST(DtypeEval, NamesThatAreAssignedOften) {
  EXPECT_EQ(NumberIn("N = len(a)\nN = 3"), "number");
  EXPECT_EQ(NumberIn("N = len(a)\nN = q"), "unknown");
  EXPECT_EQ(NumberIn("N = q\nN = len(a)"), "unknown");
  EXPECT_EQ(NumberIn("for N in q:\n    pass"), "unknown");
  EXPECT_EQ(NumberIn("N = len(a)\nM = N", "M"), "number");
  EXPECT_EQ(NumberIn("M = q\nN = M"), "unknown");
  EXPECT_EQ(NumberIn("class C:\n    w = 3\nC.d = len(q)", "C.d"), "number");
}

// Names that lead to names cost time: five steps are looked at, and two hundred expressions.
TEST(DtypeEval, HowFarNumbersAreLookedFor) {
  const std::string chain = "A = len(q)\nB = A\nC = B\nD = C\nE = D\n";
  EXPECT_EQ(NumberIn(chain, "D"), "number");
  EXPECT_EQ(NumberIn(chain, "E"), "unknown");
  for (const char* around : {"-(_)", "(_) * 2", "2 * (_)", "q or (_)", "2 if q else (_)",
                             "(_) if q else 2", "np.sqrt(_)", "(_)[0]"}) {
    std::string value = "len(q)";
    const auto wrap = [&] { value = Replaced(around, "_", value); };
    for (int i = 0; i < 3; ++i) wrap();
    EXPECT_EQ(NumberIn("N = " + value), "number") << value;
    wrap();
    EXPECT_EQ(NumberIn("N = " + value), "unknown") << value;
  }
  const auto bound = [](int times) {
    std::string code;
    for (int i = 0; i < times; ++i) code += "N = len(q)\n";
    return NumberIn(code);
  };
  EXPECT_EQ(bound(199), "number");
  EXPECT_EQ(bound(200), "unknown");
}

// What a number is by default is taken for what is passed.
TEST(DtypeEval, ParametersWithADefault) {
  const auto type_of = [](const std::string& parameters, const std::string& before = "pass") {
    return TypeIn("def f(" + parameters + "):\n    h = x.half()\n    " + before +
                  "\n    probe(k)\n");
  };
  EXPECT_EQ(type_of("x, k=3"), "number");
  EXPECT_EQ(type_of("x, k: float = 0.5"), "number");
  EXPECT_EQ(type_of("x, k=None"), "unknown");
  EXPECT_EQ(type_of("x, k"), "unknown");
  EXPECT_EQ(type_of("x, k=3", "k = x"), "unknown");
}

// What a place holds is joined over all visits.
TEST(DtypeEval, APlaceHoldsWhatEveryVisitGives) {
  const auto type_of = [](const std::string& before, const std::string& inside) {
    return TypeIn(Casts() + Body({before, "for k in q:", "    probe(z)", "    " + inside}));
  };
  EXPECT_EQ(type_of("z = h", "pass"), "fp16");
  EXPECT_EQ(type_of("z = h", "z = b"), "half");
  EXPECT_EQ(type_of("z = h", "z = s"), "unknown");
}

TEST(DtypeEval, WhatPeopleCallNumbers) {
  const auto type_of = [](const std::string& name, const std::string& before) {
    return TypeIn("def f(x, eps, scale, logits):\n    h = x.half()\n    " + before +
                  "\n    probe(h * " + name + ")\n");
  };
  EXPECT_EQ(type_of("eps", "pass"), "fp16");
  EXPECT_EQ(type_of("scale", "pass"), "fp16");
  EXPECT_EQ(type_of("logits", "pass"), "unknown");
  EXPECT_EQ(type_of("x.scale", "pass"), "unknown") << "an attribute may be a parameter";
  EXPECT_EQ(type_of("scale", "scale = x.sum()"), "unknown") << "its assignment says more";
  EXPECT_EQ(type_of("scale", "scale = len(x)"), "fp16");
}

// `dim ** -0.5` of a constructor's arguments are no tensors.
TEST(DtypeEval, SizesInConstructors) {
  const auto type_of = [](const std::string& value, const std::string& function = "__init__",
                          const std::string& before = "pass") {
    return TypeIn("class M(nn.Module):\n    def " + function + "(self, d, e):\n        " + before +
                  "\n        self.n = " + value +
                  "\n    def forward(self, x):\n        h = x.half()\n        probe(self.n)\n");
  };
  EXPECT_EQ(type_of("d ** -0.5"), "number");
  EXPECT_EQ(type_of("2 ** d"), "number");
  EXPECT_EQ(type_of("d // 2"), "number");
  EXPECT_EQ(type_of("d * 2"), "unknown");
  EXPECT_EQ(type_of("d ** e"), "unknown");
  EXPECT_EQ(type_of("d.k ** -0.5"), "unknown");
  EXPECT_EQ(type_of("d ** -0.5", "reset"), "unknown");
  EXPECT_EQ(type_of("d ** -0.5", "__init__", "d = e.sum()"), "unknown");
}

TEST(DtypeEval, NamesOfTypes) {
  const Expected kTable[] = {{"torch.float16", "fp16"},
                             {"torch.half", "fp16"},
                             {"torch.HalfTensor", "fp16"},
                             {"torch.cuda.HalfTensor", "fp16"},
                             {"torch.bfloat16", "bf16"},
                             {"torch.float32", "fp32"},
                             {"torch.float", "fp32"},
                             {"torch.float64", "fp32"},
                             {"torch.double", "fp32"},
                             {"torch.FloatTensor", "fp32"},
                             {"torch.cuda.FloatTensor", "fp32"},
                             {"torch.long", "index"},
                             {"torch.int", "index"},
                             {"torch.bool", "index"},
                             {"torch.int8", "index"},
                             {"torch.int64", "index"},
                             {"torch.uint8", "index"},
                             {"torch.complex64", "unknown"},
                             {"np.float16", "unknown"},
                             {"h.dtype", "fp16"},
                             {"b.dtype", "bf16"},
                             {"s.dtype", "fp32"},
                             {"x.dtype", "unknown"},
                             {"h.kind", "unknown"},
                             {"q", "unknown"},
                             {"q.dtype", "unknown"}};
  for (const auto& [name, type] : kTable) {
    EXPECT_EQ(TypeOf("torch.zeros(3, dtype=" + std::string(name) + ")"), type) << name;
    EXPECT_EQ(TypeOf("s.to(dtype=" + std::string(name) + ")"), type) << name;
  }
  EXPECT_EQ(TypeOf("s.to(t)", "t = torch.float16"), "fp16");
  EXPECT_EQ(TypeIn("T = torch.float16\ndef f(s):\n    y = s.half()\n    probe(s.to(T))\n"), "fp16");
  // What a parameter is by default says nothing of what callers pass.
  const auto type_of = [](const std::string& before) {
    return TypeIn("def f(x, t=torch.float16, u=torch.float16):\n    s = x.float()\n    " + before +
                  "\n    probe(s.to(dtype=t))\n");
  };
  EXPECT_EQ(type_of("pass"), "unknown");
  EXPECT_EQ(type_of("t = torch.bfloat16"), "bf16");
}

TEST(DtypeEval, Casts) {
  const Expected kTable[] = {
      {"s.type_as(h)", "fp16"},
      {"h.type_as(s)", "fp32"},
      {"h.type_as(other=s)", "fp32"},
      {"h.type_as(i)", "index"},
      {"h.type_as(x)", "unknown"},
      {"h.type_as(device_mask)", "unknown"},
      {"h.to(torch.float32)", "fp32"},
      {"h.to(torch.long)", "index"},
      {"h.to(dtype=torch.float32)", "fp32"},
      {"h.type(torch.cuda.FloatTensor)", "fp32"},
      {"s.type(torch.float16)", "fp16"},
      {"h.to(s)", "fp32"},
      {"s.to(b)", "bf16"},
      {"h.to(x)", "unknown"},
      {"h.to(i)", "unknown"},
      {"h.to(s.dtype)", "fp32"},
      // A device changes nothing.
      {"h.to()", "fp16"},
      {"h.to('cuda')", "fp16"},
      {"h.to(device)", "fp16"},
      {"h.to(q.device)", "fp16"},
      {"h.to(my_cuda)", "fp16"},
      {"h.to(local_rank)", "fp16"},
      {"h.to('cuda', non_blocking=True)", "fp16"},
      {"h.to('cuda', non_blocking=False)", "fp16"},
      {"x.to('cuda')", "unknown"},
      {"h.to('cuda', torch.float32)", "fp32"},
      {"h.to('cuda', x)", "unknown"},
      {"h.to(device, s)", "fp32"},
      // A type that is not known, whatever else its name holds.
      {"h.to(my_dtype)", "unknown"},
      {"h.to(float_kind)", "unknown"},
      {"h.to(device_type)", "unknown"},
      {"h.to(dev_float)", "unknown"},
      {"h.to(dtype=my_dtype)", "unknown"},
      {"h.to('cuda', dtype=torch.float32)", "fp32"},
      {"h.to(memory_format=torch.channels_last, dtype=torch.float32)", "fp32"},
  };
  for (const auto& [expression, type] : kTable) EXPECT_EQ(TypeOf(expression), type) << expression;
}

}  // namespace
}  // namespace mpnanny::check
