// Rows in the binary form in which PostgreSQL's COPY takes them.
//
// A value that one thread fills. Numbers go as they are, so a double arrives bit for bit; text goes
// as UTF-8, which the server insists on: bytes that are none, and zero bytes, become U+FFFD.
#ifndef MPNANNY_ENGINES_TEAM_COPY_BYTES_H_
#define MPNANNY_ENGINES_TEAM_COPY_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mpnanny::team {

class CopyBytes {
 public:
  void BeginRow(int fields);
  void AddSmall(int32_t value);  // an "integer" of the server
  void Add(int64_t value);
  void AddReal(double value);
  void AddText(std::string_view text);
  void AddBlob(std::string_view bytes);
  void AddNull();
  void Append(const std::string& rows) { rows_ += rows; }  // of another one

  const std::string& rows() const { return rows_; }
  std::string Take() { return std::move(rows_); }
  // What stands before the first row, and after the last.
  static std::string_view Header();
  static std::string_view Trailer();

 private:
  void AddBig(uint64_t value, int bytes);

  std::string rows_;
};

// The text with every byte that the server would not take replaced.
std::string ServerText(std::string_view text);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_COPY_BYTES_H_
