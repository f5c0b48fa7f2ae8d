// libFuzzer on the readers of tensor files. One program a reader (READER, see CMakeLists.txt), so
// that each gets its own number of inputs.
//
// What must hold: no read outside the input, no wait, no memory beyond what the input justifies;
// what is listed without a problem is readable, and every element of it lies inside the input.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.h"
#include "engines/tensors/elements.h"
#include "engines/tensors/extent.h"
#include "engines/tensors/shard_index.h"
#include "engines/tensors/tensor_file.h"
#include "tests/tensor_files/build_files.h"

namespace mpnanny::tensor_files {
namespace {

constexpr int64_t kMostTouched = 20'000;

void Require(bool holds, const char* what, const std::string& detail) {
  if (holds) return;
  std::fprintf(stderr, "FUZZ: %s: %s\n", what, EscapeControl(detail, 400).c_str());
  std::abort();
}

// Reads elements through their strides: the sanitizer sees what lies outside.
void Touch(const TensorView& view) {
  const int64_t count = view.numel();
  const auto width = static_cast<int64_t>(ElementBytes(view.dtype));
  const auto* const data = static_cast<const volatile char*>(view.data);
  if (count == 0) return;
  const int64_t last = LastElement(view.shape, view.strides, 0);
  (void)data[last * width + width - 1];
  (void)data[0];
  for (int64_t i = 0; view.strides.empty() && i < std::min(count, kMostTouched); ++i)
    (void)data[i * width];
}

void Check(const Result<Contents>& contents) {
  if (!contents) {
    Require(!contents.error().message.empty(), "an error that says nothing", "");
    Require(contents.error().kind != ErrorKind::kInternal, "our fault", contents.error().message);
    return;
  }
  size_t inflated = 0;
  for (const Entry& entry : contents->entries) {
    if (!entry.problem.empty()) {
      Require(!Elements::Read(entry), "read in spite of its problem", entry.problem);
      continue;
    }
    if (entry.deflated && ++inflated > 4) continue;
    const auto elements = Elements::Read(entry);
    Require(elements.has_value() || entry.deflated, "listed and not readable", entry.key);
    if (elements) Touch(elements->view());
  }
  for (const std::string& note : contents->notes)
    Require(note == EscapeControl(note, note.size()), "a note with control characters", note);
}

void Run(const std::string& input) {
  const std::string_view reader = READER;
  if (reader == "pickle") {  // as the data.pkl of an archive with two storages
    const std::string storage(64, '\x3f');
    Check(ReadContents(Bytes(Zip(
        {{"a/data.pkl", input}, {"a/data/0", storage}, {"a/data/1", Deflate(storage), 8, 64}}))));
  } else if (reader == "exported") {  // the description of the weights
    Check(ReadContents(Bytes(Zip({{"a/data/weights/weight_0", std::string(64, '\x3f')},
                                  {"a/data/weights/model_weights_config.json", input}}))));
  } else if (reader == "inflate") {  // a compressed array
    Check(ReadContents(Bytes(Zip({{"a.npy", input, 8, 128}}))));
  } else if (reader == "index") {
    const auto index = ReadShardIndex(input);
    if (!index) return;
    for (const auto& [key, name] : *index)
      Require(!name.empty() && name != ".." && name.find('/') == std::string::npos,
              "a file in another folder", name);
  } else {
    Check(ReadContents(Bytes(input)));
  }
}

}  // namespace
}  // namespace mpnanny::tensor_files

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mpnanny::tensor_files::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
