#include "engines/tensors/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/tensor_files/build_files.h"
#include "tests/tensor_files/read_elements.h"

namespace mpnanny::tensor_files {
namespace {

std::string One(const std::string& fields, size_t bytes = 8) {
  return Safetensors("{\"x\":{" + fields + "}}", std::string(bytes, '\0'));
}

TEST(Safetensors, ATensorThatIsNotAlignedIsRead) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (size_t spaces = 0; spaces < 4; ++spaces) {
    const std::string file = Safetensors(header + std::string(spaces, ' '),
                                         Little(0x3f800000, 4) + Little(0xc0000000, 4));
    const auto contents = ReadContents(Bytes(file));
    ASSERT_TRUE(contents) << contents.error().Text();
    const auto elements = Elements::Read(contents->entries[0]);
    ASSERT_TRUE(elements);
    EXPECT_EQ(AllElements(elements->view()), (std::vector<double>{1, -2}));
  }
}

TEST(Safetensors, RefusesWhatOtherReadersSeeDifferently) {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  ASSERT_EQ(ErrorOf(One(good)), "");
  const std::string twice = "{\"x\":{" + good + "},\"x\":{" + good + "}}";
  EXPECT_NE(ErrorOf(Safetensors(twice, std::string(8, '\0'))), "");
  EXPECT_NE(ErrorOf(One(good, 9)), "") << "a byte that belongs to nobody";
  EXPECT_NE(ErrorOf(One(good, 7)), "") << "a tensor that ends outside";
  const std::string second = R"(,"y":{"dtype":"U8","shape":[2],"data_offsets":[)";
  const auto two = [&](const std::string& range, size_t bytes) {
    return ErrorOf(
        Safetensors("{\"x\":{" + good + "}" + second + range + "]}}", std::string(bytes, '\0')));
  };
  EXPECT_EQ(two("8,10", 10), "");
  EXPECT_NE(two("9,11", 11), "") << "a hole";
  EXPECT_NE(two("7,9", 9), "") << "an overlap";
  EXPECT_NE(two("0,2", 8), "") << "an overlap";
}

TEST(Safetensors, RefusesNumbersThatAreNone) {
  for (const char* shape :
       {"[-1]", "[1.5]", "[1e3]", "[true]", "[null]", "[\"2\"]", "2", "[18446744073709551615]",
        "[4294967296,4294967296]", "[9223372036854775807,2]", "[0,9223372036854775807,9]"}) {
    EXPECT_NE(ErrorOf(One("\"dtype\":\"F32\",\"shape\":" + std::string(shape) +
                          ",\"data_offsets\":[0,8]")),
              "")
        << shape;
  }
  for (const char* range : {"[8,0]", "[0,9]", "[-8,0]", "[0]", "[0,8,8]", "[0.0,8]",
                            "[0,9223372036854775808]", "[18446744073709551608,8]"}) {
    EXPECT_NE(
        ErrorOf(One("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + std::string(range))), "")
        << range;
  }
}

TEST(Safetensors, ADtypeThatIsNotKnownHidesNoOtherTensor) {
  const std::string file =
      Safetensors(R"({"a":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]},)"
                  R"("b":{"dtype":"I8","shape":[1],"data_offsets":[3,4]}})",
                  std::string(3, '\0') + "\xff");
  const auto contents = ReadContents(Bytes(file));
  ASSERT_TRUE(contents) << contents.error().Text();
  EXPECT_NE(contents->entries[0].problem.find("F6_E3M2"), std::string::npos);
  const auto elements = Elements::Read(contents->entries[1]);
  ASSERT_TRUE(elements);
  EXPECT_EQ(AllElements(elements->view()), (std::vector<double>{-1}));
}

TEST(Safetensors, RefusesHeadersThatAreNone) {
  EXPECT_NE(ErrorOf(Little(100, 8) + "{}"), "") << "a header longer than the file";
  EXPECT_NE(ErrorOf(Little(UINT64_MAX, 8) + "{}"), "");
  EXPECT_NE(ErrorOf(Safetensors("{]", "")), "");
  EXPECT_NE(ErrorOf(Safetensors(std::string(10'000, '{'), "")), "");
  std::string deep = "{\"x\":";
  for (int i = 0; i < 10'000; ++i) deep += '[';
  EXPECT_NE(ErrorOf(Safetensors(deep, "")), "");
  EXPECT_EQ(ErrorOf(Safetensors("{}", "")), "");
  const std::string large = ErrorOf(Safetensors("{}" + std::string(40 << 20, ' '), ""));
  EXPECT_NE(large.find("the limit is"), std::string::npos) << large;
}

TEST(Shards, AreReadThroughTheirIndexAndNothingElse) {
  const std::string folder = TestFolder("shards");
  const std::string index = folder + "/model.safetensors.index.json";
  const auto shard = [](const std::string& key) {
    return Safetensors("{\"" + key + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                       "\x05");
  };
  WriteBytes(folder + "/1.safetensors", shard("a"));
  WriteBytes(folder + "/2.safetensors", shard("b").substr(0, 20));
  WriteBytes(index, R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors",)"
                    R"("c":"3.safetensors","d":"1.safetensors"}})");
  const auto file = OpenAny(index);
  ASSERT_TRUE(file) << file.error().Text();
  ASSERT_EQ(file->entries().size(), 4u);
  EXPECT_EQ(FindEntry(file->entries(), "a")->problem, "");
  for (const char* key : {"b", "c", "d"})
    EXPECT_NE(FindEntry(file->entries(), key)->problem, "") << key;
  EXPECT_EQ(file->notes().size(), 2u);

  const auto none = TensorFile::Open(
      index, [](const std::string&) { return Result<std::string>(InvalidInput("outside")); });
  ASSERT_TRUE(none);
  EXPECT_NE(FindEntry(none->entries(), "a")->problem, "");

  for (const char* name : {"../1.safetensors", "/etc/passwd", "", "..", "a\\\\b", "a\\u0000b"}) {
    WriteBytes(index, std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    EXPECT_FALSE(OpenAny(index)) << name;
  }
  // An index that names itself is no file of tensors.
  WriteBytes(index, R"({"weight_map":{"a":"model.safetensors.index.json"}})");
  const auto itself = OpenAny(index);
  ASSERT_TRUE(itself);
  EXPECT_NE(itself->entries()[0].problem, "");
}

TEST(TensorFile, SaysWhatItDoesNotRead) {
  const std::string folder = TestFolder("unknown");
  for (const std::string& bytes :
       {std::string(), std::string("GGUF\x03"), std::string("\x89HDF\r\n\x1a\n"),
        std::string("{\"a\":1}"), std::string("hello, this is no tensor")}) {
    WriteBytes(folder + "/x", bytes);
    const auto file = OpenAny(folder + "/x");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().kind, ErrorKind::kInvalidInput) << file.error().Text();
  }
  EXPECT_FALSE(OpenAny(folder));
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(OpenAny(folder + "/pipe")) << "nobody ever writes into it";
  ASSERT_FALSE(OpenAny(folder + "/missing"));
  EXPECT_EQ(OpenAny(folder + "/missing").error().kind, ErrorKind::kNotFound);
}

// A training may save its checkpoint again while it is read.
TEST(TensorFile, AFileThatIsCutShortWhileItIsReadEndsNothing) {
  const std::string path = TestFolder("cut") + "/x.npy";
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }";
  const std::string padding(118 - header.size(), ' ');  // the array begins at byte 128
  WriteBytes(path, Npy(header + padding, std::string(4'000'000, '\x01')));
  const auto file = OpenAny(path);
  ASSERT_TRUE(file);
  const auto elements = Elements::Read(file->entries()[0]);
  ASSERT_TRUE(elements);
  EXPECT_FALSE(file->changed());
  std::filesystem::resize_file(path, 8192);
  const auto values = AllElements(elements->view());
  EXPECT_NE(values.front(), 0);
  EXPECT_EQ(values.back(), 0);
  EXPECT_TRUE(file->changed());
}

}  // namespace
}  // namespace mpnanny::tensor_files
