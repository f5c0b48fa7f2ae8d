// The members of a ZIP file, from its central directory, over bytes in memory.
//
// Borrows the bytes. Immutable once read. As strict as need be for two programs to see the same
// members: names once each and equal in both headers, no member outside the file or over another.
#ifndef MPNANNY_ENGINES_TENSORS_ZIP_H_
#define MPNANNY_ENGINES_TENSORS_ZIP_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny::tensor_files {

struct ZipMember {
  std::string name;
  std::span<const uint8_t> stored;  // as it lies in the file
  bool deflated = false;
  uint64_t bytes = 0;  // as the directory says; `stored.size()` where nothing is deflated
};

class ZipFile {
 public:
  static Result<ZipFile> Read(std::span<const uint8_t> bytes);

  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* Find(const std::string& name) const;

 private:
  std::vector<ZipMember> members_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

bool LooksLikeZip(std::span<const uint8_t> bytes);

// Largest member that is ever inflated whole.
inline constexpr uint64_t kMostInflated = uint64_t{1} << 30;

// Inflates raw deflate data until `most` bytes are there or it ends. DataCorrupt for what is no
// deflate data.
Result<std::vector<uint8_t>> Inflate(std::span<const uint8_t> deflated, uint64_t most);

// All bytes of a member, which must be as many as the directory says and at most `most`.
Result<std::vector<uint8_t>> WholeMember(const ZipMember& member, uint64_t most);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_ZIP_H_
