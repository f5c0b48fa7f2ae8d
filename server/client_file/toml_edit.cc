#include "server/client_file/toml_edit.h"

#define TOML_EXCEPTIONS 0  // a mistake in the file is a value
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr std::string_view kPlainKey =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

Error Broken(uint32_t line, std::string_view what) {
  return InvalidInput("line " + std::to_string(line) + ": " + EscapeControl(what, 200) + ".");
}

// A text in double quotes. TOML knows JSON's escapes but one, and wants one more.
std::string Quoted(const std::string& word) {
  std::string out = DumpJson(Json(word));
  for (size_t at = out.find('\x7f'); at != std::string::npos; at = out.find('\x7f', at)) {
    out.replace(at, 1, "\\u007F");
  }
  return out;
}

std::string KeyText(const std::string& key) {
  const bool plain = !key.empty() && key.find_first_not_of(kPlainKey) == std::string::npos;
  return plain ? key : Quoted(key);
}

std::string ValueText(const Json& value) {
  if (value.is_string()) return Quoted(value.get<std::string>());
  std::string out;
  for (const auto& [key, one] : value.items()) {
    out += out.empty() ? "" : ", ";
    out += (value.is_object() ? KeyText(key) + " = " : "") + ValueText(one);
  }
  if (value.is_array()) return "[" + out + "]";
  return value.is_object() ? "{ " + out + " }" : DumpJson(value);
}

std::string FieldLine(const std::string& key, const Json& value, const std::string& line_end) {
  return KeyText(key) + " = " + ValueText(value) + line_end;
}

std::string LineEndOf(std::string_view text) {
  const size_t end = text.find('\n');
  return end != std::string_view::npos && end > 0 && text[end - 1] == '\r' ? "\r\n" : "\n";
}

size_t BeginOfLine(std::string_view text, size_t line) {
  size_t at = 0;
  for (size_t i = 1; i < line; ++i) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return text.size();
    ++at;
  }
  return at;
}

// The byte of a place, whose column counts code points.
size_t ByteOf(std::string_view text, const toml::source_position& place) {
  size_t at = BeginOfLine(text, place.line);
  if (place.line == 1 && text.starts_with("\xEF\xBB\xBF")) at += 3;
  for (uint32_t i = 1; i < place.column && at < text.size(); ++i) DecodeUtf8(text, at);
  return at;
}

// Where the lines of a table begin and end: from its header to behind its last value.
struct TomlLines {
  size_t begin = 0;
  size_t end = 0;
};

// True if the table stands under a header of its own. [a.b] makes a table `a` as well, which the
// parser says is there, too.
bool HasHeader(std::string_view text, const toml::table& table) {
  if (table.is_inline() || !table.source().begin) return false;
  for (auto&& [key, value] : table) {
    if (value.is_table() && value.source().begin == table.source().begin) return false;
  }
  const size_t at = ByteOf(text, table.source().begin);
  return at < text.size() && text[at] == '[';
}

// The last line of what a table says itself, without the tables that have headers.
uint32_t LastLine(std::string_view text, const toml::node& node) {
  uint32_t last = node.source().end.line;
  if (const toml::table* const table = node.as_table()) {
    for (auto&& [key, value] : *table) {
      const toml::table* const inner = value.as_table();
      if (inner && HasHeader(text, *inner)) continue;
      last = std::max(last, LastLine(text, value));
    }
  }
  return last;
}

TomlLines LinesOfTable(std::string_view text, const toml::table& table) {
  return {BeginOfLine(text, table.source().begin.line),
          BeginOfLine(text, LastLine(text, table) + 1)};
}

void CollectTables(std::string_view text, const toml::table& table, std::vector<TomlLines>& out) {
  if (HasHeader(text, table)) out.push_back(LinesOfTable(text, table));
  for (auto&& [key, value] : table) {
    if (const toml::table* const inner = value.as_table()) CollectTables(text, *inner, out);
  }
}

