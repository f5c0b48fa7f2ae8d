#include "tests/tensor_files/read_elements.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "numerics/elements.h"

namespace mpnanny::tensor_files {
namespace {

namespace fs = std::filesystem;

class Folders : public testing::Environment {
 public:
  static fs::path Root() {
    static const fs::path root = [] {
      std::string name = (fs::temp_directory_path() / "mpnanny-tensors-XXXXXX").string();
      return fs::path(mkdtemp(name.data()));
    }();
    return root;
  }
  void TearDown() override { fs::remove_all(Root()); }
};
testing::Environment* const kFolders = testing::AddGlobalTestEnvironment(new Folders);

double ElementAt(const TensorView& view, int64_t offset) {
  double value = 0;
  const TensorView one{static_cast<const char*>(view.data) + offset * ElementBytes(view.dtype),
                       view.dtype,
                       {},
                       {},
                       nullptr};
  ForEachElements(one, [&](const auto* values, int64_t) { value = values[0]; });
  return value;
}

}  // namespace

std::vector<double> AllElements(const TensorView& view) {
  std::vector<double> values;
  const int64_t count = view.numel();
  std::vector<int64_t> strides(view.strides.begin(), view.strides.end());
  if (strides.empty()) {
    strides.assign(view.shape.size(), 1);
    for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * view.shape[i];
  }
  std::vector<int64_t> index(view.shape.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t dim = 0; dim < index.size(); ++dim) offset += index[dim] * strides[dim];
    values.push_back(ElementAt(view, offset));
    for (size_t dim = index.size(); dim-- > 0 && ++index[dim] == view.shape[dim];) index[dim] = 0;
  }
  return values;
}

Result<TensorFile> OpenAny(const std::string& path) {
  return TensorFile::Open(path,
                          [](const std::string& shard) { return Result<std::string>(shard); });
}

const Entry* FindEntry(const std::vector<Entry>& entries, const std::string& key) {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string TestFolder(const std::string& name) {
  const fs::path folder = Folders::Root() / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder.string();
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace mpnanny::tensor_files
