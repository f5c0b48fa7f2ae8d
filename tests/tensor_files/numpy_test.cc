// .npy, .npz and the ZIP files around them.
#include <gtest/gtest.h>

#include "engines/tensors/npy.h"
#include "engines/tensors/npz.h"
#include "tests/tensor_files/build_files.h"
#include "tests/tensor_files/read_elements.h"

namespace mpnanny::tensor_files {
namespace {

std::string Header(const std::string& descr, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }\n";
}

TEST(Npy, TakesTheHeadersThatNumPyWrites) {
  for (const char* header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
                             "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(2,)}",
                             "{'shape': (2L, 1L), 'fortran_order': True, 'descr': '<f4'}   \n",
                             "{'descr': '=f4', 'fortran_order': False, 'shape': (1, 2), }"}) {
    EXPECT_EQ(ProblemOf(Npy(header, std::string(8, '\0'))), "") << header;
  }
  // Versions 2 and 3 have a longer length.
  const std::string header = Header("'<f4'", "(2,)");
  for (const char version : {'\x02', '\x03'}) {
    EXPECT_EQ(ProblemOf("\x93NUMPY" + std::string(1, version) + '\0' + Little(header.size(), 4) +
                        header + std::string(8, '\0')),
              "");
  }
}

TEST(Npy, RefusesWhatIsNoHeader) {
  const std::string good = Header("'<f4'", "(2,)");
  for (const std::string& header :
       {std::string("{}"), std::string("{'descr': '<f4'}"), good + "x", "__import__('os')" + good,
        Header("'<f4'", "(-2,)"), Header("'<f4'", "(2.0,)"), Header("'<f4'", "2"),
        Header("'<f4'", "(2"), Header("'<f4'", "(2 2)"), Header("__import__('os')", "(2,)"),
        Header("'<f4'", "(2,), 'shape': (2,)"), Header("'<f4'", "(2,), 'more': (2,)"),
        Header("'<f4'", "(9223372036854775807,2)"), Header("'<f4'", "(99999999999999999999,)"),
        Header("'<f4'", "(0,9223372036854775807,3)"), Header("'<f4'", "(3,)"),
        Header("[[[[", "(2,)"), std::string("{'descr': '<f4")}) {
    EXPECT_NE(ErrorOf(Npy(header, std::string(8, '\0'))), "") << header;
  }
  std::string deep = "(";
  for (int i = 0; i < 4'000; ++i) deep += "1,";
  EXPECT_NE(ErrorOf(Npy(Header("'<f4'", deep + ")"), std::string(8, '\0'))), "");
  EXPECT_NE(ErrorOf(Npy(good, std::string(8, '\0')).substr(0, 30)), "");
  EXPECT_NE(ErrorOf("\x93NUMPY\x01"), "");
  EXPECT_NE(ErrorOf("\x93NUMPY\x09" + std::string(40, '\0')), "");
  EXPECT_NE(ErrorOf("\x93NUMPY\x02" + std::string(1, '\0') + Little(0xfffffff0, 4) + good), "");
  EXPECT_NE(ErrorOf(Npy(Header(std::string("[") + std::string(10'000, '['), "(2,)"), "")), "");
}

TEST(Npy, ListsWhatHoldsNoNumbersWithTheReason) {
  for (const char* descr : {"'|O'", "'<U3'", "'|S4'", "'<M8[ns]'", "'|V2'", "[('a', '<f4')]",
                            "'<c8'", "'<f16'", "'<f3'", "'x'", "''"}) {
    EXPECT_NE(ProblemOf(Npy(Header(descr, "(1,)"), std::string(16, '\0'))), "") << descr;
    EXPECT_EQ(ErrorOf(Npy(Header(descr, "(1,)"), std::string(16, '\0'))), "") << descr;
  }
}

TEST(Npz, ADamagedArrayHidesNoOther) {
  const std::string good = Npy(Header("'<u1'", "(2,)"), "\x01\x02");
  const std::string file =
      Zip({{"a.npy", good},
           {"b.npy", "\x93NUMPY"},
           {"c.npy", Deflate(good), 8, static_cast<int64_t>(good.size())},
           {"d.npy", Deflate(good).substr(0, 9), 8, static_cast<int64_t>(good.size())},
           {"notes.txt", "hello"}});
  const auto contents = ReadContents(Bytes(file));
  ASSERT_TRUE(contents) << contents.error().Text();
  ASSERT_EQ(contents->entries.size(), 4u);
  for (const char* key : {"a", "c"}) {
    const auto elements = Elements::Read(*FindEntry(contents->entries, key));
    ASSERT_TRUE(elements) << elements.error().Text();
    EXPECT_EQ(AllElements(elements->view()), (std::vector<double>{1, 2}));
  }
  for (const char* key : {"b", "d"})
    EXPECT_FALSE(Elements::Read(*FindEntry(contents->entries, key))) << key;
  EXPECT_EQ(contents->notes.size(), 1u);
}

TEST(Npz, ABombIsListedAndNotInflated) {
  const std::string header = Header("'<u1'", "(2000000000,)");
  const std::string bomb = Npy(header, std::string(50'000'000, '\0'));
  const std::string packed = Deflate(bomb);
  // More than is ever inflated: 2 GB out of 50 kB would be refused by their ratio, so it claims
  // less.
  EXPECT_NE(ErrorOf(Zip({{"a.npy", packed, 8, 2'000'000'074}})), "");
  const std::string claims =
      Zip({{"a.npy", packed + std::string(2'000'000, '\0'), 8, 2'000'000'074}});
  const auto contents = ReadContents(Bytes(claims));
  ASSERT_TRUE(contents) << contents.error().Text();
  ASSERT_EQ(contents->entries.size(), 1u);
  EXPECT_FALSE(Elements::Read(contents->entries[0]));
  // A ratio that deflate cannot have.
  EXPECT_NE(ErrorOf(Zip({{"a.npy", Deflate(std::string(100, 'x')), 8, 1'000'000'000}})), "");
  // Less than it is: what follows is not taken.
  const std::string small =
      Npy(Header("'<u1'", "(4,)"), "\x01\x02\x03\x04" + std::string(1000, 'z'));
  const int64_t claimed = static_cast<int64_t>(Npy(Header("'<u1'", "(4,)"), "1234").size());
  const std::string less = Zip({{"a.npy", Deflate(small), 8, claimed}});
  const auto read = ReadContents(Bytes(less));
  ASSERT_TRUE(read);
  const auto elements = Elements::Read(read->entries[0]);
  if (elements) {
    EXPECT_EQ(AllElements(elements->view()), (std::vector<double>{1, 2, 3, 4}));
  }
}

TEST(Zip, RefusesWhatTwoProgramsWouldSeeDifferently) {
  const std::string npy = Npy(Header("'<u1'", "(2,)"), "\x01\x02");
  const Member good{"a.npy", npy};
  ASSERT_EQ(ErrorOf(Zip({good})), "");
  EXPECT_NE(ErrorOf(Zip({good, good})), "") << "one name twice";
  EXPECT_NE(ErrorOf(Zip({good, {"b.npy", npy, 0, -1, "", 0}})), "") << "two members in one place";
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 0, -1, "b.npy"}})), "") << "two names";
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 0, 3}})), "") << "two sizes";
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 0, -1, "", 1'000'000}})), "") << "outside the file";
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 99}})), "") << "another method";
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 0, -1, "", -1, 1}})), "") << "encrypted";
  for (const char* name : {"../a.npy", "/a.npy", "x/../a.npy", "x\\a.npy"})
    EXPECT_NE(ErrorOf(Zip({{name, npy}})), "") << name;
  EXPECT_NE(ErrorOf(Zip({{std::string("a\0.npy", 6), npy}})), "");
  EXPECT_NE(ErrorOf(Zip({})), "") << "no member";
}

