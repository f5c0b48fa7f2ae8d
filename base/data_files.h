// The product's data files (rules, cases, prompts, alert pages, the database schema), embedded at
// build time.
//
// Paths are those of the repository: "knowledge/cases/clip-before-unscale.md". With an overlay
// directory (--data-dir) a file found there under the same path wins and new ones join, so that a
// team adds its own rules and cases without rebuilding. Immutable after Create(); safe from any
// thread.
#ifndef MPNANNY_BASE_DATA_FILES_H_
#define MPNANNY_BASE_DATA_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny {

struct EmbeddedFile {
  std::string_view path;
  std::string_view text;
};

// Everything that CMakeLists.txt embeds into the programs (generated).
std::span<const EmbeddedFile> EmbeddedProductData();

class DataFiles {
 public:
  // `overlay`: a directory laid out like the repository; empty for none. Fails if it is no readable
  // directory.
  static Result<DataFiles> Create(const std::string& overlay = "");

  std::optional<std::string_view> Read(std::string_view path) const;

  // Paths that start with `prefix` and end with `suffix`, sorted: List("knowledge/cases/", ".md").
  std::vector<std::string> List(std::string_view prefix, std::string_view suffix) const;

  // Changes with the path or the text of any file whose path starts with `prefix`: what is built
  // from those files may be kept under it. By content, not by the object's address: another set of
  // data files may come to lie at the same place.
  uint64_t Fingerprint(std::string_view prefix) const;

 private:
  std::map<std::string, std::string_view, std::less<>> files_;
  std::map<std::string, std::string, std::less<>> overlay_;  // owns what files_ points into
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_DATA_FILES_H_
