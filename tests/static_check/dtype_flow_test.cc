// Of which type values are that calls of torch's functions, methods and layers give, and branches.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engines/check/dtypes/dtypes.h"
#include "tests/static_check/read_project.h"

namespace mpnanny::check {
namespace {

std::string ResultIn(const std::string& code) {
  const ReadProject project("import torch\nimport einops\nfrom torch import nn\n" + code);
  const std::string type = TypeName(project.file().dtypes->Of(project.Probed()).type);
  return type == "unseen" ? "unknown" : type;
}

struct CallResult {
  const char *call, *type;
};

// x is a parameter; h, b, s and i are what it was cast to.
void ExpectResults(const std::vector<CallResult>& table, const std::string& around = "if x:") {
  for (const auto& [call, type] : table) {
    EXPECT_EQ(ResultIn("def f(x, q):\n    h = x.half()\n    b = x.bfloat16()\n"
                       "    s = x.float()\n    i = x.long()\n    " +
                       around + "\n        probe(" + call + ")\n"),
              type)
        << call;
  }
}

TEST(DtypeFlow, Casts) {
  ExpectResults({{"x.half()", "fp16"},
                 {"x.half(q)", "unknown"},
                 {"x.bfloat16()", "bf16"},
                 {"h.float()", "fp32"},
                 {"h.double()", "fp32"},
                 {"h.long()", "index"},
                 {"h.int()", "index"},
                 {"h.bool()", "index"},
                 {"s.to(torch.float16)", "fp16"},
                 {"s.type(torch.bfloat16)", "bf16"},
                 {"s.type_as(h)", "fp16"},
                 {"h.to('cuda')", "fp16"},
                 {"h.new_zeros(3)", "fp16"},
                 {"h.new_zeros(3, dtype=torch.float32)", "fp32"},
                 {"x.new_ones(3)", "unknown"}});
}

TEST(DtypeFlow, WhatIsMade) {
  ExpectResults({{"torch.zeros(3)", "fp32"},
                 {"torch.randn(3, dtype=torch.float16)", "fp16"},
                 {"torch.full((3,), h)", "fp32"},
                 {"torch.tensor(3)", "number"},
                 {"torch.tensor(q)", "unknown"},
                 {"torch.tensor(h)", "unknown"},
                 {"torch.tensor(3, dtype=torch.float16)", "fp16"},
                 {"torch.as_tensor(1.5)", "number"},
                 {"torch.as_tensor(q, dtype=torch.bfloat16)", "bf16"},
                 {"torch.tensor()", "unknown"},
                 {"q(h)", "unknown"},
                 {"len(h)", "number"}});
}

// All arguments decide, or the first one does.
TEST(DtypeFlow, FunctionsAndMethods) {
  ExpectResults({{"torch.add(h, h)", "fp16"},
                 {"torch.add(h, s)", "fp32"},
                 {"torch.add(h, b)", "fp32"},
                 {"torch.add(h, 1)", "fp16"},
                 {"torch.add(h, x)", "unknown"},
                 {"h.add(s)", "fp32"},
                 {"torch.relu(h)", "fp16"},
                 {"torch.relu(input=h)", "fp16"},
                 {"torch.relu(x)", "unknown"},
                 {"h.relu()", "fp16"},
                 {"h.relu_()", "fp16"},
                 {"s.add_(h)", "fp32"},
                 {"h.clamp(min=s)", "fp16"},
                 {"torch.softmax(h, -1)", "fp16"},
                 {"torch.softmax(h, -1, dtype=torch.float32)", "fp32"},
                 {"h.softmax(-1, dtype=None)", "fp16"},
                 {"torch.cat([h, h])", "fp16"},
                 {"torch.cat([h, s])", "fp32"},
                 {"torch.stack((h, b), 0)", "fp32"},
                 {"torch.where(q, h, h)", "fp16"},
                 {"torch.where(q, h, s)", "fp32"},
                 {"torch.where(s, h, h)", "fp16"},
                 {"h.where(q, h)", "fp16"},
                 {"h.where(q, s)", "fp32"},
                 {"h.where(s, h)", "fp16"},
                 {"h.where(s)", "fp32"},
                 {"torch.einsum('ij,jk->ik', h, h)", "fp16"},
                 {"torch.einsum('ij,jk->ik', h, s)", "fp32"},
                 {"h.masked_fill(q, 0)", "fp16"},
                 {"h.masked_fill(q, s)", "fp16"},
                 {"einops.rearrange(h, 'a b -> b a')", "fp16"},
                 {"einops.repeat(h, 'a -> a b', b=2)", "fp16"},
                 {"h.argmax(-1)", "index"},
                 {"torch.argmax(h)", "index"},
                 {"torch.isnan(h)", "index"},
                 {"h.unknown_method()", "unknown"},
                 {"torch.unknown_function(h)", "unknown"}});
}

TEST(DtypeFlow, UnderAutocast) {
  ExpectResults({{"torch.mm(s, s)", "bf16"},
                 {"torch.matmul(x, x)", "bf16"},
                 {"s.matmul(x)", "bf16"},
                 {"torch.softmax(h, -1)", "fp32"},
                 {"h.exp()", "fp32"},
                 {"torch.softmax(h, -1, dtype=torch.float16)", "fp16"},
                 {"torch.relu(h)", "fp16"},
                 {"torch.add(h, s)", "fp32"},
                 {"torch.nn.functional.binary_cross_entropy(h, h)", "unknown"},
                 {"h.argmax(-1)", "index"},
                 {"h.exp_()", "fp16"}},
                "with torch.autocast('cuda', dtype=torch.bfloat16):");
}

TEST(DtypeFlow, Mapped) {
  ExpectResults({{"list(map(lambda t: t.half(), (x, x)))", "unknown"},
                 {"map(lambda t: t, (h, h))", "fp16"},
                 {"map(lambda t: t, [h, b])", "half"},
                 {"map(lambda t: t, (h, s))", "unknown"},
                 {"map(lambda t: t, h)", "fp16"},
                 {"map(lambda t: t, s)", "fp32"},
                 {"map(lambda t: t.half(), (s, s))", "fp16"},
                 {"map(lambda t: t, (x, x))", "unknown"},
                 {"map(lambda t, u: t, h, h)", "unknown"},
                 {"map(q, h)", "unknown"},
                 {"map(lambda t: t)", "unknown"}});
  // The parameter is the lambda's own.
  EXPECT_EQ(ResultIn("def f(x):\n    t = x.half()\n    s = x.float()\n"
                     "    y = map(lambda t: t, s)\n    probe(t)\n"),
            "fp16");
}

TEST(DtypeFlow, BranchesAndLoops) {
  const auto type_of = [](const std::string& lines) {
    return ResultIn("def f(x, q):\n    h = x.half()\n    s = x.float()\n    y = s\n" + lines +
                    "    probe(y)\n");
  };
  EXPECT_EQ(type_of(""), "fp32");
  EXPECT_EQ(type_of("    y = h\n"), "fp16");
  EXPECT_EQ(type_of("    if q:\n        y = h\n"), "unknown");
  EXPECT_EQ(type_of("    if q:\n        y = h\n    else:\n        y = h\n"), "fp16");
  EXPECT_EQ(type_of("    if q:\n        y = h\n    else:\n        y = s\n"), "unknown");
  EXPECT_EQ(type_of("    if q:\n        y = h\n    elif x:\n        y = h\n    else:\n"
                    "        y = h\n"),
            "fp16");
  EXPECT_EQ(type_of("    if q:\n        y = h\n    elif x:\n        y = h\n"), "unknown");
  EXPECT_EQ(type_of("    for _ in q:\n        y = h\n"), "unknown");
  EXPECT_EQ(type_of("    y = h\n    for _ in q:\n        y = y + 1\n"), "fp16");
  EXPECT_EQ(type_of("    y = h\n    while q:\n        y = y + s\n"), "unknown");
  EXPECT_EQ(type_of("    with q:\n        y = h\n"), "fp16");
  EXPECT_EQ(type_of("    z, y = s, h\n"), "fp16");
  EXPECT_EQ(type_of("    y *= h\n"), "fp32");
}

// What a function returns, and not what one inside it does.
TEST(DtypeFlow, FunctionsOfTheProject) {
  const auto type_of = [](const std::string& body) {
    return ResultIn("def g(x):\n" + body + "def f(x):\n    h = x.half()\n    probe(g(h))\n");
  };
  EXPECT_EQ(type_of("    return x\n"), "fp16");
  EXPECT_EQ(type_of("    return x.bfloat16()\n"), "bf16");
  EXPECT_EQ(type_of("    if x:\n        return x.float()\n    return x\n"), "unknown");
  EXPECT_EQ(type_of("    def inner(y):\n        return x.float()\n    return x\n"), "fp16");
  EXPECT_EQ(type_of("    inner = lambda y: x.float()\n    return x\n"), "fp16");
  EXPECT_EQ(type_of("    pass\n"), "unknown");
}

// `made` is self.layer, of a module whose forward() is given FP16.
std::string LayerIn(const std::string& made, const std::string& call = "self.layer(h)",
                    const std::string& around = "if x:") {
  return ResultIn("class M(nn.Module):\n    def __init__(self):\n        self.layer = " + made +
                  "\n    def forward(self, x):\n        h = x.half()\n        " + around +
                  "\n            probe(" + call + ")\n");
}

TEST(DtypeFlow, Layers) {
  const std::string autocast = "with torch.autocast('cuda', dtype=torch.bfloat16):";
  const struct {
    const char *made, *plain, *autocast;
  } kTable[] = {{"nn.Linear(3, 3)", "fp16", "bf16"},
                {"nn.Conv2d(3, 3, 1)", "fp16", "bf16"},
                {"nn.LayerNorm(3)", "fp16", "fp32"},
                {"nn.ReLU()", "fp16", "fp16"},
                {"nn.Identity()", "fp16", "fp16"},
                {"nn.Dropout(0.1)", "fp16", "fp16"},
                {"nn.MaxPool2d(2)", "fp16", "fp16"},
                {"nn.LogSoftmax(-1)", "fp16", "fp32"},
                {"nn.Embedding(3, 3)", "fp32", "fp32"},
                {"nn.BCELoss()", "fp16", "unknown"},
                {"nn.Unheard()", "unknown", "unknown"},
                {"Linear(3, 3)", "unknown", "unknown"},
                {"nn.utils.spectral_norm(nn.Linear(3, 3))", "fp16", "bf16"},
                {"nn.Linear(3, 3) if q else nn.Linear(3, 4)", "fp16", "bf16"},
                {"nn.Linear(3, 3) if q else nn.Embedding(3, 3)", "unknown", "unknown"},
                {"nn.Linear(3, 3) if q else other", "unknown", "unknown"},
                {"nn.Sequential(nn.Linear(3, 3), nn.ReLU())", "fp16", "bf16"},
                {"nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))", "fp16", "fp32"},
                {"nn.Sequential(Other(), nn.ReLU())", "unknown", "unknown"},
                {"nn.Sequential(Other(), nn.Linear(3, 3))", "unknown", "bf16"}};
  for (const auto& [made, plain, under] : kTable) {
    EXPECT_EQ(LayerIn(made), plain) << made;
    EXPECT_EQ(LayerIn(made, "self.layer(h)", autocast), under) << made;
  }
  EXPECT_EQ(LayerIn("nn.ModuleList([nn.ReLU() for _ in range(3)])", "self.layer[0](h)"), "fp16");
  EXPECT_EQ(LayerIn("nn.ModuleList([nn.Linear(3, 3)])", "self.layer[0](h)", autocast), "bf16");
  EXPECT_EQ(LayerIn("[nn.ReLU()]", "self.layer[0](h)"), "unknown");
  EXPECT_EQ(LayerIn("nn.ModuleList([])", "self.layer[0](h)"), "unknown");
}

}  // namespace
}  // namespace mpnanny::check
