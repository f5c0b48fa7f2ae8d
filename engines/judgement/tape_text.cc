#include "engines/judgement/tape_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "engines/judgement/fields.h"
#include "engines/judgement/references.h"

namespace mpnanny::judgement {
namespace {

constexpr std::string_view kHead = "mpnanny tape ";
constexpr std::string_view kPart = ";";  // before each input
constexpr size_t kMostShown = 60;        // of a word of the file, in what is said of it
constexpr char kHowLater[] =
    "A later version may have written it: read the tape with the mpnanny that wrote it.";

// --- values to text ---

// What a word cannot hold as it stands.
bool IsSpecial(char byte) {
  return static_cast<unsigned char>(byte) <= ' ' || byte == 0x7f || byte == '"' || byte == '\\' ||
         byte == ',' || byte == ';' || byte == '#';
}

std::string Show(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  bool is_plain = !text.empty();
  for (const char byte : text) is_plain = is_plain && !IsSpecial(byte);
  if (is_plain) return text;
  std::string shown = "\"";
  for (const char byte : text) {
    const auto number = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      shown += {'\\', byte};
    } else if (byte == '\n') {
      shown += "\\n";
    } else if (byte == '\t') {
      shown += "\\t";
    } else if (number < ' ' || number == 0x7f) {
      shown += {'\\', 'x', kDigits[number >> 4], kDigits[number & 15]};
    } else {
      shown += byte;
    }
  }
  return shown + "\"";
}

std::string Show(bool value) { return value ? "true" : "false"; }

template <typename T>
  requires std::is_arithmetic_v<T>
std::string Show(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
  }
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), written.ptr);
}

template <typename T>
  requires std::is_enum_v<T>
std::string Show(T value) {
  return NameOf(value);
}

// "" for what is not there.
template <typename T>
std::string Show(const std::optional<T>& value) {
  return value ? Show(*value) : "";
}

template <typename T>
std::string Show(const std::vector<T>& values) {
  std::string shown;
  for (const T& each : values) shown += (shown.empty() ? "" : ",") + Show(each);
  return shown;
}

// --- rows to text ---

struct Shown {
  std::vector<std::pair<const char*, std::string>> fields;
  const std::vector<Input>* inputs = nullptr;

  template <typename T>
  void operator()(const char* name, const T& field) {
    fields.emplace_back(name, Show(field));
  }
  void operator()(const char*, const std::vector<Input>& all) { inputs = &all; }
};

// The fields that have not their usual value, each with a blank before it.
template <typename T>
std::string ShowFields(const T& of) {
  static const T kUsual{};
  static const Shown usual = [] {
    Shown shown;
    Fields(kUsual, shown);
    return shown;
  }();
  Shown shown;
  Fields(of, shown);
  std::string text;
  for (size_t at = 0; at < shown.fields.size(); ++at) {
    const auto& [name, value] = shown.fields[at];
    if (value != usual.fields[at].second) text += std::string(" ") + name + "=" + value;
  }
  if (shown.inputs != nullptr) {
    for (const Input& each : *shown.inputs) text += " " + std::string(kPart) + ShowFields(each);
  }
  return text;
}

// --- text to values ---

std::string Cut(std::string_view text) {
  const bool is_long = text.size() > kMostShown;
  return "'" + std::string(text.substr(0, kMostShown)) + (is_long ? "…" : "") + "'";
}

// Where the text at `begin` ends at one of `ends`, which mean nothing in quotes.
size_t EndOf(std::string_view text, size_t begin, std::string_view ends) {
  bool is_quoted = false;
  for (size_t at = begin; at < text.size(); ++at) {
    if (is_quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && ends.find(text[at]) != std::string_view::npos) {
      return at;
    }
  }
  return text.size();
}

