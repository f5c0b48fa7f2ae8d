// How the static check's fuzzer changes an input: half of the time as libFuzzer does, byte by byte,
// and half of the time as one edits a program: lines and names. Bytes alone seldom leave an
// indented program that still parses, and what parses is what the analyses see.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace mpnanny::fuzz {
namespace {

using Random = std::minstd_rand;

size_t Below(Random& random, size_t bound) {
  return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

size_t Write(char kind, const std::vector<std::string>& lines, uint8_t* data, size_t max_size) {
  std::string text(1, kind);
  for (const std::string& line : lines) text += line + "\n";
  const size_t size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

// Begin and length of every name and number.
std::vector<std::pair<size_t, size_t>> Words(std::string_view text) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end > at) words.emplace_back(at, end - at);
    at = end + 1;
  }
  return words;
}

// One name in the place of another one.
size_t SwapWord(Random& random, uint8_t* data, size_t size, size_t max_size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  const auto words = Words(std::string_view(text).substr(1));
  if (words.size() < 2) return LLVMFuzzerMutate(data, size, max_size);
  const auto [from, from_length] = words[Below(random, words.size())];
  const auto [to, to_length] = words[Below(random, words.size())];
  text.replace(to + 1, to_length, text.substr(from + 1, from_length));
  size = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), size);
  return size;
}

void Indent(Random& random, std::string& line) {
  if (Below(random, 2) == 0) {
    line.insert(0, 4, ' ');
  } else {
    line.erase(0, std::min<size_t>(4, line.find_first_not_of(' ')));
  }
}

size_t EditLines(Random& random, uint8_t* data, size_t size, size_t max_size) {
  std::vector<std::string> lines = Lines({reinterpret_cast<const char*>(data) + 1, size - 1});
  if (lines.empty()) return LLVMFuzzerMutate(data, size, max_size);
  // A run of lines, mostly a short one.
  const size_t begin = Below(random, lines.size());
  const size_t count = std::min(lines.size() - begin, 1 + Below(random, 1 + Below(random, 6)));
  const auto first = lines.begin() + static_cast<std::ptrdiff_t>(begin);
  const std::vector<std::string> run(first, first + static_cast<std::ptrdiff_t>(count));
  const auto erase = [&] { lines.erase(first, first + static_cast<std::ptrdiff_t>(count)); };
  const auto insert = [&] {
    const auto at = static_cast<std::ptrdiff_t>(Below(random, lines.size() + 1));
    lines.insert(lines.begin() + at, run.begin(), run.end());
  };
  switch (Below(random, 4)) {
    case 0:
      erase();
      break;
    case 1:
      insert();
      break;
    case 2:
      erase();
      insert();
      break;
    default:
      for (size_t i = begin; i < begin + count; ++i) Indent(random, lines[i]);
  }
  return Write(static_cast<char>(data[0]), lines, data, max_size);
}

}  // namespace
}  // namespace mpnanny::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace mpnanny::fuzz;
  Random random(seed);
  const size_t how = Below(random, 4);
  if (size < 2 || how < 2) return LLVMFuzzerMutate(data, size, max_size);
  return how == 2 ? SwapWord(random, data, size, max_size)
                  : EditLines(random, data, size, max_size);
}

// The first lines of the one and the last ones of the other.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_size, unsigned int seed) {
  using namespace mpnanny::fuzz;
  if (size1 < 2 || size2 < 2) return 0;
  Random random(seed);
  std::vector<std::string> lines = Lines({reinterpret_cast<const char*>(data1) + 1, size1 - 1});
  const std::vector<std::string> others =
      Lines({reinterpret_cast<const char*>(data2) + 1, size2 - 1});
  lines.resize(Below(random, lines.size() + 1));
  const size_t from = Below(random, others.size());
  lines.insert(lines.end(), others.begin() + static_cast<std::ptrdiff_t>(from), others.end());
  return Write(static_cast<char>(data1[0]), lines, out, max_size);
}
