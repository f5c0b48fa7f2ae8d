// How far a rank's file was shipped: of each table the key of its last row, and how many rows went.
//
// The server keeps them beside the rows (part.shipped) and moves them in the same transaction: what
// they say is so, whatever was cut off. Plain values.
#ifndef MPNANNY_ENGINES_TEAM_MARKS_H_
#define MPNANNY_ENGINES_TEAM_MARKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace mpnanny::team {

using Key = std::vector<std::variant<int64_t, std::string>>;  // Table::key's values

struct Mark {
  Key key;           // empty: none yet
  int64_t rows = 0;  // that came to the server
  bool operator==(const Mark&) const = default;
};
using Marks = std::map<std::string, Mark>;  // by table

Json MarksJson(const Marks& marks);
Marks ParseMarks(const std::string& text);  // what does not fit is left out

// The first part of the key, which is the step of tables by step.
std::optional<int64_t> FirstOf(const Mark& mark);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_MARKS_H_
