// torch.save's archives and exported programs.
#include <gtest/gtest.h>

#include "engines/tensors/torch_tensors.h"
#include "tests/tensor_files/build_files.h"
#include "tests/tensor_files/read_elements.h"

namespace mpnanny::tensor_files {
namespace {

const Member kStorage{"0", std::string(32, '\0')};  // 8 numbers of FP32

std::string OneTensor(int64_t elements, int64_t first, const std::vector<int64_t>& shape,
                      const std::vector<int64_t>& strides) {
  return TorchZip(op::Tensor(op::Storage("FloatStorage", "0", elements), first, shape, strides),
                  {kStorage});
}

TEST(TorchArchive, ATensorMayReachTheLastElementAndNoFurther) {
  EXPECT_EQ(ProblemOf(OneTensor(8, 0, {2, 4}, {4, 1})), "");
  EXPECT_EQ(ProblemOf(OneTensor(8, 7, {1, 1}, {100, 100})), "");
  EXPECT_EQ(ProblemOf(OneTensor(8, 1, {7}, {1})), "");
  EXPECT_EQ(ProblemOf(OneTensor(8, 0, {5, 2}, {0, 7})), "");
  EXPECT_EQ(ProblemOf(OneTensor(8, 8, {0}, {1})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, 2, {7}, {1})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, 0, {2, 4}, {5, 1})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, -1, {2}, {1})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, 7, {2}, {-1})), "") << "a negative stride";
  EXPECT_NE(ProblemOf(OneTensor(8, 0, {-2}, {1})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, 0, {2, 2}, {1})), "") << "a stride is missing";
  EXPECT_NE(ProblemOf(OneTensor(9, 0, {2}, {1})), "") << "a storage larger than its member";
  EXPECT_NE(ProblemOf(OneTensor(-1, 0, {2}, {1})), "");
  EXPECT_NE(ProblemOf(OneTensor(INT64_MAX, 0, {2}, {1})), "");
  constexpr int64_t kHalf = int64_t{1} << 62;
  EXPECT_NE(ProblemOf(OneTensor(8, 0, {kHalf, 4}, {0, 0})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, 0, {3, 3}, {kHalf, kHalf})), "") << "4 * 2^62 = 0";
  EXPECT_NE(ProblemOf(OneTensor(8, INT64_MAX, {2}, {1})), "");
  EXPECT_NE(ProblemOf(OneTensor(8, 0, {kHalf}, {0})), "") << "2^62 times one element";
  EXPECT_NE(ProblemOf(OneTensor(8, 0, std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1))),
            "");
}

TEST(TorchArchive, AStorageThatIsMissingHidesNoOther) {
  const auto tensor = [](const char* key) {
    return op::Tensor(op::Storage("FloatStorage", key, 8), 0, {8}, {1});
  };
  const std::string file =
      TorchZip(op::Dict({op::Text("a"), tensor("0"), op::Text("b"), tensor("1"), op::Text("c"),
                         op::Tensor(op::Storage("NoStorage", "0", 8), 0, {8}, {1})}),
               {kStorage});
  const auto contents = ReadContents(Bytes(file));
  ASSERT_TRUE(contents) << contents.error().Text();
  ASSERT_EQ(contents->entries.size(), 3u);
  EXPECT_TRUE(Elements::Read(contents->entries[0]));
  EXPECT_FALSE(Elements::Read(contents->entries[1]));
  EXPECT_FALSE(Elements::Read(contents->entries[2]));
}

TEST(TorchArchive, WhatPythonWouldRunIsNamed) {
  const std::string call = op::Global("posix", "system") + op::Tuple({op::Text("true")}) + "R";
  const std::string file =
      TorchZip(op::Dict({op::Text("a"), call, op::Text("w"),
                         op::Tensor(op::Storage("FloatStorage", "0", 8), 0, {8}, {1}),
                         op::Text("b"), op::Text("builtins") + op::Text("eval") + "\x93"}),
               {kStorage});
  const auto contents = ReadContents(Bytes(file));
  ASSERT_TRUE(contents) << contents.error().Text();
  EXPECT_EQ(contents->entries.size(), 1u);
  ASSERT_EQ(contents->notes.size(), 1u);
  EXPECT_NE(contents->notes[0].find("posix.system"), std::string::npos) << contents->notes[0];
  EXPECT_NE(contents->notes[0].find("builtins.eval"), std::string::npos);
  EXPECT_EQ(contents->notes[0].find("_rebuild_tensor_v2"), std::string::npos);
}

