#include "tools/query_stats/pattern.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "base/text.h"

namespace mpnanny::query_stats {
namespace {

constexpr size_t kMaxBytes = 1000;
constexpr size_t kMaxStates = 1000;
constexpr int kMaxDepth = 50;
constexpr int kMaxRepeats = 100;

using Bytes = std::bitset<256>;

Bytes Class(char letter) {
  Bytes set;
  for (int c = 0; c < 256; ++c) {
    const bool ascii = c < 128;
    switch (std::tolower(static_cast<unsigned char>(letter))) {
      case 'd':
        set[c] = ascii && std::isdigit(c);
        break;
      case 'w':
        set[c] = ascii && (std::isalnum(c) || c == '_');
        break;
      default:
        set[c] = ascii && std::isspace(c);
    }
  }
  return std::isupper(static_cast<unsigned char>(letter)) ? ~set : set;
}

bool IsClass(char letter) { return std::string_view("dwsDWS").find(letter) != std::string::npos; }

}  // namespace

// The text becomes a tree of pieces first, because each piece is compiled in front of what follows
// it.
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<Pattern> Parse() {
    if (text_.size() > kMaxBytes) return Wrong("is longer than 1,000 bytes");
    const int tree = Alternatives(0);
    if (!error_.empty()) return Wrong(error_);
    if (at_ < text_.size()) return Wrong("has a ')' too many");
    pattern_.states_.push_back({});  // kMatch
    pattern_.start_ = Compile(tree, 0);
    if (pattern_.states_.size() > kMaxStates) return Wrong("is too large");
    return std::move(pattern_);
  }

 private:
  struct Node {
    enum Kind { kNothing, kBytes, kStart, kEnd, kSequence, kEither, kRepeat } kind = kNothing;
    Bytes bytes;
    std::vector<int> parts;
    int least = 0, most = -1;  // kRepeat; -1: without end
  };

