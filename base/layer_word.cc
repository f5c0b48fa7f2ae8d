#include "base/layer_word.h"

#include <algorithm>

namespace mpnanny {

std::string LayerWord(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.empty() || !is_digit(name.front())) return std::string(name);
  const bool numbers =
      std::all_of(name.begin(), name.end(), [&](char c) { return is_digit(c) || c == '.'; });
  return (numbers ? "layer \"" : "\"") + std::string(name) + "\"";
}

}  // namespace mpnanny