// The table at the path; null if there is none. An error where it is no table with a header.
Result<const toml::table*> TableAt(std::string_view text, const toml::table& root,
                                   const TomlPath& path) {
  const toml::node* at = &root;
  for (size_t i = 0; i < path.size(); ++i) {
    const toml::table* const table = at->as_table();
    if (!table || (i > 0 && table->is_inline())) {
      return Broken(at->source().begin.line,
                    path[i - 1] + " is not written as [" + Join(path, ".") + "]; write it so");
    }
    const toml::node* const next = table->get(path[i]);
    if (!next) return static_cast<const toml::table*>(nullptr);
    at = next;
  }
  const toml::table* const table = at->as_table();
  if (table && HasHeader(text, *table)) return table;
  const bool deeper_only = table && !table->is_inline() && !table->empty() &&
                           std::all_of(table->begin(), table->end(), [&](auto&& entry) {
                             const toml::table* const inner = entry.second.as_table();
                             return inner && HasHeader(text, *inner);
                           });
  if (deeper_only) return static_cast<const toml::table*>(nullptr);  // [a.b.c] without [a.b]
  return Broken(at->source().begin.line,
                Join(path, ".") + " is not written as [" + Join(path, ".") + "]; take it out");
}

Result<toml::table> Parsed(std::string_view text) {
  toml::parse_result parsed = toml::parse(text);
  if (parsed) return std::move(parsed).table();
  return Broken(parsed.error().source().begin.line, parsed.error().description());
}

}  // namespace

Result<Json> ReadToml(std::string_view text) {
  MPN_TRY_ASSIGN(const toml::table table, Parsed(text));
  std::ostringstream json;
  json << toml::json_formatter(table);
  return ParseJson(json.str(), 200);
}

std::string TomlTable(const TomlPath& path, const Json& fields, const std::string& line_end) {
  std::string header;
  for (const std::string& key : path) header += (header.empty() ? "" : ".") + KeyText(key);
  std::string out = "[" + header + "]" + line_end;
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_null()) out += FieldLine(key, value, line_end);
  }
  return out;
}

Result<std::string> WithTomlTable(const std::string& text, const TomlPath& path,
                                  const Json& fields) {
  MPN_TRY_ASSIGN(const toml::table root, Parsed(text));
  MPN_TRY_ASSIGN(const toml::table* found, TableAt(text, root, path));
  const std::string line_end = LineEndOf(text);
  if (!found) {
    const bool blank = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF") == std::string::npos;
    const std::string gap = blank ? "" : (text.ends_with("\n") ? "" : line_end) + line_end;
    return text + gap + TomlTable(path, fields, line_end);
  }
  const toml::table& table = *found;
  std::string added;
  struct Edit {
    size_t begin, end;
    std::string text;
  };
  std::vector<Edit> edits;
  for (const auto& [key, value] : fields.items()) {
    const toml::node* const there = table.get(key);
    if (!there) {
      if (!value.is_null()) added += FieldLine(key, value, line_end);
      continue;
    }
    if (const toml::table* const inner = there->as_table(); inner && HasHeader(text, *inner)) {
      const TomlLines lines = LinesOfTable(text, *inner);
      edits.push_back({lines.begin, lines.end, ""});
      if (!value.is_null()) added += FieldLine(key, value, line_end);
    } else if (value.is_null()) {
      edits.push_back({BeginOfLine(text, there->source().begin.line),
                       BeginOfLine(text, there->source().end.line + 1), ""});
    } else {
      edits.push_back({ByteOf(text, there->source().begin), ByteOf(text, there->source().end),
                       ValueText(value)});
    }
  }
  if (!added.empty()) {
    const size_t behind = LinesOfTable(text, table).end;
    const bool open = behind == text.size() && !text.ends_with("\n");
    edits.push_back({behind, behind, (open ? line_end : "") + added});
  }
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return std::pair(a.begin, a.end) > std::pair(b.begin, b.end);
  });
  std::string out = text;
  for (const Edit& edit : edits) out.replace(edit.begin, edit.end - edit.begin, edit.text);
  return out;
}

Result<std::string> WithoutTomlTable(const std::string& text, const TomlPath& path) {
  MPN_TRY_ASSIGN(const toml::table root, Parsed(text));
  MPN_TRY_ASSIGN(const toml::table* found, TableAt(text, root, path));
  if (!found) return text;
  std::vector<TomlLines> tables;
  CollectTables(text, *found, tables);
  std::sort(tables.begin(), tables.end(),
            [](const TomlLines& a, const TomlLines& b) { return a.begin > b.begin; });
  std::string out = text;
  for (const TomlLines& lines : tables) {
    size_t begin = lines.begin;
    // The empty line before it goes along: it parted this table from the one before.
    for (const std::string_view gap : {"\r\n\r\n", "\n\n"}) {
      const std::string_view before = std::string_view(out).substr(0, begin);
      if (before.ends_with(gap)) {
        begin -= gap.size() / 2;
        break;
      }
    }
    out.erase(begin, lines.end - begin);
  }
  return out;
}

}  // namespace mpnanny
