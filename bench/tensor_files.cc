// The time to list a file of tensors, and to copy all of their elements where they cannot be used
// as they lie: one JSON line for each file. Called by bench/tensor_files.py.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "engines/tensors/elements.h"
#include "engines/tensors/tensor_file.h"

namespace {

using namespace mpnanny;
using namespace mpnanny::tensor_files;

double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<TensorFile> Open(const std::string& path) {
  return TensorFile::Open(path,
                          [](const std::string& shard) { return Result<std::string>(shard); });
}

}  // namespace

// bench-tensor-files ROUNDS [--read] FILE…
int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int rounds = std::max(std::atoi(argv[1]), 1);
  const bool read = std::strcmp(argv[2], "--read") == 0;
  for (int i = read ? 3 : 2; i < argc; ++i) {
    std::vector<double> listed, elements;
    size_t tensors = 0, bytes = 0;
    for (int round = 0; round < rounds; ++round) {
      const double begin = Seconds();
      const auto file = Open(argv[i]);
      listed.push_back(Seconds() - begin);
      if (!file) {
        std::fprintf(stderr, "%s\n", file.error().Text().c_str());
        return 1;
      }
      tensors = file->entries().size();
      for (const Entry& entry : file->entries()) {
        if (entry.problem.empty()) continue;
        std::fprintf(stderr, "%s: %s\n", entry.key.c_str(), entry.problem.c_str());
        return 1;
      }
      if (!read) continue;
      bytes = 0;
      const double started = Seconds();
      for (const Entry& entry : file->entries()) {
        const auto all = Elements::Read(entry);
        if (all)
          bytes +=
              static_cast<size_t>(all->view().numel()) * static_cast<size_t>(entry.type->bits) / 8;
      }
      elements.push_back(Seconds() - started);
    }
    Json line = {{"file", argv[i]}, {"tensors", tensors}, {"list_ms", 1e3 * Median(listed)}};
    if (read) line["read_gb_per_s"] = 1e-9 * static_cast<double>(bytes) / Median(elements);
    std::printf("%s\n", DumpJson(line).c_str());
  }
  return 0;
}