TEST(Zip, RefusesADirectoryThatLies) {
  const std::string file = Zip({{"a.npy", Npy(Header("'<u1'", "(2,)"), "\x01\x02")}});
  for (size_t cut = 1; cut < file.size(); ++cut)
    EXPECT_NE(ErrorOf(file.substr(0, file.size() - cut)), "") << cut;
  const size_t end = file.size() - 22;
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string changed = file;
    changed.replace(at, bytes.size(), bytes);
    return ErrorOf(changed);
  };
  EXPECT_NE(with(end + 10, Little(0xffff, 2)), "") << "65,535 members";
  EXPECT_NE(with(end + 12, Little(0xffffffff, 4)), "");
  EXPECT_NE(with(end + 16, Little(0xffffffff, 4)), "");
  EXPECT_NE(with(end + 4, Little(1, 2)), "") << "one disk of several";
  // 64-bit sizes that are promised and missing, or too large.
  const std::string npy = Npy(Header("'<u1'", "(2,)"), "\x01\x02");
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 0, 0xffffffff}})), "");
  EXPECT_NE(ErrorOf(Zip({{"a.npy", npy, 0, 0xffffffff, "", -1, 0,
                          Little(1, 2) + Little(8, 2) + Little(UINT64_MAX, 8)}})),
            "");
  EXPECT_EQ(ErrorOf(Zip({{"a.npy", npy, 0, 0xffffffff, "", -1, 0,
                          Little(1, 2) + Little(8, 2) + Little(npy.size(), 8)}})),
            "");
  // Every byte of the archive may be wrong: an answer, whatever it is.
  for (size_t at = 0; at < file.size(); ++at) {
    for (const char bits : {'\x01', '\x80', '\xff'}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ bits);
      const auto contents = ReadContents(Bytes(changed));
      for (const Entry& entry : contents ? contents->entries : std::vector<Entry>{})
        EXPECT_TRUE(Elements::Read(entry) || !entry.problem.empty());
    }
  }
}

}  // namespace
}  // namespace mpnanny::tensor_files
