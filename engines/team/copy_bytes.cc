#include "engines/team/copy_bytes.h"

#include <bit>

#include "base/text.h"

namespace mpnanny::team {

// Most significant byte first.
void CopyBytes::AddBig(uint64_t value, int bytes) {
  char out[8];
  for (int i = bytes - 1; i >= 0; --i) {
    out[i] = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  rows_.append(out, static_cast<size_t>(bytes));
}

void CopyBytes::BeginRow(int fields) { AddBig(static_cast<uint64_t>(fields), 2); }

void CopyBytes::AddSmall(int32_t value) {
  AddBig(4, 4);
  AddBig(static_cast<uint32_t>(value), 4);
}

void CopyBytes::Add(int64_t value) {
  AddBig(8, 4);
  AddBig(static_cast<uint64_t>(value), 8);
}

void CopyBytes::AddReal(double value) {
  AddBig(8, 4);
  AddBig(std::bit_cast<uint64_t>(value), 8);
}

void CopyBytes::AddText(std::string_view text) {
  if (IsUtf8(text) && text.find('\0') == std::string_view::npos) return AddBlob(text);
  AddBlob(ServerText(text));
}

void CopyBytes::AddBlob(std::string_view bytes) {
  AddBig(bytes.size(), 4);
  rows_ += bytes;
}

void CopyBytes::AddNull() { AddBig(0xffffffff, 4); }

std::string_view CopyBytes::Header() {
  constexpr std::string_view kHeader("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", 19);
  return kHeader;
}

std::string_view CopyBytes::Trailer() {
  constexpr std::string_view kTrailer("\xff\xff", 2);
  return kTrailer;
}

std::string ServerText(std::string_view text) {
  constexpr char kReplacement[] = "\xef\xbf\xbd";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const auto point = DecodeUtf8(text, i);
    if (!point || *point == 0) {
      out += kReplacement;
    } else {
      out += text.substr(begin, i - begin);
    }
  }
  return out;
}

}  // namespace mpnanny::team
