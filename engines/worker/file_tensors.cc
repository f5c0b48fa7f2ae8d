#include "engines/worker/file_tensors.h"

#include <ATen/ATen.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/tensors/zip.h"
#include "engines/worker/program/program.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

at::Tensor Copied(const tensor_files::Entry& entry) {
  std::vector<uint8_t> inflated;
  std::span<const uint8_t> bytes = entry.storage;
  if (entry.deflated) {
    auto whole = tensor_files::Inflate(entry.storage, entry.storage_bytes);
    if (!whole) throw ModelProblem(whole.error().Text(), "");
    inflated = *std::move(whole);
    if (inflated.size() < entry.storage_bytes) {
      throw ModelProblem("'" + EscapeControl(entry.key, 200) + "' is shorter than the file says.",
                         "Save it again.");
    }
    bytes = inflated;
  }
  // A byte more: also an empty storage has an address.
  at::Tensor memory = at::empty({static_cast<int64_t>(bytes.size()) + 1}, at::kByte);
  if (!bytes.empty()) std::memcpy(memory.data_ptr(), bytes.data(), bytes.size());
  return memory;
}

}  // namespace

at::Tensor FileTensors::Make(const tensor_files::Entry& entry) {
  const std::string name = "'" + EscapeControl(entry.key, 200) + "'";
  if (!entry.problem.empty())
    throw ModelProblem(name + " cannot be read: " + entry.problem + ".", "");
  if (const std::string fault = tensor_files::FaultOf(entry); !fault.empty()) {
    throw ModelProblem(name + " cannot be read: " + fault + ".", "");
  }
  const auto type = ScalarTypeOf(*entry.type);
  if (!type || entry.big_endian) {
    throw ModelProblem(name + " has elements of a kind that is not read.", "");
  }
  // An empty tensor of a file has the address of the next one.
  at::Tensor& memory = memories_[{entry.storage.data(), entry.storage.size()}];
  if (!memory.defined()) memory = Copied(entry);
  auto* const first = memory.data_ptr<uint8_t>() + entry.skip +
                      static_cast<size_t>(entry.first) * c10::elementSize(*type);
  const at::TensorOptions options = at::TensorOptions().dtype(*type);
  const auto keep = [memory](void*) {};
  if (entry.strides.empty()) return at::from_blob(first, entry.shape, keep, options);
  return at::from_blob(first, entry.shape, entry.strides, keep, options);
}

}  // namespace mpnanny::worker
