#include "engines/team/dialect.h"

#include <cctype>

#include "base/text.h"

namespace mpnanny::team {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Statement InServersWords(std::string_view sql) {
  Statement statement;
  bool names_table = false;  // the word before was FROM or JOIN
  for (size_t at = 0; at < sql.size();) {
    if (sql[at] == '\'') {
      const size_t end = sql.find('\'', at + 1);
      const size_t after = end == std::string_view::npos ? sql.size() : end + 1;
      statement.sql += sql.substr(at, after - at);
      at = after;
      continue;
    }
    if (!IsWord(sql[at])) {
      statement.sql += sql[at] == '?' ? '$' : sql[at];
      if (sql[at] != ' ') names_table = false;
      ++at;
      continue;
    }
    size_t end = at;
    while (end < sql.size() && IsWord(sql[end])) ++end;
    const std::string_view word = sql.substr(at, end - at);
    statement.sql += word;
    if (names_table) statement.tables.emplace(word);
    const std::string upper = LowerCase(word);
    names_table = upper == "from" || upper == "join";
    at = end;
  }
  return statement;
}

}  // namespace mpnanny::team
