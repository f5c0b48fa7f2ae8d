#include "engines/tensors/shard_index.h"

#include "base/json.h"
#include "base/text.h"

namespace mpnanny::tensor_files {

Result<std::map<std::string, std::string>> ReadShardIndex(std::string_view text) {
  auto index = ParseJson(text, 16, DuplicateKeys::kRefuse);
  if (!index) return DataCorrupt("index of shards: " + index.error().message);
  const Json& map = ValueAt(*index, {"weight_map"});
  if (!map.is_object())
    return InvalidInput("JSON without a \"weight_map\": no index of a checkpoint's files.",
                        "Name the file with the tensors, or its *.index.json.");
  std::map<std::string, std::string> files;
  for (const auto& [key, name] : map.items()) {
    if (!name.is_string()) return DataCorrupt("index of shards: a file's name is no string.");
    const std::string file = name.get<std::string>();
    if (file.empty() || file == "." || file == ".." ||
        file.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
      return DataCorrupt("index of shards: '" + EscapeControl(file, 200) +
                         "' is no name of a file beside the index.");
    }
    files.emplace(key, file);
  }
  return files;
}

}  // namespace mpnanny::tensor_files
