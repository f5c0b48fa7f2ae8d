// Shell scripts: words of commands, with variables that the script itself sets, and the flags among
// them. No shell: what a branch, a loop or a function body sets is taken as not known.
#include <algorithm>
#include <array>
#include <map>

#include "engines/check/inputs/settings.h"

namespace mpnanny::check {
namespace {

constexpr size_t kMaxWords = 4000;  // of one command, with its variables in place
constexpr size_t kMaxCommands = 4000;

struct ShellWord {
  std::string text;  // without quotes; "$NAME" where it is not known
  Bytes where;       // in the file: where the variable got it, if it came from one
  bool certain = true;
};
using Words = std::vector<ShellWord>;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The variable that the whole of `text` is: NAME of $NAME, ${NAME}, ${NAME[@]}; "" for anything
// else.
std::string_view VariableOf(std::string_view text) {
  if (!text.starts_with('$')) return {};
  text.remove_prefix(1);
  if (text.starts_with('{')) {
    if (!text.ends_with('}')) return {};
    text = text.substr(1, text.size() - 2);
    if (text.ends_with("[@]") || text.ends_with("[*]")) text.remove_suffix(3);
  }
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameChar) ? text
                                                                            : std::string_view();
}

class Script {
 public:
  explicit Script(std::string_view text) : text_(text) {}

  std::vector<Settings> Read() {
    for (size_t commands = 0; at_ < text_.size() && commands < kMaxCommands; ++commands) {
      Words words = Command();
      if (!words.empty()) Run(std::move(words));
    }
    return std::move(settings_);
  }

