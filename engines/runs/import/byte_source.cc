#include "engines/runs/import/byte_source.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/text.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kBufferBytes = 64 * 1024;

}  // namespace

Result<ByteSource> ByteSource::OfFile(const std::string& path) {
  auto file = ResolvedFile::Open(path);
  if (!file) return file.error();
  ByteSource source;
  source.file_.emplace(*std::move(file));
  return source;
}

ByteSource ByteSource::OfText(std::string_view text) {
  ByteSource source;
  source.text_ = text;
  return source;
}

size_t ByteSource::Read(char* to, size_t count) {
  size_t got = 0;
  if (file_) {
    got = file_->Read(to, count);
  } else {
    got = std::min<size_t>(count, text_.size() - position_);
    std::memcpy(to, text_.data() + position_, got);
  }
  position_ += got;
  return got;
}

bool ByteSource::Skip(uint64_t count) {
  const uint64_t end = file_ ? file_->bytes() : text_.size();
  if (position_ > end || count > end - position_) return false;
  position_ += count;
  if (file_) file_->Seek(position_);
  return true;
}

std::string Head(const std::string& path, size_t count) {
  auto source = ByteSource::OfFile(path);
  if (!source) return "";
  std::string bytes(count, '\0');
  bytes.resize(source->Read(bytes.data(), count));
  return bytes;
}

bool LineReader::Fill() {
  buffer_.resize(kBufferBytes);
  buffer_.resize(source_.Read(buffer_.data(), kBufferBytes));
  at_ = 0;
  if (!started_) {
    started_ = true;
    const std::string_view head(buffer_);
    if (head.starts_with("\xEF\xBB\xBF")) at_ = 3;
    wide_ = head.starts_with("\xFF\xFE") ? 1 : head.starts_with("\xFE\xFF") ? 2 : 0;
    if (wide_) buffer_.erase(0, 2);
  }
  if (wide_) {
    buffer_.insert(0, odd_byte_);
    odd_byte_.clear();
    if (buffer_.size() % 2 == 1) {
      odd_byte_ = buffer_.back();
      buffer_.pop_back();
    }
    std::string narrow;
    for (size_t i = 0; i < buffer_.size(); i += 2) {
      const char low = buffer_[wide_ == 1 ? i : i + 1], high = buffer_[wide_ == 1 ? i + 1 : i];
      narrow += high == 0 ? low : '?';
    }
    buffer_ = std::move(narrow);
  }
  return at_ < buffer_.size();
}

std::optional<std::string_view> LineReader::Next() {
  line_.clear();
  cut_ = false;
  bool any = false;
  while (!ended_) {
    if (at_ >= buffer_.size() && !Fill()) {
      ended_ = true;
      break;
    }
    if (after_return_) {  // the \n of \r\n
      after_return_ = false;
      if (buffer_[at_] == '\n') {
        ++newlines_;
        ++at_;
        continue;
      }
    }
    if (!any) number_ = newlines_ + 1;
    any = true;
    const size_t end = std::min(buffer_.find_first_of("\n\r", at_), buffer_.size());
    const size_t fits = std::min(end - at_, max_line_ - line_.size());
    line_.append(buffer_, at_, fits);
    cut_ = cut_ || fits < end - at_;
    at_ = end;
    if (end < buffer_.size()) {
      after_return_ = buffer_[end] == '\r';
      if (!after_return_) ++newlines_;
      ++at_;
      DropColours();
      return line_;
    }
  }
  DropColours();
  if (any) return line_;
  return std::nullopt;
}

void LineReader::DropColours() {
  constexpr char kEscape = '\x1b';
  size_t kept = line_.find(kEscape);
  if (kept == std::string::npos) return;
  for (size_t at = kept; at < line_.size();) {
    if (line_[at] != kEscape || at + 1 >= line_.size() || line_[at + 1] != '[') {
      line_[kept++] = line_[at++];
      continue;
    }
    at += 2;
    while (at < line_.size() && (line_[at] < '@' || line_[at] > '~')) ++at;
    if (at < line_.size()) ++at;
  }
  line_.resize(kept);
}

}  // namespace mpnanny::imports
