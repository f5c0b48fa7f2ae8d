#include "tools/tensor_files/elements.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/text.h"
#include "tools/tensor_files/extent.h"
#include "tools/tensor_files/zip.h"

namespace mpnanny::tensor_files {
namespace {

Error Unreadable(const Entry& entry, const std::string& why) {
  return InvalidInput("Tensor '" + EscapeControl(entry.key, 200) + "' is not read: " + why + ".");
}

Error TooLarge(const Entry& entry, uint64_t bytes) {
  return InvalidInput("Tensor '" + EscapeControl(entry.key, 200) + "' needs a copy of " +
                          std::to_string(bytes) + " bytes; the limit is " +
                          std::to_string(kMostCopied) + ".",
                      "Save it as .safetensors, uncompressed and in this machine's byte order.");
}

uint64_t Load(const uint8_t* from, size_t bytes, bool big_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | from[big_endian ? i : bytes - 1 - i];
  return value;
}

double Widened(uint64_t bits, int width, bool is_signed) {
  if (!is_signed) return static_cast<double>(bits);
  const int unused = 64 - width;
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

// All of `from` in the machine's byte order, integers as FP64.
void Convert(std::span<const uint8_t> from, const ElementType& type, bool big_endian, uint8_t* to) {
  const auto width = static_cast<size_t>(type.bits / 8);
  if (type.reading != Reading::kFloat) {
    for (size_t at = 0; at < from.size(); at += width, to += sizeof(double)) {
      const double value = Widened(Load(from.data() + at, width, big_endian), type.bits,
                                   type.reading == Reading::kSigned);
      std::memcpy(to, &value, sizeof(value));
    }
  } else if (big_endian && width > 1) {
    for (size_t at = 0; at < from.size(); at += width)
      std::reverse_copy(from.data() + at, from.data() + at + width, to + at);
  } else {
    std::memcpy(to, from.data(), from.size());
  }
}

}  // namespace

Result<Elements> Elements::Read(const Entry& entry) {
  if (!entry.problem.empty()) return Unreadable(entry, entry.problem);
  if (const std::string fault = FaultOf(entry); !fault.empty()) return Unreadable(entry, fault);
  const ElementType& type = *entry.type;
  const bool as_it_lies = type.reading == Reading::kFloat;
  Elements elements;
  elements.shape_ = entry.shape;
  elements.strides_ = entry.strides;
  elements.dtype_ = as_it_lies ? type.dtype : DType::kFloat64;
  if (*ElementCount(entry.shape) == 0) return elements;

  std::vector<uint8_t> inflated;
  std::span<const uint8_t> storage = entry.storage;
  if (entry.deflated) {
    if (entry.storage_bytes > kMostInflated) return TooLarge(entry, entry.storage_bytes);
    auto bytes = Inflate(entry.storage, entry.storage_bytes);
    if (!bytes) return bytes.error();
    if (bytes->size() != entry.storage_bytes)
      return Unreadable(entry, "its compressed data end too early");
    inflated = *std::move(bytes);
    storage = inflated;
  }
  // From the first element that the tensor touches to the last, whatever the strides leave out.
  const auto width = static_cast<uint64_t>(type.bits / 8);
  const auto first = static_cast<uint64_t>(entry.first);
  const auto last = static_cast<uint64_t>(LastElement(entry.shape, entry.strides, entry.first));
  const auto touched = storage.subspan(entry.skip + first * width, (last - first + 1) * width);

  const bool aligned = reinterpret_cast<uintptr_t>(touched.data()) % width == 0;
  if (as_it_lies && aligned && !entry.deflated && !(entry.big_endian && width > 1)) {
    elements.data_ = touched.data();
    return elements;
  }
  const uint64_t bytes = as_it_lies ? touched.size() : (last - first + 1) * sizeof(double);
  if (bytes > kMostCopied) return TooLarge(entry, bytes);
  elements.copy_.reset(new (std::nothrow) uint8_t[bytes]);
  if (!elements.copy_) return Unavailable("There is no memory for a copy of the tensor.");
  Convert(touched, type, entry.big_endian, elements.copy_.get());
  elements.data_ = elements.copy_.get();
  return elements;
}

}  // namespace mpnanny::tensor_files
