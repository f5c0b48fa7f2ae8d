#include "engines/tensors/elements.h"

#include <bit>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/text.h"
#include "engines/tensors/extent.h"
#include "engines/tensors/zip.h"

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

uint8_t Swapped(uint8_t bits) { return bits; }
uint16_t Swapped(uint16_t bits) { return __builtin_bswap16(bits); }
uint32_t Swapped(uint32_t bits) { return __builtin_bswap32(bits); }
uint64_t Swapped(uint64_t bits) { return __builtin_bswap64(bits); }

// Elements of as many bits as Bits, in the machine's byte order; as Integer they become FP64.
template <typename Integer, typename Bits>
void ConvertAs(std::span<const uint8_t> from, bool widen, bool swap, uint8_t* to) {
  const size_t count = from.size() / sizeof(Bits);
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from.data() + i * sizeof(bits), sizeof(bits));
    if (swap) bits = Swapped(bits);
    if (widen) {
      const auto value = static_cast<double>(static_cast<Integer>(bits));
      std::memcpy(to + i * sizeof(value), &value, sizeof(value));
    } else {
      std::memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
    }
  }
}

template <typename Signed, typename Bits>
void ConvertOfWidth(std::span<const uint8_t> from, Reading reading, bool swap, uint8_t* to) {
  const bool widen = reading != Reading::kFloat;
  if (reading == Reading::kSigned) return ConvertAs<Signed, Bits>(from, widen, swap, to);
  ConvertAs<Bits, Bits>(from, widen, swap, to);
}

void Convert(std::span<const uint8_t> from, const ElementType& type, bool big_endian, uint8_t* to) {
  const bool swap = big_endian == (std::endian::native == std::endian::little);
  switch (type.bits) {
    case 8:
      return ConvertOfWidth<int8_t, uint8_t>(from, type.reading, swap, to);
    case 16:
      return ConvertOfWidth<int16_t, uint16_t>(from, type.reading, swap, to);
    case 32:
      return ConvertOfWidth<int32_t, uint32_t>(from, type.reading, swap, to);
    case 64:
      return ConvertOfWidth<int64_t, uint64_t>(from, type.reading, swap, to);
    default:
      return;  // no type that is read has another width
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
  const bool swapped =
      width > 1 && entry.big_endian == (std::endian::native == std::endian::little);
  if (as_it_lies && aligned && !entry.deflated && !swapped) {
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
