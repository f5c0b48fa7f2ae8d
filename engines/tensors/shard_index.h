// The index beside a checkpoint of several files (*.safetensors.index.json,
// pytorch_model.bin.index.json): which key lies in which of them.
//
// A free function without state.
#ifndef MPNANNY_ENGINES_TENSORS_SHARD_INDEX_H_
#define MPNANNY_ENGINES_TENSORS_SHARD_INDEX_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::tensor_files {

// Key -> name of the file, which is in the folder of the index: names with a folder in them are
// refused.
Result<std::map<std::string, std::string>> ReadShardIndex(std::string_view text);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_SHARD_INDEX_H_
