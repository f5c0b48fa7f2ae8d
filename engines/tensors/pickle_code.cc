#include "engines/tensors/pickle_code.h"

#include <bit>
#include <charconv>

namespace mpnanny::tensor_files {

std::string_view PickleCode::Take(uint64_t count) {
  if (fault_ != nullptr) return {};
  if (count > bytes_.size() - at_) {
    Fail("the data end");
    return {};
  }
  at_ += count;
  return {reinterpret_cast<const char*>(bytes_.data()) + at_ - count, count};
}

uint64_t PickleCode::Unsigned(int size) {
  uint64_t value = 0;
  const auto from = Take(static_cast<uint64_t>(size));
  for (size_t i = from.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(from[i]);
  return value;
}

double PickleCode::BinaryReal() {
  uint64_t bits = 0;
  for (const char byte : Take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
  return std::bit_cast<double>(bits);
}

std::string_view PickleCode::Line() {
  if (fault_ != nullptr) return {};
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                              bytes_.size() - at_);
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) {
    Fail("a line does not end");
    return {};
  }
  at_ += end + 1;
  return rest.substr(0, end);
}

uint64_t PickleCode::DecimalIndex() {
  const std::string_view line = Line();
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (code != std::errc() || end != line.data() + line.size()) Fail("a number is wrong");
  return value;
}

double PickleCode::DecimalReal() {
  const std::string_view line = Line();
  double value = 0;
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (code == std::errc::invalid_argument || end != line.data() + line.size())
    Fail("a number is wrong");
  return value;
}

std::string_view PickleCode::Quoted() {
  const std::string_view line = Line();
  if (line.size() >= 2 && line.front() == line.back() && (line[0] == '\'' || line[0] == '"'))
    return line.substr(1, line.size() - 2);
  Fail("a string has no quotes");
  return {};
}

PickleInteger BinaryInteger(std::string_view from) {
  if (from.size() > 8) return {true, 0};
  uint64_t value = !from.empty() && static_cast<uint8_t>(from.back()) >= 0x80 ? ~uint64_t{0} : 0;
  for (size_t i = from.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(from[i]);
  return {false, static_cast<int64_t>(value)};
}

PickleInteger DecimalInteger(std::string_view text, PickleCode& code) {
  if (text.ends_with('L')) text.remove_suffix(1);
  PickleInteger number;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  number.wide = fault == std::errc::result_out_of_range;
  if (fault == std::errc::invalid_argument || end != text.data() + text.size())
    code.Fail("a number is wrong");
  return number;
}

}  // namespace mpnanny::tensor_files
