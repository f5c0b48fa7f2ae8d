// Small sources whose analysis would take minutes if the ways through them were all gone: names
// that lead to many names, each of which leads to many. Work is counted, not timed: nodes of the
// syntax trees that are looked at, and allocations (names that are looked up are strings).
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/syntax/work.h"
#include "tests/static_check/examples.h"

namespace {

std::atomic<int64_t> allocations{0};  // by operator new, of all threads

}  // namespace

// Of this test program. The forms for arrays and those that do not throw call this one.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace mpnanny::check {
namespace {

// Node visits and allocations of Check() on one thread, after a first check of nothing has made
// what is made once.
int64_t Work(const std::vector<Source>& sources) {
  Options options;
  options.threads = 1;
  EXPECT_TRUE(Check({{"a.py", "import torch\n"}}, options, Rules(), {}));
  const int64_t before = allocations + NodeVisits();
  const auto report = Check(sources, options, Rules(), {});
  const int64_t work = allocations + NodeVisits() - before;
  EXPECT_TRUE(report) << (report ? "" : report.error().Text());
  EXPECT_TRUE(report && report->files_scanned == static_cast<int>(sources.size()));
  return work;
}

// `most`: twice what it is today, so that a change elsewhere has room; all ways would be a hundred
// times as many and more.
void ExpectBounded(const std::vector<Source>& sources, int64_t most) {
  const int64_t work = Work(sources);
  printf("work %lld (at most %lld)\n", static_cast<long long>(work), static_cast<long long>(most));
  EXPECT_LE(work, most) << sources[0].text.substr(0, 200);
}

std::string Repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Bounded, NamesThatAreBoundOften) {
  std::string code = "import torch\ny = x.half() * a\n";
  for (const char* bind : {"a = b\n", "b = c\n", "c = d\n", "d = e\n"}) code += Repeated(bind, 200);
  ExpectBounded({{"a.py", code + "e = 1\n"}}, 48'000);
}

TEST(Bounded, ConditionsThatStandForConditions) {
  std::string code = "import torch\nscaler = torch.amp.GradScaler()\n";
  for (const auto& [name, part] : {std::pair{"u", "v"}, {"v", "w"}, {"w", "z"}}) {
    code += std::string(name) + " = " + Repeated(std::string(part) + " and ", 300) + part + "\n";
  }
  code += "if u:\n    scaler.scale(loss).backward()\n";
  code += "if not u:\n    scaler.unscale_(opt)\nscaler.step(opt)\n";
  ExpectBounded({{"a.py", code}}, 7'100);
}

TEST(Bounded, ConditionsInOneExpression) {
  std::string code = "import torch\nscaler = torch.amp.GradScaler()\nx = True";
  for (int i = 0; i < 25; ++i) {
    const std::string n = std::to_string(i);
    code += " and (a" + n + " or f(b" + n + "))";
  }
  ExpectBounded({{"a.py", code + "\nscaler.step(opt)\n"}}, 1'350'000);
}

TEST(Bounded, ValuesThatAreMadeOfThemselves) {
  ExpectBounded(
      {{"a.py",
        "import torch\ndef f(x, d):\n    x = x.half()\n    n = n.unsqueeze(0)\n"
        "    a = a.view(-1).sqrt()\n    return torch.log(a) + x / n + x / a.sqrt() + d\n"}},
      2'200);
}

TEST(Bounded, ClassesWithManyBases) {
  std::string code = "import torch\n";
  for (char name = 'A'; name < 'H'; ++name) {
    const std::string base(1, static_cast<char>(name + 1));
    code += std::string("class ") + name + "(" + Repeated(base + ", ", 40) + base + "): pass\n";
  }
  ExpectBounded({{"a.py", code + "m = A()\nm(1)\n"}}, 6'900);
}

TEST(Bounded, FilesThatStarImportOneAnother) {
  const std::string a = "import torch\n" + Repeated("from .b import *\n", 30) + "f(1)\n";
  const std::string b = "import torch\n" + Repeated("from .a import *\n", 30) + "f(1)\n";
  ExpectBounded({{"p/a.py", a}, {"p/b.py", b}}, 1'600);
}

}  // namespace
}  // namespace mpnanny::check
