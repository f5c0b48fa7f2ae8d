// Bytes and lines of a log, read once from front to back through a small buffer: files of any size
// take the same memory.
//
// A source borrows the text it reads from, or owns the open file. It belongs to one call on one
// thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_BYTE_SOURCE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/resolved_path.h"
#include "base/result.h"

namespace mpnanny::imports {

class ByteSource {
 public:
  // `path` is resolved (base/resolved_path.h). Fails for what is missing, unreadable or no regular
  // file.
  static Result<ByteSource> OfFile(const std::string& path);
  static ByteSource OfText(std::string_view text);

  // Fills `to` as far as there are bytes; returns how many.
  size_t Read(char* to, size_t count);
  // Goes over `count` bytes; false if there are not so many.
  bool Skip(uint64_t count);
  uint64_t position() const { return position_; }

 private:
  ByteSource() = default;

  std::optional<ResolvedFile> file_;
  std::string_view text_;
  uint64_t position_ = 0;
};

// The first bytes of a file; "" if it cannot be read.
std::string Head(const std::string& path, size_t count);

// Lines that end with \n, \r\n or \r (bars of progress). A mark of the byte order is dropped;
// UTF-16, as some shells redirect, is read as its low bytes. Of a longer line only the first
// `max_line` bytes are kept.
class LineReader {
 public:
  explicit LineReader(ByteSource source, size_t max_line = 20'000)
      : source_(std::move(source)), max_line_(max_line) {}

  // The next line without a terminal's colours, which may be empty; nullopt at the end. Valid until
  // the next call.
  std::optional<std::string_view> Next();
  bool was_cut() const { return cut_; }  // the last line was longer
  // Of the file's lines (those that end with \n) the one that holds it, from 1.
  int64_t number() const { return number_; }

 private:
  bool Fill();
  void DropColours();  // and other control sequences of a terminal (ECMA-48: ESC [ … letter)

  ByteSource source_;
  size_t max_line_;
  std::string buffer_, line_;
  size_t at_ = 0;
  bool started_ = false, ended_ = false, after_return_ = false, cut_ = false;
  int64_t newlines_ = 0, number_ = 0;
  int wide_ = 0;          // 1: UTF-16 with the low byte first, 2: with the high byte first
  std::string odd_byte_;  // half a UTF-16 unit at a buffer's end
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_BYTE_SOURCE_H_