  Error Wrong(const std::string& what) const {
    return InvalidInput("The regular expression /" + EscapeControl(text_, 80) + "/ " + what + ".",
                        "A pattern without slashes is a name or a glob: \"*attn*\".");
  }
  int Fail(const std::string& what) {
    if (error_.empty()) error_ = what + " (at byte " + std::to_string(at_ + 1) + ")";
    at_ = text_.size();
    return Add({});
  }
  int Add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }
  bool More() const { return at_ < text_.size(); }
  bool Take(char c) {
    if (!More() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  int Alternatives(int depth) {
    if (depth > kMaxDepth) return Fail("is nested too deeply");
    Node either;
    either.kind = Node::kEither;
    do {
      Node sequence;
      sequence.kind = Node::kSequence;
      while (More() && text_[at_] != '|' && text_[at_] != ')') {
        sequence.parts.push_back(Repeated(depth));
      }
      either.parts.push_back(Add(std::move(sequence)));
    } while (Take('|'));
    return Add(std::move(either));
  }

  int Repeated(int depth) {
    Node repeat;
    repeat.kind = Node::kRepeat;
    repeat.parts = {Single(depth)};
    if (Take('*')) {
      repeat.least = 0;
    } else if (Take('+')) {
      repeat.least = 1;
    } else if (Take('?')) {
      repeat.most = 1;
    } else if (Take('{')) {
      const std::optional<int> least = Number();
      repeat.least = least.value_or(0);
      repeat.most = Take(',') ? Number().value_or(-1) : repeat.least;
      if (!least || !Take('}') || (repeat.most >= 0 && repeat.most < repeat.least)) {
        return Fail("has a '{' without \"{2}\", \"{2,}\" or \"{2,5}\"");
      }
      if (repeat.least > kMaxRepeats || repeat.most > kMaxRepeats) {
        return Fail("repeats more than 100 times");
      }
    } else {
      return repeat.parts.front();
    }
    Take('?');  // a lazy repeat finds the same names
    return Add(std::move(repeat));
  }

  std::optional<int> Number() {
    int value = 0;
    const size_t from = at_;
    while (More() && std::isdigit(static_cast<unsigned char>(text_[at_])) && at_ - from < 4) {
      value = value * 10 + (text_[at_++] - '0');
    }
    return at_ > from ? std::optional(value) : std::nullopt;
  }

  int Single(int depth) {
    if (Take('(')) {
      if (at_ + 1 < text_.size() && text_[at_] == '?' && text_[at_ + 1] == ':') at_ += 2;
      const int inner = Alternatives(depth + 1);
      return Take(')') ? inner : Fail("has a '(' without its ')'");
    }
    Node node;
    node.kind = Node::kBytes;
    const char c = text_[at_++];
    switch (c) {
      case '^':
        node.kind = Node::kStart;
        break;
      case '$':
        node.kind = Node::kEnd;
        break;
      case '.':
        node.bytes.set();
        break;
      case '[':
        return Set();
      case '*':
      case '+':
      case '?':
      case '{':
        return Fail(std::string("repeats nothing with '") + c + "'");
      case '\\':
        if (!More()) return Fail("ends with a backslash");
        if (IsClass(text_[at_])) {
          node.bytes = Class(text_[at_++]);
        } else if (std::isalnum(static_cast<unsigned char>(text_[at_]))) {
          return Fail("has an escape that is not known");
        } else {
          node.bytes.set(static_cast<unsigned char>(text_[at_++]));
        }
        break;
      default:
        node.bytes.set(static_cast<unsigned char>(c));
    }
    return Add(std::move(node));
  }

  int Set() {
    Node node;
    node.kind = Node::kBytes;
    const bool negated = Take('^');
    bool first = true;
    while (More() && (text_[at_] != ']' || first)) {
      first = false;
      char from = text_[at_++];
      if (from == '\\' && More()) {
        if (IsClass(text_[at_])) {
          node.bytes |= Class(text_[at_++]);
          continue;
        }
        from = text_[at_++];
      }
      char to = from;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        to = text_[at_ + 1];
        at_ += 2;
      }
      if (static_cast<unsigned char>(to) < static_cast<unsigned char>(from)) {
        return Fail("has a range that ends before it begins");
      }
      for (int b = static_cast<unsigned char>(from); b <= static_cast<unsigned char>(to); ++b) {
        node.bytes.set(static_cast<size_t>(b));
      }
    }
    if (!Take(']')) return Fail("has a '[' without its ']'");
    if (negated) node.bytes.flip();
    return Add(std::move(node));
  }

  int State(Pattern::State::Kind kind, int next, int other = -1, Bytes bytes = {}) {
    // Growing stops at the limit; Parse() then refuses the pattern.
    if (pattern_.states_.size() > kMaxStates) return 0;
    pattern_.states_.push_back({kind, bytes, next, other});
    return static_cast<int>(pattern_.states_.size()) - 1;
  }

  // The state at which `node` begins, if `next` follows it.
  int Compile(int index, int next) {
    if (pattern_.states_.size() > kMaxStates) return 0;
    const Node& node = nodes_[static_cast<size_t>(index)];
    switch (node.kind) {
      case Node::kNothing:
        return next;
      case Node::kBytes:
        return State(Pattern::State::kBytes, next, -1, node.bytes);
      case Node::kStart:
        return State(Pattern::State::kStart, next);
      case Node::kEnd:
        return State(Pattern::State::kEnd, next);
      case Node::kSequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
          next = Compile(*part, next);
        }
        return next;
      case Node::kEither: {
        int begin = Compile(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;) {
          begin = State(Pattern::State::kSplit, Compile(node.parts[i], next), begin);
        }
        return begin;
      }
      case Node::kRepeat: {
        int begin = next;
        if (node.most < 0) {
          begin = State(Pattern::State::kSplit, -1, next);
          const int body = Compile(node.parts[0], begin);
          pattern_.states_[static_cast<size_t>(begin)].next = body;
        } else {
          for (int i = node.least; i < node.most; ++i) {
            begin = State(Pattern::State::kSplit, Compile(node.parts[0], begin), next);
          }
        }
        for (int i = 0; i < node.least; ++i) begin = Compile(node.parts[0], begin);
        return begin;
      }
    }
    return next;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
  std::vector<Node> nodes_;
  Pattern pattern_;
};

Result<Pattern> Pattern::Create(std::string_view text) { return PatternParser(text).Parse(); }

// Adds the state, and all that is reached from it without reading a byte.
void Pattern::Follow(int state, bool at_start, bool at_end, std::vector<char>& on,
                     std::vector<int>& list) const {
  std::vector<int> open = {state};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (at < 0 || on[static_cast<size_t>(at)]) continue;
    on[static_cast<size_t>(at)] = 1;
    const State& s = states_[static_cast<size_t>(at)];
    if (s.kind == State::kSplit) {
      open.push_back(s.other);
      open.push_back(s.next);
    } else if (s.kind == State::kStart ? at_start : s.kind == State::kEnd && at_end) {
      open.push_back(s.next);
    } else {
      list.push_back(at);
    }
  }
}

bool Pattern::Finds(std::string_view name) const {
  std::vector<char> on(states_.size());
  std::vector<int> now, after;
  for (size_t i = 0; i <= name.size(); ++i) {
    const bool at_end = i == name.size();
    // A match may begin at every byte.
    Follow(start_, i == 0, at_end, on, now);
    std::fill(on.begin(), on.end(), 0);
    after.clear();
    for (const int state : now) {
      const State& s = states_[static_cast<size_t>(state)];
      if (s.kind == State::kMatch) return true;
      if (at_end || s.kind != State::kBytes || !s.bytes[static_cast<unsigned char>(name[i])]) {
        continue;
      }
      Follow(s.next, false, i + 1 == name.size(), on, after);
    }
    std::swap(now, after);
  }
  return false;
}

}  // namespace mpnanny::query_stats
