#include "engines/check/syntax/text_index.h"

#include <algorithm>

#include "base/text.h"

namespace mpnanny::check {

namespace {

constexpr size_t kStep = 4096;

}  // namespace

TextIndex::TextIndex(std::string_view text) : text_(text), starts_{0} {
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    starts_.push_back(static_cast<uint32_t>(at + 1));
  }
  if (CountCodePoints(text) == text.size()) return;
  uint32_t points = 0;
  for (size_t at = 0; at < text.size(); at += kStep) {
    points_.push_back(points);
    points += static_cast<uint32_t>(CountCodePoints(text.substr(at, kStep)));
  }
}

size_t TextIndex::CodePointsBefore(size_t byte) const {
  if (points_.empty()) return byte;
  const size_t step = std::min(byte / kStep, points_.size() - 1);
  return points_[step] + CountCodePoints(text_.substr(step * kStep, byte - step * kStep));
}

Position TextIndex::At(size_t byte) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), byte);
  const auto line = after - starts_.begin();
  const size_t start = *(after - 1);
  return {static_cast<int>(line),
          static_cast<int>(CodePointsBefore(byte) - CodePointsBefore(start)) + 1};
}

int TextIndex::LineAt(size_t byte) const {
  return static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), byte) - starts_.begin());
}

std::string_view TextIndex::Line(int line) const {
  if (line < 1 || static_cast<size_t>(line) > starts_.size()) return {};
  const size_t start = starts_[static_cast<size_t>(line) - 1];
  std::string_view text = text_.substr(start);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace mpnanny::check