// Each takes a value; false: `text` is none.
bool Parse(std::string_view text, std::string& value) {
  if (text.empty()) return false;
  value.clear();
  const bool is_quoted = text.front() == '"';
  if (is_quoted) {
    if (text.size() < 2 || text.back() != '"') return false;
    text = text.substr(1, text.size() - 2);
  }
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      if (text[at] == '"' || (!is_quoted && IsSpecial(text[at]))) return false;
      value += text[at];
      continue;
    }
    if (!is_quoted || ++at == text.size()) return false;
    unsigned number = 0;
    switch (text[at]) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case 'x': {
        const char* const digits = text.data() + at + 1;
        if (text.size() - at < 3 ||
            std::from_chars(digits, digits + 2, number, 16).ptr != digits + 2)
          return false;
        value += static_cast<char>(number);
        at += 2;
        break;
      }
      case '"':
      case '\\':
        value += text[at];
        break;
      default:
        return false;
    }
  }
  return true;
}

bool Parse(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

template <typename T>
  requires std::is_arithmetic_v<T>
bool Parse(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && read == end;
}

template <typename T>
  requires std::is_enum_v<T>
bool Parse(std::string_view text, T& value) {
  const std::optional<T> found = FindNamed<T>(text);
  value = found.value_or(T{});
  return found.has_value();
}

template <typename T>
bool Parse(std::string_view text, std::optional<T>& value) {
  return Parse(text, value.emplace());
}

template <typename T>
bool Parse(std::string_view text, std::vector<T>& values) {
  values.clear();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = EndOf(text, at, ",");
    if (!Parse(text.substr(at, end - at), values.emplace_back())) return false;
    at = end + 1;
  }
  return true;
}

// What a value has to be, to say so where it is not.
template <typename T>
struct Expected {
  static std::string Text() {
    if constexpr (std::is_same_v<T, bool>) return "true or false";
    if constexpr (std::is_same_v<T, std::string>) return "a text";
    if constexpr (std::is_floating_point_v<T>) return "a number";
    if constexpr (std::is_integral_v<T>) {
      return "a whole number of " + std::to_string(8 * sizeof(T)) + " bits";
    }
    if constexpr (std::is_enum_v<T>) {
      std::string names;
      for (const char* each : Vocabulary<T>::kNames)
        names += (names.empty() ? "" : ", ") + std::string(each);
      return "one of " + names;
    }
    return "";
  }
};
template <typename T>
struct Expected<std::optional<T>> : Expected<T> {};
template <typename T>
struct Expected<std::vector<T>> {
  static std::string Text() { return "a list, with commas, each of it " + Expected<T>::Text(); }
};

// --- text to rows ---

struct NamedValue {
  std::string_view name, value;
  bool is_used = false;
};

