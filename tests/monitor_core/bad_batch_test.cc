// Which rows and columns of a batch are not finite.
#include "monitor/core/bad_batch.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace mpnanny {
namespace {

constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kFloatInf = std::numeric_limits<float>::infinity();

TEST(BadBatch, RowsAndColumnsOfEachTensorThatIsBroken) {
  std::vector<float> table(24, 1), fine(4, 2);
  table[1 * 6 + 4] = kFloatNan;  // [4, 6]
  table[3 * 6 + 4] = kFloatInf;
  const int64_t shape[] = {4, 6}, line[] = {4};
  const TensorView views[] = {{fine.data(), DType::kFloat32, line, {}},
                              {table.data(), DType::kFloat32, shape, {}}};
  EXPECT_EQ(BadBatchJson(views, 2),
            R"({"call":2,"inputs":[{"input":1,"dtype":"float32","shape":[4,6],"nan":1,"posinf":1,)"
            R"("neginf":0,"rows":[1,3],"row_count":2,"columns":[4],"column_count":1}]})");
  // Transposed: the same memory, rows are columns.
  const int64_t turned[] = {6, 4}, strides[] = {1, 6};
  const TensorView view{table.data(), DType::kFloat32, turned, strides};
  EXPECT_EQ(BadBatchJson({&view, 1}, 1),
            R"({"call":1,"inputs":[{"input":0,"dtype":"float32","shape":[6,4],"nan":1,"posinf":1,)"
            R"("neginf":0,"rows":[4],"row_count":1,"columns":[1,3],"column_count":2}]})");
}

TEST(BadBatch, IsBoundedAndLeavesMasksOut) {
  std::vector<float> all(100, kFloatNan), mask(100, -kFloatInf);
  const int64_t shape[] = {100};
  const TensorView views[] = {{all.data(), DType::kFloat32, shape, {}},
                              {mask.data(), DType::kFloat32, shape, {}}};
  EXPECT_EQ(BadBatchJson(views, 1),
            R"({"call":1,"inputs":[{"input":0,"dtype":"float32","shape":[100],"nan":100,)"
            R"("posinf":0,"neginf":0,"rows":[0,1,2,3,4,5,6,7],"row_count":100}]})");
  const TensorView single{all.data(), DType::kFloat32, {}, {}};
  EXPECT_EQ(BadBatchJson({&single, 1}, 1),
            R"({"call":1,"inputs":[{"input":0,"dtype":"float32","shape":[],"nan":1,"posinf":0,)"
            R"("neginf":0}]})");
}

}  // namespace
}  // namespace mpnanny
