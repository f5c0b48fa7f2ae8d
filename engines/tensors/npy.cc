#include "engines/tensors/npy.h"

#include <cctype>
#include <optional>

#include "base/text.h"
#include "engines/tensors/extent.h"

namespace mpnanny::tensor_files {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

Error DamagedArray(const std::string& what) {
  return DataCorrupt("npy: " + what + ".", "The file is damaged or not what its name says.");
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::string descr;
  bool structured = false;  // descr is a list
  bool fortran = false;
  std::vector<int64_t> shape;

  // Empty, or what was expected.
  std::string Parse() {
    int seen = 0;  // bits: descr, fortran_order, shape
    if (!Take('{')) return "a '{'";
    while (!Take('}')) {
      const auto key = String();
      if (!key || !Take(':')) return "a key and ':'";
      const int bit = *key == "descr" ? 1 : *key == "fortran_order" ? 2 : *key == "shape" ? 4 : 0;
      if (bit == 0 || (seen & bit) != 0) return "descr, fortran_order and shape, once each";
      seen |= bit;
      if (bit == 1 && !Descr()) return "a dtype's name";
      if (bit == 2 && !Boolean()) return "True or False";
      if (bit == 4 && !Shape()) return "a shape";
      if (!Take(',') && !Peek('}')) return "',' or '}'";
    }
    Spaces();
    if (seen != 7) return "descr, fortran_order and shape";
    return at_ == text_.size() ? "" : "nothing after '}'";
  }

 private:
  void Spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  bool Peek(char c) {
    Spaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    ++at_;
    return true;
  }
  std::optional<std::string> String() {
    Spaces();
    if (!Peek('\'') && !Peek('"')) return std::nullopt;
    const char quote = text_[at_];
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    if (value.find('\\') != std::string::npos) return std::nullopt;
    at_ = end + 1;
    return value;
  }
  bool Descr() {
    if (auto name = String()) {
      descr = *std::move(name);
      return true;
    }
    if (!Peek('[')) return false;
    structured = true;
    // To the bracket that closes it; strings inside hold none in any file that NumPy writes.
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      depth += text_[at_] == '[' ? 1 : text_[at_] == ']' ? -1 : 0;
      if (depth == 0) {
        ++at_;
        return true;
      }
    }
    return false;
  }
  bool Boolean() {
    Spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        fortran = word == "True";
        at_ += word.size();
        return true;
      }
    }
    return false;
  }
  bool Shape() {
    if (!Take('(')) return false;
    while (!Take(')')) {
      Spaces();
      int64_t size = 0;
      const size_t begin = at_;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        if (__builtin_mul_overflow(size, int64_t{10}, &size) ||
            __builtin_add_overflow(size, int64_t{text_[at_] - '0'}, &size)) {
          return false;
        }
      }
      if (at_ == begin || shape.size() == kMostDimensions) return false;
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2
      shape.push_back(size);
      if (!Take(',') && !Peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Sets type and byte order, or the entry's problem. Bytes of an element; 0 if they are not known.
int TakeDescr(const HeaderParser& header, Entry& entry) {
  const std::string& descr = header.descr;
  if (header.structured || descr.size() < 2) {
    entry.problem = "an array of records is no tensor";
    return 0;
  }
  const size_t kind = std::string_view("<>|=").find(descr[0]) == std::string_view::npos ? 0 : 1;
  if (descr[kind] == 'O') {
    entry.problem = "an array of Python objects: only pickle can read it, which would execute code";
    return 0;
  }
  int bytes = 0;
  for (size_t i = kind + 1; i < descr.size() && bytes < 1000; ++i) {
    if (!std::isdigit(static_cast<unsigned char>(descr[i]))) {
      bytes = 0;
      break;
    }
    bytes = 10 * bytes + (descr[i] - '0');
  }
  entry.big_endian = descr[0] == '>' && bytes > 1;
  // ml_dtypes' names for its own formats; a bfloat16 is written as two bytes of anything.
  if (descr[kind] == 'V' && bytes > 0) {
    entry.problem = "NumPy does not know what its elements of " + std::to_string(bytes) +
                    " bytes are; from bfloat16 or FP8, save as .safetensors";
    return bytes;
  }
  entry.type = bytes > 0 ? TypeByNumpy(descr[kind], bytes) : nullptr;
  if (entry.type == nullptr) {
    entry.problem = "dtype '" + EscapeControl(descr, 40) + "' holds no numbers that are known here";
  }
  return bytes;
}

}  // namespace

bool LooksLikeNpy(std::span<const uint8_t> bytes) { return AsText(bytes).starts_with(kMagic); }

Result<Entry> ReadNpyHeader(std::span<const uint8_t> head, uint64_t total) {
  if (!LooksLikeNpy(head)) return InvalidInput("Not an npy file.");
  if (head.size() < 12) return DamagedArray("the file ends within its header");
  const int major = head[6];
  if (major < 1 || major > 3)
    return DamagedArray("version " + std::to_string(major) + " of the format is not known");
  size_t length = head[8] | static_cast<size_t>(head[9]) << 8;
  if (major > 1)
    length |= static_cast<size_t>(head[10]) << 16 | static_cast<size_t>(head[11]) << 24;
  const size_t start = major > 1 ? 12 : 10;
  if (length > kMostNpyHeader)
    return DamagedArray("a header of " + std::to_string(length) + " bytes; the limit is " +
                        std::to_string(kMostNpyHeader));
  if (length > head.size() - start) return DamagedArray("the file ends within its header");
  HeaderParser header(AsText(head.subspan(start, length)));
  if (const std::string expected = header.Parse(); !expected.empty())
    return DamagedArray("the header is wrong where " + expected + " should be");

  Entry entry;
  entry.shape = header.shape;
  entry.skip = start + length;
  const auto count = ElementCount(entry.shape);
  if (!count) return DamagedArray("the shape is too large");
  const int element = TakeDescr(header, entry);
  if (element == 0) return entry;
  const auto bytes = ByteCount(*count, 8 * element);
  if (!bytes || static_cast<uint64_t>(*bytes) > total - entry.skip)
    return DamagedArray("the shape needs more bytes than the " +
                        std::to_string(total - entry.skip) + " that follow the header");
  if (header.fortran && entry.shape.size() > 1) {
    entry.strides.assign(entry.shape.size(), 1);
    // A size of 0 has no element to reach; 1 keeps the other strides sensible.
    for (size_t i = 1; i < entry.shape.size(); ++i)
      entry.strides[i] = entry.strides[i - 1] * std::max<int64_t>(entry.shape[i - 1], 1);
  }
  return entry;
}

Result<Contents> ReadNpy(std::span<const uint8_t> bytes) {
  auto entry = ReadNpyHeader(bytes, bytes.size());
  if (!entry) return entry.error();
  entry->key = "array";
  entry->storage = bytes;
  entry->storage_bytes = bytes.size();
  Contents contents;
  contents.format = "npy";
  contents.entries.push_back(*std::move(entry));
  return contents;
}

}  // namespace mpnanny::tensor_files
