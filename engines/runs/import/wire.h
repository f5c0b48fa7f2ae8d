// The wire format of protocol buffers: fields of a message, one after another, without a schema.
//
// A value that borrows the message; what is wrong in it ends the reading, never more.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_WIRE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string_view>

namespace mpnanny::imports {

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Goes to the next field; false at the end or at bytes that are no field (bad() tells which).
  bool Next() {
    if (rest_.empty()) return false;
    uint64_t key = 0;
    if (!Varint(key)) return Fail();
    number_ = key >> 3;
    switch (key & 7) {
      case 0:
        bytes_ = {};
        return Varint(value_) || Fail();
      case 1:
        return Fixed(8);
      case 2: {
        uint64_t size = 0;
        if (!Varint(size) || size > rest_.size()) return Fail();
        bytes_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
        is_bytes_ = true;
        return true;
      }
      case 5:
        return Fixed(4);
      default:
        return Fail();
    }
  }

  uint64_t number() const { return number_; }
  bool is_bytes() const { return is_bytes_; }
  std::string_view bytes() const { return bytes_; }  // of a string, a message or packed numbers
  int64_t Int() const { return static_cast<int64_t>(value_); }
  double Double() const { return As<double>(); }
  float Float() const { return As<float>(); }
  bool bad() const { return bad_; }

 private:
  template <typename T>
  T As() const {
    T result;
    std::memcpy(&result, &value_, sizeof(T));  // little end first, as the wire has it
    return result;
  }
  bool Fail() {
    bad_ = true;
    rest_ = {};
    return false;
  }
  bool Fixed(size_t size) {
    if (size > rest_.size()) return Fail();
    value_ = 0;
    std::memcpy(&value_, rest_.data(), size);
    bytes_ = rest_.substr(0, size);
    is_bytes_ = false;
    rest_.remove_prefix(size);
    return true;
  }
  bool Varint(uint64_t& value) {
    is_bytes_ = false;
    value = 0;
    for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
      const auto byte = static_cast<uint8_t>(rest_[i]);
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte & 0x80) continue;
      rest_.remove_prefix(i + 1);
      return true;
    }
    return false;
  }

  std::string_view rest_, bytes_;
  uint64_t number_ = 0, value_ = 0;
  bool is_bytes_ = false, bad_ = false;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_WIRE_H_
