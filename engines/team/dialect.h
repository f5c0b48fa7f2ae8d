// The monitor's SQL in PostgreSQL's words: what readers ask of a file is asked of the server.
//
// Both know the SELECTs that the readers make; only the parameters' names differ, and which tables
// a statement reads must be known. A free function without state.
#ifndef MPNANNY_ENGINES_TEAM_DIALECT_H_
#define MPNANNY_ENGINES_TEAM_DIALECT_H_

#include <set>
#include <string>
#include <string_view>

namespace mpnanny::team {

struct Statement {
  std::string sql;               // with $1 for ?1
  std::set<std::string> tables;  // names after FROM and JOIN
};
Statement InServersWords(std::string_view sql);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_DIALECT_H_
