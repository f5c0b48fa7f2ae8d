// The bytes of a pickle, taken one field after the other.
//
// Borrows the bytes, as does what it returns. Owned by one reader. After the first failure every
// function returns something empty, and fault() says what was wrong.
#ifndef MPNANNY_ENGINES_TENSORS_PICKLE_CODE_H_
#define MPNANNY_ENGINES_TENSORS_PICKLE_CODE_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace mpnanny::tensor_files {

class PickleCode {
 public:
  explicit PickleCode(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  std::string_view Take(uint64_t count);
  std::string_view Counted(int size) { return Take(Unsigned(size)); }  // its length stands first
  uint64_t Unsigned(int size);                                         // little-endian
  double BinaryReal();                                                 // big-endian FP64
  std::string_view Line();                                             // without its end
  uint64_t DecimalIndex();                                             // a line
  double DecimalReal();                                                // a line
  std::string_view Quoted();  // a line; escapes stay as they are

  void Fail(const char* what) {
    if (fault_ == nullptr) fault_ = what;
  }
  const char* fault() const { return fault_; }  // nullptr: none
  size_t at() const { return at_; }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  const char* fault_ = nullptr;
};

// A number of any width, as Python writes it.
struct PickleInteger {
  bool wide = false;  // beyond int64: without a value
  int64_t value = 0;
};
PickleInteger BinaryInteger(std::string_view little_endian);
// "12" or "12L"; fails in `code` for what is no number.
PickleInteger DecimalInteger(std::string_view text, PickleCode& code);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_PICKLE_CODE_H_