// The words of a line behind its first one, each group that begins with kPart by itself.
mpnanny::Result<std::vector<std::vector<NamedValue>>> WordsOf(std::string_view line) {
  std::vector<std::vector<NamedValue>> groups(1);
  for (size_t at = 0; (at = line.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const size_t end = EndOf(line, at, " ");
    const std::string_view word = line.substr(at, end - at);
    at = end;
    if (word == kPart) {
      groups.emplace_back();
      continue;
    }
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return DataCorrupt(Cut(word) + " is no field: name=value was expected.");
    groups.back().push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  return groups;
}

struct Reader {
  std::vector<NamedValue>& words;
  std::string wrong;
  bool has_inputs = false;

  template <typename T>
  void operator()(const char* name, T& field) {
    for (NamedValue& each : words) {
      if (each.name != name || each.is_used) continue;
      each.is_used = true;
      if (wrong.empty() && !Parse(each.value, field)) {
        wrong = std::string(name) + "=" + Cut(each.value) + ": " + Expected<T>::Text() +
                " was expected.";
      }
      return;
    }
  }
  void operator()(const char*, std::vector<Input>&) { has_inputs = true; }
};

// Whether `of` takes inputs.
template <typename T>
mpnanny::Result<bool> ReadFields(std::vector<NamedValue>& words, T& of) {
  Reader reader{words, "", false};
  Fields(of, reader);
  if (!reader.wrong.empty()) return DataCorrupt(reader.wrong, kHowLater);
  for (const NamedValue& each : words) {
    if (!each.is_used)
      return DataCorrupt(Cut(each.name) + " is no field of it, or stands there twice.", kHowLater);
  }
  return reader.has_inputs;
}

template <typename T>
mpnanny::Result<Row> ReadFieldsOf(std::vector<std::vector<NamedValue>>& groups) {
  T row;
  MPN_TRY_ASSIGN(const bool has_inputs, ReadFields(groups.front(), row));
  if (!has_inputs && groups.size() > 1) return DataCorrupt("Only a call has inputs.", kHowLater);
  if constexpr (std::is_same_v<T, Call>) {
    for (size_t at = 1; at < groups.size(); ++at) {
      MPN_TRY(ReadFields(groups[at], row.inputs.emplace_back()));
    }
  }
  return Row(std::move(row));
}

template <size_t kAt = 0>
mpnanny::Result<Row> ReadRow(std::string_view word, std::vector<std::vector<NamedValue>>& groups) {
  if constexpr (kAt == std::variant_size_v<Row>) {
    return DataCorrupt("There are no rows " + Cut(word) + ".", kHowLater);
  } else {
    if (word == kRowWords[kAt]) return ReadFieldsOf<std::variant_alternative_t<kAt, Row>>(groups);
    return ReadRow<kAt + 1>(word, groups);
  }
}

mpnanny::Result<Row> ReadLine(std::string_view line) {
  const size_t end = std::min(line.find(' '), line.size());
  MPN_TRY_ASSIGN(auto groups, WordsOf(line.substr(end)));
  return ReadRow(line.substr(0, end), groups);
}

mpnanny::Result<Tape> ReadHead(std::string_view line) {
  if (!line.starts_with(kHead)) {
    return InvalidInput("This is no tape: it does not begin with '" + std::string(kHead) +
                            std::to_string(kTapeVersion) + "'.",
                        "Name a file of the folder MPNANNY_TAPE.");
  }
  line.remove_prefix(kHead.size());
  const size_t end = std::min(line.find(' '), line.size());
  int version = 0;
  if (!Parse(line.substr(0, end), version) || version != kTapeVersion) {
    return InvalidInput("The tape is of version " + Cut(line.substr(0, end)) +
                            ", this mpnanny reads version " + std::to_string(kTapeVersion) + ".",
                        kHowLater);
  }
  MPN_TRY_ASSIGN(auto groups, WordsOf(line.substr(end)));
  Tape tape;
  MPN_TRY(ReadFields(groups.front(), tape));
  if (groups.size() > 1) return DataCorrupt("Only a call has inputs.");
  return tape;
}

Error AtLine(size_t line, Error error) {
  error.message = "Line " + std::to_string(line) + ": " + error.message;
  if (error.hint.empty()) error.hint = "The file is damaged: record it again.";
  return error;
}

}  // namespace

std::string TextOf(const Row& row) {
  return kRowWords[row.index()] +
         std::visit([](const auto& each) { return ShowFields(each); }, row);
}

std::string TextOf(const Tape& tape) {
  std::string text = std::string(kHead) + std::to_string(kTapeVersion) + ShowFields(tape) + "\n";
  for (const Row& each : tape.rows) text += TextOf(each) + "\n";
  return text;
}

mpnanny::Result<Tape> ReadTape(std::string_view text) {
  std::optional<Tape> tape;
  References references;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (!tape) {
      mpnanny::Result<Tape> head = ReadHead(line);
      if (!head) return AtLine(number, std::move(head).error());
      tape = *std::move(head);
      continue;
    }
    mpnanny::Result<Row> row = ReadLine(line);
    if (!row) return AtLine(number, std::move(row).error());
    const std::string wrong = references.Take(*row);
    if (!wrong.empty()) {
      return AtLine(number, DataCorrupt("This " + std::string(kRowWords[row->index()]) +
                                        " row refers to what is not there: " + wrong + "."));
    }
    if (tape->rows.size() == kMostRows) {
      return AtLine(number,
                    InvalidInput("A tape has at most " + std::to_string(kMostRows) + " rows.",
                                 "Record a step of fewer operators."));
    }
    tape->Add(*std::move(row));
  }
  if (!tape) return InvalidInput("The file is empty.", "Record the tape again.");
  return *std::move(tape);
}

}  // namespace mpnanny::judgement
