#include "base/json.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr size_t kMaxReason = 300;  // bytes of the library's text that are shown

// Builds the tree from the parser's events, with bounds that the library's own builder has not: of
// depth, before the tree grows, and of time, which is linear in the text (the library looks through
// all members for each new one).
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(size_t max_depth, DuplicateKeys duplicates)
      : max_depth_(max_depth), duplicates_(duplicates) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    OpenValue& object = open_.back();
    auto& members = object.value->get_ref<Json::object_t&>();
    const size_t same = object.Find(members, name);
    if (same < members.size()) {
      if (duplicates_ == DuplicateKeys::kRefuse) {
        fault_ = "not valid here: \"" + EscapeControl(name, 100) + "\" stands twice in one object.";
        return false;
      }
      member_ = &(members.begin() + static_cast<std::ptrdiff_t>(same))->second;
      return true;
    }
    if (!object.index.empty()) object.index.emplace(name, members.size());
    members.emplace_back(std::move(name), nullptr);
    member_ = &members.back().second;
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception& e) override {
    SetFault(e.what());
    return false;
  }

  void SetFault(std::string what) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …": the tag in front means
    // nothing to a reader.
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    // The library quotes the last token, which may be megabytes of anything.
    fault_ = "not valid JSON: " + EscapeControl(what, kMaxReason) + ".";
  }

  Json TakeRoot() { return std::move(root_); }
  const std::string& fault() const { return fault_; }

 private:
  // Members up to here are looked through, more are indexed.
  static constexpr size_t kFewMembers = 16;

  struct OpenValue {
    Json* value;
    std::map<std::string, size_t> index = {};  // of an object's members, if many

    // Where the member stands; members.size() if there is none.
    size_t Find(const Json::object_t& members, const std::string& name) {
      if (members.size() < kFewMembers) {
        size_t at = 0;
        for (const auto& [known, unused] : members) {
          if (known == name) break;
          ++at;
        }
        return at;
      }
      if (index.empty()) {
        for (const auto& [known, unused] : members) index.emplace(known, index.size());
      }
      const auto found = index.find(name);
      return found == index.end() ? members.size() : found->second;
    }
  };

  // Puts the value where the text has it. Only the innermost open value grows, so the addresses of
  // the others stay.
  Json* Put(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back().value;
    if (parent.is_object()) return &(*member_ = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool Add(Json value) {
    Put(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (open_.size() == max_depth_) {
      fault_ = "JSON nested deeper than the limit of " + std::to_string(max_depth_) + " levels.";
      return false;
    }
    open_.push_back({Put(std::move(value))});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const size_t max_depth_;
  const DuplicateKeys duplicates_;
  Json root_ = nullptr;
  std::vector<OpenValue> open_ = {};  // from the outermost
  Json* member_ = nullptr;            // of the innermost object: where its next value goes
  std::string fault_ = "";
};

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

Result<Json> ParseJson(std::string_view text, size_t max_depth, DuplicateKeys duplicates) {
  // The library takes a NUL byte for the end of the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidInput("not valid JSON: byte " + std::to_string(nul + 1) + " is NUL.");
  }
  TreeBuilder builder(max_depth, duplicates);
  try {
    if (Json::sax_parse(text.begin(), text.end(), &builder)) return builder.TakeRoot();
  } catch (const Json::exception& e) {
    builder.SetFault(e.what());
  }
  return InvalidInput(builder.fault());
}

const Json& ValueAt(const Json& json, std::initializer_list<const char*> keys) {
  static const Json kNull;
  const Json* at = &json;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return kNull;
    at = &(*at)[key];
  }
  return *at;
}

std::string DumpJson(const Json& json) { return Dump(json, -1); }
std::string DumpJsonPretty(const Json& json) { return Dump(json, 2); }

Json JsonNumber(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::floor(value) && std::fabs(value) < 1e15) return static_cast<int64_t>(value);
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return std::strtod(text, nullptr);
}

Json JsonNumber(std::optional<double> value, int digits) {
  return value ? JsonNumber(*value, digits) : Json(nullptr);
}

}  // namespace mpnanny
