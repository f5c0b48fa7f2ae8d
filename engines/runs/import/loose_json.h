// JSON as training code writes it: Python's NaN, Infinity and -Infinity, numbers in strings, and a
// file that ends in the middle. Read as events, without a tree, so that memory does not grow with
// the text.
//
// A value owned by one reader; it borrows the text.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_LOOSE_JSON_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_LOOSE_JSON_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::imports {

// One scalar of a document: the keys that lead to it (an element of an array has the key "") and
// its number, which a string may spell as well. `text` is set for strings.
struct LooseValue {
  const std::vector<std::string>& path;
  std::optional<double> number;
  std::optional<std::string> text;
};

struct LooseEvents {
  std::function<void(const LooseValue&)> value;
  // An object ended; `path` leads to it.
  std::function<void(const std::vector<std::string>& path)> end_object;
};

// Reads one document. False if it is no JSON, or ends before it is whole; what was told before that
// stands. Nesting beyond 64 is not read.
bool ReadLooseJson(std::string_view text, const LooseEvents& events);

// The keys of a path with '/' between them, elements of arrays left out.
std::string JoinPath(const std::vector<std::string>& path, size_t from = 0);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_LOOSE_JSON_H_
