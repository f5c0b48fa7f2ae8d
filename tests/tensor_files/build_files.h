#ifndef MPNANNY_TESTS_TENSOR_FILES_BUILD_FILES_H_
#define MPNANNY_TESTS_TENSOR_FILES_BUILD_FILES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/tensors/tensor_file.h"

namespace mpnanny::tensor_files {

std::string Little(uint64_t value, int bytes);

// u64 length, header, data.
std::string Safetensors(const std::string& header, const std::string& data);
// Version 1.0.
std::string Npy(const std::string& header, const std::string& data);

struct Member {
  std::string name;
  std::string bytes;            // as they stand in the file
  uint16_t method = 0;          // 8: `bytes` are deflated
  int64_t size = -1;            // of the inflated data, as is claimed; -1: of `bytes`
  std::string local_name = {};  // empty: the same
  int64_t offset = -1;          // of the local header, as the directory claims; -1: the true one
  uint16_t flags = 0;
  std::string extra = {};  // of the directory
};
std::string Zip(const std::vector<Member>& members);
std::string Deflate(const std::string& bytes);

// An archive of torch.save with this data.pkl (without PROTO and STOP) and these storages.
std::string TorchZip(const std::string& pickle, const std::vector<Member>& storages);

// Opcodes of pickles.
namespace op {
std::string Int(int64_t value);
std::string Text(std::string_view text);
std::string Tuple(const std::vector<std::string>& items);
std::string Dict(const std::vector<std::string>& keys_and_values);
std::string Global(std::string_view module, std::string_view name);
std::string Storage(std::string_view type, std::string_view key, int64_t elements);
// _rebuild_tensor_v2
std::string Tensor(const std::string& storage, int64_t first, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides);
}  // namespace op

inline std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The message of the error, or "" for a file that is read.
std::string ErrorOf(const std::string& file);
// The problem of the only entry, or the file's error.
std::string ProblemOf(const std::string& file);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_TESTS_TENSOR_FILES_BUILD_FILES_H_
