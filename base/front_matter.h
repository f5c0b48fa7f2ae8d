// Markdown files with YAML front matter: knowledge cases, rules, prompts and alert pages share this
// one format.
//
//   ---
//   id: clip-before-unscale
//   cases: [a, b]
//   ---
//   # Text …
//
// Scalars are read as strings first; whoever reads the file gives them types. Free function without
// state.
#ifndef MPNANNY_BASE_FRONT_MATTER_H_
#define MPNANNY_BASE_FRONT_MATTER_H_

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace mpnanny {

struct FrontMatter {
  Json fields;        // object; every scalar is a string, sequences and maps keep their shape
  std::string body;   // everything after the closing line
  int body_line = 1;  // 1-based line of the file on which the body starts
};

// `name` is used in error messages only. Fails on a missing or unclosed front matter, on bad YAML,
// and on a key that stands twice.
Result<FrontMatter> ParseFrontMatter(std::string_view text, std::string_view name);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_FRONT_MATTER_H_
