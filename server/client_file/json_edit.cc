#include "server/client_file/json_edit.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "server/client_file/json_text.h"

namespace mpnanny {
namespace {

using Kind = JsonPart::Kind;

// How a text is written.
struct JsonStyle {
  std::string line_end = "\n";
  std::string unit = "  ";   // one level of indentation
  bool one_line = false;     // all of it stands on one line
  std::string colon = ": ";  // behind a key
};

bool HasLineEnd(std::string_view text, size_t begin, size_t end) {
  return text.substr(begin, end - begin).find('\n') != std::string_view::npos;
}

// The white space that begins the line of `at`.
std::string IndentOf(std::string_view text, size_t at) {
  const size_t line = text.rfind('\n', at == 0 ? 0 : at - 1);
  const size_t begin = line == std::string_view::npos ? 0 : line + 1;
  const size_t end = std::min(text.find_first_not_of(" \t", begin), at);
  return std::string(text.substr(begin, end - begin));
}

JsonStyle StyleOf(std::string_view text, const JsonPart& root) {
  JsonStyle style;
  const size_t line_end = text.find('\n');
  if (line_end != std::string_view::npos && line_end > 0 && text[line_end - 1] == '\r') {
    style.line_end = "\r\n";
  }
  if (root.parts.empty()) return style;
  const JsonPart& first = root.parts.front();
  style.one_line = !HasLineEnd(text, root.value, root.end);
  if (!style.one_line && HasLineEnd(text, root.value, first.begin)) {
    const std::string indent = IndentOf(text, first.begin);
    if (!indent.empty()) style.unit = indent;
  }
  if (first.value > 0 && text[first.value - 1] == ':') style.colon = ":";
  return style;
}

// `value` as text. `indent` is that of the line where it begins; `flat`: on one line.
std::string Written(const Json& value, const JsonStyle& style, const std::string& indent,
                    bool flat) {
  if (!value.is_structured()) return DumpJson(value);
  const bool object = value.is_object();
  if (value.empty()) return object ? "{}" : "[]";
  std::string out(1, object ? '{' : '[');
  const std::string inner = indent + style.unit;
  bool first = true;
  for (const auto& [key, one] : value.items()) {
    if (!first) out += flat && style.colon == ": " ? ", " : ",";
    first = false;
    if (!flat) out += style.line_end + inner;
    if (object) out += DumpJson(Json(key)) + style.colon;
    out += Written(one, style, inner, flat);
  }
  if (!flat) out += style.line_end + indent;
  return out + (object ? '}' : ']');
}

// `text` with one more part in `whole`: `value`, behind `key` if that is not null.
std::string Added(const std::string& text, const JsonStyle& style, const JsonPart& whole,
                  const std::string* key, const Json& value) {
  const std::string name = key ? DumpJson(Json(*key)) + style.colon : "";
  const size_t close = whole.end - 1;
  // Behind the last thing that is in it, comments included.
  const size_t behind = text.find_last_not_of(" \t\r\n", close - 1) + 1;
  const std::string outer = IndentOf(text, whole.value);
  if (whole.parts.empty()) {
    if (style.one_line) {
      return text.substr(0, behind) + name + Written(value, style, "", true) + text.substr(close);
    }
    const std::string indent = outer + style.unit;
    return text.substr(0, behind) + style.line_end + indent + name +
           Written(value, style, indent, false) + style.line_end + outer + text.substr(close);
  }
  const JsonPart& last = whole.parts.back();
  const bool comma = last.comma != JsonPart::kNowhere;
  if (!HasLineEnd(text, whole.value, whole.parts.front().begin)) {
    const size_t at = comma ? last.comma + 1 : last.end;
    const std::string gap = style.one_line && style.colon == ":" ? "" : " ";
    return text.substr(0, at) + (comma ? "" : ",") + gap + name +
           Written(value, style, outer, true) + (comma ? "," : "") + text.substr(at);
  }
  const std::string indent = IndentOf(text, whole.parts.front().begin);
  return text.substr(0, last.end) + (comma ? "" : ",") + text.substr(last.end, behind - last.end) +
         style.line_end + indent + name + Written(value, style, indent, false) +
         (comma ? "," : "") + text.substr(behind);
}

// `text` without one part of `whole`.
std::string TakenOut(const std::string& text, const JsonPart& whole, size_t index) {
  const JsonPart& part = whole.parts[index];
  const bool comma = part.comma != JsonPart::kNowhere;
  const size_t begin = text.find_last_not_of(" \t\r\n", part.begin - 1) + 1;
  std::string out = text.substr(0, begin) + text.substr(comma ? part.comma + 1 : part.end);
  if (index > 0 && index + 1 == whole.parts.size() && !comma) {
    out.erase(whole.parts[index - 1].comma, 1);  // the part before is the last one now
  }
  if (whole.parts.size() == 1) {  // nothing but white space left: "{}"
    const size_t next = out.find_first_not_of(" \t\r\n", whole.value + 1);
    const bool empty = next != std::string::npos && (out[next] == '}' || out[next] == ']');
    if (empty) out.erase(whole.value + 1, next - whole.value - 1);
  }
  return out;
}

std::string Shown(const JsonPath& path, size_t depth) {
  return "\"" +
         EscapeControl(Join({path.begin(), path.begin() + static_cast<long>(depth)}, "."), 100) +
         "\"";
}

Error IsNot(const std::string& text, const JsonPart& part, const std::string& name,
            const char* what) {
  return InvalidInput("line " + std::to_string(LineOf(text, part.value)) + ": " + name + " is no " +
                      what + ".");
}

// The part at the path, or the innermost one on the way that there is; `depth` says which.
struct DeepestPart {
  const JsonPart* part;
  size_t depth;
};
Result<DeepestPart> Follow(const std::string& text, const JsonPart& root, const JsonPath& path) {
  DeepestPart found{&root, 0};
  while (found.depth < path.size()) {
    if (found.part->kind != Kind::kObject) {
      return IsNot(text, *found.part, found.depth == 0 ? "the file" : Shown(path, found.depth),
                   "object");
    }
    const std::string& key = path[found.depth];
    const JsonPart* const next = found.part->Find(key);
    if (!next) return found;
    for (const JsonPart& other : found.part->parts) {
      if (other.key != key || &other == next) continue;
      return InvalidInput("line " + std::to_string(LineOf(text, next->begin)) + ": " +
                          Shown(path, found.depth + 1) + " is there twice.");
    }
    found = {next, found.depth + 1};
  }
  return found;
}

// `value` inside objects of the keys from `depth` on.
Json Nested(const JsonPath& path, size_t depth, Json value) {
  for (size_t i = path.size(); i > depth; --i) value = Json{{path[i - 1], std::move(value)}};
  return value;
}

}  // namespace

Result<std::string> WithJsonValue(const std::string& text, const JsonPath& path,
                                  const Json& value) {
  MPN_TRY_ASSIGN(const JsonText scanned, ScanJson(text));
  const JsonPart& root = scanned.root;
  const JsonStyle style = StyleOf(text, root);
  if (root.kind == Kind::kNone) {
    const bool open_line = text.find_last_of("/") != std::string::npos && !text.ends_with("\n");
    return text + (open_line ? style.line_end : "") +
           Written(Nested(path, 0, value), style, "", false) + style.line_end;
  }
  MPN_TRY_ASSIGN(const DeepestPart found, Follow(text, root, path));
  const JsonPart& part = *found.part;
  if (found.depth < path.size()) {
    const std::string& key = path[found.depth];
    return Added(text, style, part, &key, Nested(path, found.depth + 1, value));
  }
  const std::string indent = IndentOf(text, part.begin);
  const bool flat = style.one_line || (part.kind != Kind::kPlain && !part.parts.empty() &&
                                       !HasLineEnd(text, part.value, part.end));
  return text.substr(0, part.value) + Written(value, style, indent, flat) + text.substr(part.end);
}

Result<std::string> WithoutJsonValue(const std::string& text, const JsonPath& path) {
  MPN_TRY_ASSIGN(const JsonText scanned, ScanJson(text));
  if (scanned.root.kind == Kind::kNone || path.empty()) return text;
  const Result<DeepestPart> whole = Follow(text, scanned.root, {path.begin(), path.end() - 1});
  MPN_TRY_ASSIGN(const DeepestPart part, Follow(text, scanned.root, path));
  if (part.depth < path.size()) return text;
  return TakenOut(text, *whole->part, static_cast<size_t>(part.part - whole->part->parts.data()));
}

Result<std::string> WithJsonElement(const std::string& text, const JsonPath& path,
                                    const Json& value) {
  MPN_TRY_ASSIGN(const JsonText scanned, ScanJson(text));
  const JsonPart& root = scanned.root;
  if (root.kind == Kind::kNone) return WithJsonValue(text, path, Json::array({value}));
  MPN_TRY_ASSIGN(const DeepestPart found, Follow(text, root, path));
  if (found.depth < path.size()) return WithJsonValue(text, path, Json::array({value}));
  if (found.part->kind != Kind::kArray) {
    return IsNot(text, *found.part, Shown(path, path.size()), "array");
  }
  return Added(text, StyleOf(text, root), *found.part, nullptr, value);
}

Result<std::string> WithoutJsonElement(const std::string& text, const JsonPath& path,
                                       size_t index) {
  MPN_TRY_ASSIGN(const JsonText scanned, ScanJson(text));
  MPN_TRY_ASSIGN(const DeepestPart found, Follow(text, scanned.root, path));
  if (found.depth < path.size() || index >= found.part->parts.size()) return text;
  return TakenOut(text, *found.part, index);
}

}  // namespace mpnanny
