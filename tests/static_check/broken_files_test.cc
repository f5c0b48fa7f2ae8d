// Broken, huge and odd files: an answer, a note where something was left out, and the findings of
// what is intact. The times are guards against hangs, not measurements.
#include <chrono>
#include <string>
#include <tuple>

#include "base/json.h"
#include "engines/check/inputs/decode.h"
#include "engines/check/inputs/notebook.h"
#include "tests/static_check/examples.h"

namespace mpnanny::check {
namespace {

using std::string_literals::operator""s;

constexpr std::chrono::seconds kHang{20};
// ThreadSanitizer makes parsing ten times as slow, and what limits it is a time.
#ifdef __SANITIZE_THREAD__
constexpr int kNumbersOfAMegabyte = 35000;
#else
constexpr int kNumbersOfAMegabyte = 350000;
#endif

const std::string kFound = " error clip-before-unscale";

struct Broken {
  const char* name;
  std::string bytes;
  std::string line;  // of the finding; empty: none is wanted
  std::string note;  // a part of it; empty: none is wanted
  std::string path = "example.py";
};

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string Utf16(const std::string& ascii, bool little) {
  std::string wide = little ? "\xFF\xFE" : "\xFE\xFF";
  for (const char c : ascii) {
    wide += little ? std::string{c, '\0'} : std::string{'\0', c};
  }
  return wide;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Deterministic bytes without structure.
std::string Noise(size_t size) {
  std::string bytes;
  uint32_t state = 12345;
  for (size_t i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

std::string Cell(const std::string& source) {
  return "{\"cell_type\": \"code\", \"source\": " + source + "}";
}

std::vector<Broken> Corpus() {
  const std::string bad = kClippedScaled;
  const std::string code_json = DumpJson(Json(bad));
  std::string python2 = bad +
                        "def g(x):\n    print 'loss', x\n    exec 'y = 1'\n    try:\n"
                        "        raise ValueError, 'no'\n    except ValueError, e:\n"
                        "        print >>f, e\n";
  std::string deep = bad;
  for (int i = 0; i < 300; ++i) deep += std::string(static_cast<size_t>(i), ' ') + "if x:\n";
  deep += std::string(300, ' ') + "pass\n";
  return {
      {"empty", "", "", ""},
      {"syntax error behind", bad + "def broken(:\n", "5", "syntax error"},
      {"syntax error before", "def broken(:\n    pass\n\n" + bad, "8", "syntax error"},
      {"unclosed string", bad + "x = '''never closed\n", "5", "syntax error"},
      {"python 2", python2, "5", ""},
      {"merge conflict", bad + "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n", "5",
       "syntax error"},
      {"half of it", bad + bad.substr(0, bad.find("p, 1.0")), "5", "syntax error"},
      {"huge", bad + std::string(3u << 20, '#'), "", "larger than"},
      {"binary", "import torch\n" + Noise(100000), "", "binary"},
      {"an archive", "PK\3\4\0\0\0torch\0\0\0\0\0\0\0\0\1"s, "", "binary"},
      {"a stray NUL", bad + "x = 1\0\n"s, "5", "zero bytes"},
      {"padded with NULs", bad + std::string(4096, '\0'), "5", "zero bytes"},
      {"latin-1 as declared", "# -*- coding: latin-1 -*-\n# caf\xE9\n" + bad, "7", ""},
      {"gbk as declared", "# coding=gbk\nx = '\xC4\xE3\xBA\xC3\x81\x5C'\n" + bad, "7", ""},
      {"latin-1 undeclared", "# caf\xE9\n" + bad, "6", "not UTF-8"},
      {"mixed encodings", "# caf\xE9 caf\xC3\xA9 \xB0\xA1\n" + bad, "6", "not UTF-8"},
      {"unknown encoding", "# coding: klingon\n# caf\xE9\n" + bad, "7", "klingon"},
      {"utf-16 little", Utf16(bad, true), "5", "UTF-16"},
      {"utf-16 big", Utf16(bad, false), "5", "UTF-16"},
      {"utf-16 without torch", Utf16("print(1)\n", true), "", ""},
      {"bom", "\xEF\xBB\xBF" + bad, "5", ""},
      {"crlf", Replaced(bad, "\n", "\r\n"), "5", ""},
      {"cr", Replaced(bad, "\n", "\r"), "5", ""},
      {"mixed line ends", Replaced(bad, ":\n", ":\r"), "5", ""},
      {"form feeds", "\f\n" + Replaced(bad, "def", "\fdef"), "6", ""},
      {"deep blocks", deep, "", "syntax error"},
      {"deep brackets",
       bad + "x = " + std::string(20000, '(') + "1" + std::string(20000, ')') + "\n", "", "nested"},
      {"open brackets", bad + std::string(5000, '['), "", "syntax error"},
      {"a megabyte on one line", bad + "x = [" + Repeat("1, ", kNumbersOfAMegabyte) + "]\n", "5",
       ""},
      {"long string", bad + "x = '" + std::string(1u << 20, 'x') + "'\n", "5", ""},
      {"long line of wide characters", bad + "x = '" + Repeat("\xE5\xAD\x97", 300000) + "'\n", "5",
       ""},
      {"many findings on one line",
       "import torch; " + Repeat("torch.autocast('cuda'); ", 3000) + "\n", "", ""},
      {"chain of operators", bad + "x = 1" + Repeat(" + y", 100000) + "\n", "", "nested"},
      {"chain of attributes", bad + "x = a" + Repeat(".b", 50000) + "\n", "", "nested"},
      {"chain of elif", bad + "if a:\n    pass\n" + Repeat("elif b:\n    c = 1\n", 5000), "5", ""},
      {"only comments", "# torch\n" + Repeat("# x\n", 100000), "", ""},
      {"no notebook", "torch {", "", "no notebook", "n.ipynb"},
      {"empty notebook file", "", "", "", "n.ipynb"},
      {"notebook without cells", "{\"torch\": 1}", "", "no list \"cells\"", "n.ipynb"},
      {"notebook with no code", "{\"torch\": 1, \"cells\": []}", "", "", "n.ipynb"},
      {"notebook of odd cells",
       "{\"torch\": 1, \"cells\": [1, null, {}, {\"cell_type\": 3}, {\"cell_type\": \"code\"}, "
       "{\"cell_type\": \"code\", \"source\": [1, null]}, {\"cell_type\": \"code\", \"source\": "
       "{}}, " +
           Cell(code_json) + "]}",
       "5", "", "n.ipynb"},
      {"nbformat 3",
       "{\"nbformat\": 3, \"worksheets\": [{\"cells\": [{\"cell_type\": \"code\", \"input\": " +
           code_json + "}]}]}",
       "5", "", "n.ipynb"},
      {"notebook in R",
       "{\"cells\": [], \"metadata\": {\"kernelspec\": {\"language\": \"R\"}}, \"x\": \"torch\"}",
       "", "notebook in R", "n.ipynb"},
      {"deep json", "{\"torch\": " + std::string(100000, '[') + "}", "", "no notebook", "n.ipynb"},
  };
}

TEST(BrokenFiles, EachGivesAnAnswerInTime) {
  for (const Broken& broken : Corpus()) {
    SCOPED_TRACE(broken.name);
    const auto start = std::chrono::steady_clock::now();
    const Report report = CheckCode(broken.bytes, broken.path);
    const auto took = std::chrono::steady_clock::now() - start;
    RecordProperty(broken.name,
                   std::to_string(std::chrono::duration<double, std::milli>(took).count()));
    EXPECT_LT(took, kHang);
    if (!broken.line.empty()) {
      EXPECT_EQ(Found(report), std::set<std::string>{broken.line + kFound});
    }
    std::string notes;
    for (const std::string& note : report.notes) notes += note + "\n";
    if (broken.note.empty()) {
      EXPECT_EQ(notes, "");
    } else {
      EXPECT_NE(notes.find(broken.note), std::string::npos) << "the notes are: " << notes;
    }
    for (const Finding& finding : report.findings) EXPECT_LE(finding.excerpt.size(), 400u);
  }
}

// Cut anywhere, it is still answered.
TEST(BrokenFiles, EveryPrefixIsAnswered) {
  const std::string whole = Replaced(kClippedScaled, "    s.step(o)\n",
                                     "    x = (f'{a!r:>{b}}', b'\\x00', [y for y in z if y])\n");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Report report = CheckCode(whole.substr(0, size));
    EXPECT_LE(report.findings.size(), 3u);
  }
}

TEST(Decode, FollowsWhatPythonFollows) {
  const auto text = [](const std::string& bytes) { return DecodeSource(bytes)->text; };
  EXPECT_EQ(text("# coding: latin-1\n\xE9"), "# coding: latin-1\n\xC3\xA9");
  EXPECT_EQ(text("#!x\n# vim: set fileencoding=cp1252 :\n\x80"),
            "#!x\n# vim: set fileencoding=cp1252 :\n\xE2\x82\xAC");
  EXPECT_EQ(text("\n\n# coding: latin-1\n\xE9"), "\n\n# coding: latin-1\n?") << "the third line";
  EXPECT_EQ(text("x = 1 # coding: latin-1\n\xE9"), "x = 1 # coding: latin-1\n?")
      << "no comment line";
  EXPECT_EQ(text("# coding: latin-1\n\xC3\xA9"), "# coding: latin-1\n\xC3\xA9") << "it is UTF-8";
  EXPECT_EQ(text("a\rb\r\nc\r"), "a\nb\r\nc\n");
  EXPECT_EQ(text("\xEF\xBB\xBFx"), "x");
}

TEST(Notebooks, AFindingEndsInItsCell) {
  const auto cell = [](const std::string& source) { return Cell(DumpJson(Json(source))); };
  const std::string code = kClippedScaled;
  const size_t inside = code.find("p, 1.0");
  const Report report = CheckCode("{\"cells\": [" + cell(code.substr(0, inside)) + "," +
                                      cell("\n\n  " + code.substr(inside)) + "]}",
                                  "a.ipynb");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].path, "a.ipynb:cell 1");
  EXPECT_EQ(report.findings[0].line, 5);
  EXPECT_EQ(report.findings[0].end_line, 5);
  EXPECT_EQ(report.findings[0].end_column, 36);
}

TEST(Magics, AreTakenOutAndNothingElse) {
  const auto python = [](const std::string& source) {
    const auto notebook = ReadNotebook("{\"cells\": [" + Cell(DumpJson(Json(source))) + "]}");
    EXPECT_TRUE(notebook);
    return notebook->text;
  };
  EXPECT_EQ(python("%matplotlib inline\nx = 1"), "pass\nx = 1\n");
  EXPECT_EQ(python("for x in y:\n    !ls\n"), "for x in y:\n    pass\n\n");
  EXPECT_EQ(python("!pip install \\\n  torch\nx = 1"), "pass\n\nx = 1\n");
  EXPECT_EQ(python("\r\n \r\n%ls\r\nx = 1"), "\r\n \r\npass\nx = 1\n");
  EXPECT_EQ(python("%%time\nx = 1"), "pass\nx = 1\n");
  EXPECT_EQ(python("%%bash\necho 'x\nls"), "\n\n\n");
  EXPECT_EQ(python("files = !ls\nt = %timeit -o f()\n"), "files = None\nt = None\n\n");
  EXPECT_EQ(python("torch.nn.Linear?\n??x"), "pass\npass\n");
  for (const char* same : {"x = ('a=%s'\n     % y)\n", "print('loss=%f' % loss)\n",
                           "'''\n%time\n!ls\n'''\n", "x = y \\\n  % z\n", "assert a != b\n",
                           "x %= 3\n", "x = y if z else '?'\n", "x = [1,\n  2]  # (\n%z"}) {
    if (std::string(same).ends_with("%z")) {
      EXPECT_EQ(python(same), "x = [1,\n  2]  # (\npass\n") << "a bracket in a comment";
    } else {
      EXPECT_EQ(python(same), same + std::string("\n"));
    }
  }
}

}  // namespace
}  // namespace mpnanny::check