TEST(TorchArchive, WhatContainsItselfEnds) {
  // l = []; l.append(l), a dict that is its own value, and a tuple around a list around it.
  for (const std::string& pickle : {std::string("]q\x01h\x01"
                                                "a"),
                                    "}q\x01" + op::Text("k") + "h\x01s",
                                    "]q\x01(h\x01" + op::Int(1) +
                                        "tq\x02"
                                        "ah\x01"}) {
    const auto contents = ReadContents(Bytes(TorchZip(pickle, {})));
    ASSERT_TRUE(contents) << contents.error().Text();
    EXPECT_TRUE(contents->entries.empty());
    EXPECT_EQ(contents->notes.size(), 1u);
  }
}

TEST(TorchArchive, NestingOfTenThousandIsLeftOut) {
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "]";
  deep += op::Tensor(op::Storage("FloatStorage", "0", 8), 0, {8}, {1});
  for (int i = 0; i < 10'000; ++i) deep += "a";
  const auto contents = ReadContents(Bytes(TorchZip(deep, {kStorage})));
  ASSERT_TRUE(contents) << contents.error().Text();
  EXPECT_TRUE(contents->entries.empty());
  EXPECT_EQ(contents->notes.size(), 1u);
}

TEST(TorchArchive, AListThatIsReachedByBillionsOfWaysIsCutShort) {
  // l0 = [tensor]; l1 = [l0, l0]; … l50.
  std::string code = "]" + op::Tensor(op::Storage("FloatStorage", "0", 8), 0, {8}, {1}) + "a";
  for (int i = 0; i < 50; ++i) {
    const std::string memo(1, static_cast<char>(i));
    code += "q" + memo + "0](h" + memo + "h" + memo + "e";
  }
  const auto contents = ReadContents(Bytes(TorchZip(code, {kStorage})));
  ASSERT_TRUE(contents) << contents.error().Text();
  EXPECT_LE(contents->entries.size(), kMostEntries);
  ASSERT_FALSE(contents->notes.empty());
  EXPECT_NE(contents->notes.back().find("more than is listed"), std::string::npos);
}

TEST(TorchArchive, ALongKeyIsNotRepeatedForEveryTensor) {
  const std::string tensor = op::Tensor(op::Storage("FloatStorage", "0", 8), 0, {8}, {1});
  std::string many = "](";
  for (int i = 0; i < 1000; ++i) many += tensor;
  const std::string file =
      TorchZip(op::Dict({op::Text(std::string(1'000'000, 'k')), many + "e"}), {kStorage});
  const auto contents = ReadContents(Bytes(file));
  ASSERT_TRUE(contents) << contents.error().Text();
  EXPECT_TRUE(contents->entries.empty());
}

TEST(TorchArchive, PicklesThatAreNoneAreRefused) {
  for (const std::string& pickle : {std::string(),
                                    std::string("0"),
                                    std::string("t"),
                                    std::string("u"),
                                    std::string("R"),
                                    std::string("a"),
                                    std::string("("),
                                    std::string("h\x05"),
                                    std::string("X\xff\xff\xff\xff"),
                                    std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
                                    std::string("\x80\x09N"),
                                    std::string("Inot\n"),
                                    std::string("I1"),
                                    std::string("Fx\n"),
                                    std::string("Sx\n"),
                                    std::string("\xff"),
                                    std::string("cos\n"),
                                    op::Int(1) + op::Int(2) + "s",
                                    op::Dict({op::Text("a")}),
                                    op::Int(1) + op::Int(2) + "a",
                                    op::Text(std::string(2000, 'm')) + op::Text("n") + "\x93"}) {
    EXPECT_NE(ErrorOf(TorchZip(pickle, {})), "") << testing::PrintToString(pickle);
  }
}

TEST(TorchArchive, DepthOfMarksAndMemoIsBounded) {
  EXPECT_NE(ErrorOf(TorchZip(std::string(5'000'000, '('), {})), "");
  EXPECT_NE(ErrorOf(TorchZip(std::string(5'000'000, 'N'), {})), "");
  EXPECT_NE(ErrorOf(TorchZip("N" + std::string(5'000'000, '\x94'), {})), "");
  EXPECT_NE(ErrorOf(TorchZip("N" + std::string(5'000'000, '2'), {})), "");
}

TEST(TorchArchive, BigEndianAndCompressedStoragesAreRead) {
  std::string storage;
  for (int i = 0; i < 8; ++i)
    storage += std::string("\x3f\x80", 2) + std::string(1, char(i)) + '\0';
  const std::string pickle = op::Tensor(op::Storage("FloatStorage", "0", 8), 2, {2}, {5});
  const std::string file = Zip({{"x/data.pkl", "\x80\x02" + pickle + "."},
                                {"x/byteorder", "big"},
                                {"x/data/0", Deflate(storage), 8, 32}});
  const auto contents = ReadContents(Bytes(file));
  ASSERT_TRUE(contents) << contents.error().Text();
  const auto elements = Elements::Read(contents->entries[0]);
  ASSERT_TRUE(elements) << elements.error().Text();
  EXPECT_EQ(AllElements(elements->view()), (std::vector<double>{1 + 2 * 0x1p-15, 1 + 7 * 0x1p-15}));
}

std::string Exported(const std::string& payload) {
  return Zip(
      {{"m/archive_format", "pt2"},
       {"m/data/weights/weight_0", std::string(32, '\0')},
       {"m/data/weights/model_weights_config.json", R"({"config":{"w":{)" + payload + "}}}"}});
}

std::string Payload(const std::string& sizes, const std::string& strides,
                    const std::string& path = "weight_0", const std::string& pickled = "false") {
  return R"("path_name":")" + path + R"(","use_pickle":)" + pickled +
         R"(,"tensor_meta":{"dtype":7,"sizes":)" + sizes + R"(,"strides":)" + strides +
         R"(,"storage_offset":{"as_int":0}})";
}

TEST(ExportedProgram, WeightsAreCheckedAgainstTheirMember) {
  EXPECT_EQ(ProblemOf(Exported(Payload(R"([{"as_int":8}])", R"([{"as_int":1}])"))), "");
  EXPECT_NE(ProblemOf(Exported(Payload(R"([{"as_int":9}])", R"([{"as_int":1}])"))), "");
  EXPECT_NE(ProblemOf(Exported(Payload(R"([{"as_int":2}])", R"([{"as_int":-1}])"))), "");
  EXPECT_NE(ProblemOf(Exported(Payload(R"([{"as_expr":"s0"}])", R"([{"as_int":1}])"))), "");
  EXPECT_NE(ProblemOf(Exported(Payload("[8]", "[1]", "../weights/weight_0"))), "");
  EXPECT_NE(ProblemOf(Exported(Payload("[8]", "[1]", "weight_0", "true"))), "");
  EXPECT_NE(ProblemOf(Exported(Payload("[18446744073709551615]", "[1]"))), "");
  EXPECT_NE(ProblemOf(Exported(R"("path_name":3)")), "");
  const auto damaged =
      ReadContents(Bytes(Zip({{"m/data/weights/model_weights_config.json", "{"}})));
  ASSERT_TRUE(damaged);
  EXPECT_EQ(damaged->notes.size(), 1u);
}

TEST(ExportedProgram, ManyDescriptionsThatInflateAreReadUpToOneLimit) {
  const std::string spaces = std::string(12 << 20, ' ') + "{\"config\":{}}";
  std::vector<Member> members;
  for (int i = 0; i < 40; ++i) {
    members.push_back({"m/data/weights/" + std::to_string(i) + "_weights_config.json",
                       Deflate(spaces), 8, static_cast<int64_t>(spaces.size())});
  }
  const auto contents = ReadContents(Bytes(Zip(members)));
  ASSERT_TRUE(contents) << contents.error().Text();
  EXPECT_EQ(contents->notes.size(), 38u);
}

}  // namespace
}  // namespace mpnanny::tensor_files
