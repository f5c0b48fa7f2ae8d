#include "base/yaml_values.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>

namespace mpnanny {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxEntries = 20000;
constexpr int kMaxDocuments = 64;

// A stream over text that is not copied.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // NOLINT: only ever read
    setg(begin, begin, begin + text.size());
  }
};

// Thrown out of the parser, which knows no other way to be stopped.
struct TooMuch {};

class Flattener : public YAML::EventHandler {
 public:
  Flattener(std::string_view text, std::vector<YamlValue>* out) : text_(text), out_(out) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override { levels_.clear(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { Scalar(mark, "", ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { Scalar(mark, "", ""); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    Scalar(mark, tag, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {
    Open(mark, false);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, true);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Level {
    bool map = false;
    bool key_next = true;
    int index = 0;
    size_t path = 0;   // length of the path of the whole
    uint32_t key = 0;  // where the key began
  };

  // The path of what comes now.
  void Step(uint32_t at) {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (level.map) {
      level.key_next = true;
    } else {
      path_.resize(level.path);
      path_ += '[' + std::to_string(level.index++) + ']';
      level.key = at;
    }
  }

  void Open(const YAML::Mark& mark, bool map) {
    if (levels_.size() >= kMaxDepth) throw TooMuch();
    // A map as a key: nothing that is looked for, but it must not be taken for a value.
    if (!levels_.empty() && levels_.back().map && levels_.back().key_next) {
      SetKey("?", static_cast<uint32_t>(mark.pos));
    } else {
      Step(static_cast<uint32_t>(mark.pos));
    }
    levels_.push_back({map, true, 0, path_.size(), static_cast<uint32_t>(mark.pos)});
  }

  void Close() {
    levels_.pop_back();
    if (levels_.empty()) {
      path_.clear();
      return;
    }
    Level& level = levels_.back();
    path_.resize(std::min(path_.size(), level.path));
  }

  void SetKey(std::string_view key, uint32_t at) {
    Level& level = levels_.back();
    path_.resize(level.path);
    if (!path_.empty()) path_ += '.';
    path_ += key.substr(0, 64);
    level.key = at;
    level.key_next = false;
  }

  void Scalar(const YAML::Mark& mark, const std::string& tag, const std::string& value) {
    if (levels_.empty()) return;
    const auto at = static_cast<uint32_t>(
        std::min<size_t>(mark.pos < 0 ? 0 : static_cast<size_t>(mark.pos), text_.size()));
    if (levels_.back().map && levels_.back().key_next) {
      SetKey(value, at);
      return;
    }
    Step(at);
    if (out_->size() >= kMaxEntries) throw TooMuch();
    // The tag is "!" for quoted scalars.
    out_->push_back({path_, value.substr(0, 80), tag == "!", levels_.back().key, at, End(at)});
  }

  // The end of the scalar that begins there: its closing quote, else where its word ends.
  uint32_t End(uint32_t at) const {
    if (at >= text_.size()) return at;
    const char quote = text_[at];
    size_t end = at + 1;
    if (quote == '"' || quote == '\'') {
      while (end < text_.size() && text_[end] != quote && text_[end] != '\n')
        end += text_[end] == '\\' && quote == '"' ? 2 : 1;
      ++end;
    } else {
      while (end < text_.size() &&
             std::string_view(" \t\r\n,]}#").find(text_[end]) == std::string_view::npos)
        ++end;
    }
    return static_cast<uint32_t>(std::min(end, text_.size()));
  }

  std::string_view text_;
  std::vector<YamlValue>* out_;
  std::string path_;
  std::vector<Level> levels_;
};

}  // namespace

YamlValues ReadYamlValues(std::string_view text) {
  YamlValues all;
  ViewBuffer buffer(text);
  std::istream in(&buffer);
  try {
    YAML::Parser parser(in);
    for (int document = 0; document < kMaxDocuments; ++document) {
      all.documents.emplace_back();
      Flattener flattener(text, &all.documents.back());
      if (!parser.HandleNextDocument(flattener)) {
        all.documents.pop_back();
        break;
      }
    }
  } catch (const YAML::Exception& e) {
    all.mistake = "line " + std::to_string(e.mark.line + 1) + ": " + e.msg;
  } catch (const TooMuch&) {
    // What was read of it counts all the same.
  } catch (const std::exception& e) {
    all.mistake = e.what();
  }
  return all;
}

}  // namespace mpnanny