 private:
  // The words up to the end of a command: a line's end, ; & | or a parenthesis.
  Words Command() {
    Words words;
    conditional_ = joined_;
    joined_ = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (Continues()) {
        at_ += text_[at_ + 1] == '\r' ? 3 : 2;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\n') {
        ++at_;
        if (!here_end_.empty()) HereDocument();
        return words;
      } else if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
        // What comes after && and || runs or not.
        joined_ = (c == '&' || c == '|') && text_.substr(at_ + 1, 1) == std::string_view(&c, 1);
        at_ += joined_ ? 2 : 1;
        return words;
      } else if (text_.substr(at_, 2) == "<<" && text_.substr(at_, 3) != "<<<") {
        HereStart();
      } else {
        ShellWord word = OneWord();
        // NAME=( … ): the words of an array.
        if (word.text.ends_with('=') && at_ < text_.size() && text_[at_] == '(') {
          ++at_;
          Array(word, &words);
        } else if (words.size() < kMaxWords && word.where.end > word.where.begin) {
          words.push_back(std::move(word));
        }
      }
    }
    return words;
  }

  bool Continues() const {
    return text_.substr(at_, 2) == "\\\n" || text_.substr(at_, 3) == "\\\r\n";
  }

  // One word from here: quotes joined, escapes resolved.
  ShellWord OneWord() {
    ShellWord word;
    word.where.begin = static_cast<uint32_t>(at_);
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        ++at_;
        while (at_ < text_.size() && text_[at_] != c) {
          if (c == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
          word.text += text_[at_++];
        }
        ++at_;
      } else if (c == '$' && (text_.substr(at_, 2) == "$(" || text_.substr(at_, 2) == "${")) {
        Substitution(&word.text);
      } else if (c == '`') {
        const size_t end = std::min(text_.find('`', at_ + 1), text_.size());
        word.text += '$';
        at_ = end + 1;
      } else if (c == '\\' && !Continues()) {
        if (at_ + 1 < text_.size()) word.text += text_[at_ + 1];
        at_ += 2;
      } else if (std::string_view(" \t\r\n;&|()<\\").find(c) != std::string_view::npos) {
        break;
      } else {
        word.text += c;
        ++at_;
      }
    }
    at_ = std::min(at_, text_.size());
    word.where.end = static_cast<uint32_t>(at_);
    // What is not moved by anything above would be read for ever.
    if (word.where.end == word.where.begin) ++at_;
    return word;
  }

  // ${…} as it stands; $(…), whose output nobody knows, as "$".
  void Substitution(std::string* into) {
    const char open = text_[at_ + 1];
    const char close = open == '(' ? ')' : '}';
    const size_t begin = at_;
    int depth = 0;
    for (++at_; at_ < text_.size(); ++at_) {
      depth += text_[at_] == open ? 1 : text_[at_] == close ? -1 : 0;
      if (depth == 0) break;
    }
    at_ = std::min(at_ + 1, text_.size());
    *into += open == '(' ? "$" : std::string(text_.substr(begin, at_ - begin));
  }

  // The words of NAME=( … ) as an assignment.
  void Array(const ShellWord& head, Words* out) {
    Words words;
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else if (Continues()) {
        at_ += 2;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (words.size() < kMaxWords) {
        words.push_back(OneWord());
      } else {
        ++at_;
      }
    }
    ++at_;
    const bool appends = head.text.ends_with("+=");
    Assign(head.text.substr(0, head.text.size() - (appends ? 2 : 1)), Expanded(std::move(words)),
           appends);
    out->clear();
  }

  void HereStart() {
    at_ += 2;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    here_end_ = OneWord().text;
  }

  // The text up to the line that ends it: perhaps a configuration that the script writes.
  void HereDocument() {
    const size_t begin = at_;
    size_t line = at_;
    while (line < text_.size()) {
      const size_t end = std::min(text_.find('\n', line), text_.size());
      std::string_view one = text_.substr(line, end - line);
      while (!one.empty() && (one.front() == '\t' || one.front() == ' ')) one.remove_prefix(1);
      while (!one.empty() && (one.back() == '\r' || one.back() == ' ')) one.remove_suffix(1);
      at_ = std::min(end + 1, text_.size());
      if (one == here_end_) break;
      line = at_;
    }
    here_end_.clear();
    std::string_view body = text_.substr(begin, std::min(line, text_.size()) - begin);
    if (!MayHoldSettings(body)) return;
    const size_t first = body.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return;
    std::string note;
    for (Settings& one : ReadDataSettings(body, body[first] == '{', &note)) {
      for (Setting& setting : one.list) {
        for (uint32_t* offset :
             {&setting.where.begin, &setting.where.end, &setting.value.begin, &setting.value.end})
          *offset += static_cast<uint32_t>(begin);
      }
      settings_.push_back(std::move(one));
    }
  }

  void Run(Words words) {
    Nest(words);
    // Leading assignments; alone they set variables.
    size_t first = 0;
    while (first < words.size() && (words[first].text == "export" || words[first].text == "local" ||
                                    words[first].text == "declare"))
      ++first;
    size_t command = first;
    for (; command < words.size(); ++command) {
      const std::string& text = words[command].text;
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0) break;
      const bool appends = text[equals - 1] == '+';
      const std::string name = text.substr(0, equals - (appends ? 1 : 0));
      if (!std::all_of(name.begin(), name.end(), IsNameChar)) break;
      Assign(name, Expanded(Split(words[command], equals + 1)), appends);
    }
    if (command == words.size()) return;
    words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(command));
    Flags(Expanded(std::move(words)));
  }

  // Keeps count of what may not be run: bodies of if, loops, case and functions.
  void Nest(const Words& words) {
    for (const ShellWord& word : words) {
      const std::string& t = word.text;
      if (t == "if" || t == "case" || t == "for" || t == "while" || t == "until" || t == "select" ||
          t == "{")
        ++nested_;
      if ((t == "fi" || t == "esac" || t == "done" || t == "}") && nested_ > 0) --nested_;
      // Keywords begin a command, perhaps after one of these.
      if (t != "then" && t != "do" && t != "else" && t != "!" && t != "{") break;
    }
  }

  // The words of an assigned value, each with its place in the file.
  Words Split(const ShellWord& whole, size_t value) const {
    Words words;
    const std::string_view raw =
        text_.substr(whole.where.begin, whole.where.end - whole.where.begin);
    // The output of a command may be anything.
    if (raw.find("$(") != std::string_view::npos || raw.find('`') != std::string_view::npos)
      return {{"$", whole.where}};
    size_t at = std::min(raw.find('=') + 1, raw.size());
    const std::string_view blank(" \t\r\n\\\"'");
    while (at < raw.size()) {
      if (blank.find(raw[at]) != std::string_view::npos) {
        ++at;
        continue;
      }
      const size_t end = std::min(raw.find_first_of(blank, at), raw.size());
      words.push_back({std::string(raw.substr(at, end - at)),
                       {whole.where.begin + static_cast<uint32_t>(at),
                        whole.where.begin + static_cast<uint32_t>(end)}});
      at = end;
    }
    if (words.empty() && whole.text.size() > value) words.push_back({"$", whole.where});
    return words;
  }

  void Assign(const std::string& name, Words words, bool appends) {
    Words& variable = variables_[name];
    if (nested_ > 0 || conditional_) {
      // Either the old value or the new one.
      words.insert(words.begin(), variable.begin(), variable.end());
      for (ShellWord& word : words) word.certain = false;
    } else if (appends) {
      words.insert(words.begin(), variable.begin(), variable.end());
    }
    if (words.size() > kMaxWords) words.resize(kMaxWords);
    variable = std::move(words);
  }

  // Variables that are words of their own replaced by what they hold.
  Words Expanded(Words words) const {
    Words expanded;
    for (ShellWord& word : words) {
      const auto known = variables_.find(std::string(VariableOf(word.text)));
      if (known == variables_.end()) {
        expanded.push_back(std::move(word));
      } else {
        expanded.insert(expanded.end(), known->second.begin(), known->second.end());
      }
      if (expanded.size() > kMaxWords) break;
    }
    return expanded;
  }

  // The framework that the command starts, by its program and its other flags.
  static bool Recognise(const Words& words, Framework* framework) {
    const auto any = [&](std::initializer_list<std::string_view> flags) {
      return std::any_of(words.begin(), words.end(), [&](const ShellWord& word) {
        const std::string_view name = std::string_view(word.text).substr(0, word.text.find('='));
        return std::find(flags.begin(), flags.end(), name) != flags.end();
      });
    };
    const auto program = [&](std::string_view part) {
      return std::any_of(words.begin(), words.end(), [&](const ShellWord& word) {
        return !word.text.starts_with('-') && word.text.find(part) != std::string::npos;
      });
    };
    if (any({"--fp16-init-scale", "--fp16-scale-window", "--memory-efficient-fp16", "--max-update",
             "--update-freq"}) ||
        program("fairseq-train")) {
      *framework = Framework::kFairseq;
    } else if (any({"--train-iters", "--initial-loss-scale", "--loss-scale-window",
                    "--tensor-model-parallel-size", "--num-attention-heads"})) {
      // Where DeepSpeed runs Megatron's model its own configuration scales the loss.
      if (any({"--deepspeed", "--deepspeed_config", "--deepspeed-config"}) ||
          (!words.empty() && words[0].text == "deepspeed"))
        return false;
      *framework = Framework::kMegatron;
    } else if (any({"--per_device_train_batch_size", "--num_train_epochs",
                    "--lr_scheduler_type"})) {
      *framework = Framework::kTransformers;
    } else {
      return false;
    }
    return true;
  }

  // Numbers, yes and no, levels and what is not known; else the word after a flag is something
  // else.
  static bool IsValue(std::string_view word) {
    for (const std::string_view known :
         {"true", "True", "false", "False", "O0", "O1", "O2", "O3"}) {
      if (word == known) return true;
    }
    return word.find_first_of("0123456789$.") == 0;
  }

  void Flags(const Words& words) {
    Settings settings;
    if (!Recognise(words, &settings.framework)) return;
    for (size_t i = 0; i < words.size(); ++i) {
      const ShellWord& word = words[i];
      if (!word.text.starts_with("--") || !word.certain) continue;
      std::string name = word.text.substr(2);
      std::string value;
      Bytes where = word.where;
      Bytes value_where{word.where.end, word.where.end};
      if (const size_t equals = name.find('='); equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
        value_where.begin = word.where.begin + static_cast<uint32_t>(equals) + 3;
      } else if (i + 1 < words.size() && IsValue(words[i + 1].text)) {
        value = words[i + 1].text;
        value_where = words[i + 1].where;
        if (value_where.begin > where.end && value_where.begin - where.end < 4)
          where.end = value_where.end;
        if (!words[i + 1].certain) value = "$";
      }
      // A variable inside: not known.
      if (value.find('$') != std::string::npos) value = "$";
      AddSetting(settings.framework, name, value, false, where, value_where, &settings);
    }
    if (!settings.list.empty()) settings_.push_back(std::move(settings));
  }

  std::string_view text_;
  size_t at_ = 0;
  int nested_ = 0;
  bool conditional_ = false;  // this command stands after && or ||
  bool joined_ = false;       // the next one will
  std::string here_end_;
  std::map<std::string, Words> variables_;
  std::vector<Settings> settings_;
};

}  // namespace

std::vector<Settings> ReadShellSettings(std::string_view text) { return Script(text).Read(); }

}  // namespace mpnanny::check
