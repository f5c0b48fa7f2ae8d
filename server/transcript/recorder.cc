#include "server/transcript/recorder.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <utility>

#include "base/base64.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"

namespace mpnanny {
namespace {

// Fields of our own answers that are another in every run or build and that nobody sends back.
const std::set<std::string, std::less<>> kVolatile = {"pid", "started_at", "step_seconds",
                                                      "peak_memory", "environment"};

// Fields whose value is a handle: the client sends it back, so it gets a name.
const std::set<std::string, std::less<>> kHandles = {"job", "requestState"};

// The id of a log line, "e-4f21c0", in `text`; npos if there is none.
size_t FindLogId(const std::string& text) {
  constexpr size_t kDigits = 6;
  for (size_t at = 0; (at = text.find("e-", at)) != std::string::npos; at += 2) {
    const bool starts = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
    if (!starts || at + 2 + kDigits > text.size()) continue;
    const auto first = text.begin() + static_cast<std::ptrdiff_t>(at) + 2;
    const bool digits = std::all_of(first, first + kDigits, [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
    });
    if (digits) return at;
  }
  return std::string::npos;
}

// `text` without its log id: what stands before it, or after where that is longer.
Json WithoutLogId(const std::string& text, size_t at) {
  const std::string before = text.substr(0, at);
  const std::string after = text.substr(at + 8);
  return {{"$contains", before.size() >= after.size() ? before : after}};
}

Json Pattern(const Json& json, const Names& names) {
  if (json.is_string()) {
    const std::string text = names.Hide(json.get<std::string>());
    const size_t log_id = FindLogId(text);
    return log_id == std::string::npos ? Json(text) : WithoutLogId(text, log_id);
  }
  if (json.is_array()) {
    Json patterns = Json::array();
    for (const Json& inner : json) patterns.push_back(Pattern(inner, names));
    return patterns;
  }
  if (!json.is_object()) return json;
  Json patterns = Json::object();
  for (const auto& [key, inner] : json.items()) {
    const bool our_version = key == "version" && json.value("name", Json()) == "mpnanny";
    if (kVolatile.contains(key) || our_version) {
      patterns[key] = {{"$any", true}};
    } else {
      patterns[key] = Pattern(inner, names);
    }
  }
  return patterns;
}

// How often progress is told, and how far it is then, depends on the machine.
bool IsPaced(const Json& message) {
  const Json method = message.is_object() ? message.value("method", Json()) : Json();
  return method == "notifications/progress" || method == "notifications/message";
}

class RecordingSink : public MessageSink {
 public:
  RecordingSink(std::shared_ptr<MessageSink> out, std::function<void(const Json&)> record)
      : out_(std::move(out)), record_(std::move(record)) {}

  void Send(const Json& message) override {
    record_(message);  // before the client can answer it
    out_->Send(message);
  }
  void Suspend() override { out_->Suspend(); }

 private:
  const std::shared_ptr<MessageSink> out_;
  const std::function<void(const Json&)> record_;
};

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::Create(const std::string& path,
                                                   const std::vector<std::string>& roots) {
  Result<NewFile> file = NewFile::Create(path);
  if (!file) return file.error();
  return std::unique_ptr<Recorder>(new Recorder(*std::move(file), roots));
}

Recorder::Recorder(NewFile file, const std::vector<std::string>& roots)
    : file_(std::move(file)), names_(roots) {
  Write({{"about", std::string("A session recorded by mpnanny ") + kVersion + "."},
         {"roots", roots.size()}});
}

void Recorder::Received(std::string_view text) {
  const Result<Json> message = ParseJson(text);
  const std::lock_guard lock(mutex_);
  if (message && (message->is_object() || message->is_array())) {
    Write({{"send", names_.Hide(*message)}});
  } else if (!IsUtf8(text)) {
    Write({{"raw_base64", EncodeBase64(text)}});  // JSON holds no other bytes
  } else {
    Write({{"raw", names_.Hide(std::string(text))}});
  }
}

std::shared_ptr<MessageSink> Recorder::Wrap(std::shared_ptr<MessageSink> sink) {
  return std::make_shared<RecordingSink>(std::move(sink),
                                         [this](const Json& message) { Sent(message); });
}

void Recorder::Ended() {
  const std::lock_guard lock(mutex_);
  Write({{"end", true}});
}

void Recorder::Sent(const Json& message) {
  const std::lock_guard lock(mutex_);
  Json step = {{"expect", PatternOf(message)}};
  if (IsPaced(message)) {
    step["optional"] = true;
    for (const char* key : {"progress", "total", "message"}) {
      Json& params = step["expect"]["params"];
      if (params.is_object() && params.contains(key)) params[key] = {{"$any", true}};
    }
  }
  Write(step);
}

Json Recorder::PatternOf(const Json& message) {
  // Handles are named first: the texts around them tell them, too.
  std::vector<std::pair<std::string, std::string>> fresh;  // value, name
  const std::function<void(const Json&)> look = [&](const Json& json) {
    if (!json.is_structured()) return;
    for (const auto& [key, inner] : json.items()) {
      if (json.is_object() && kHandles.contains(key) && inner.is_string() &&
          !names_.HasValue(inner.get<std::string>())) {
        fresh.emplace_back(inner.get<std::string>(), key + std::to_string(++handles_));
        names_.Set(fresh.back().second, fresh.back().first);
      }
      look(inner);
    }
  };
  look(message);
  Json pattern = Pattern(message, names_);
  const std::function<void(Json&)> mark = [&](Json& json) {
    if (!json.is_structured()) return;
    for (auto& [key, inner] : json.items()) {
      if (json.is_object() && kHandles.contains(key) && inner.is_string()) {
        for (const auto& [value, name] : fresh) {
          if (inner == "${" + name + "}") inner = {{"$any", true}, {"$as", name}};
        }
      }
      mark(inner);
    }
  };
  mark(pattern);
  return pattern;
}

void Recorder::Write(const Json& step) {
  if (!well_) return;
  const Result<void> written = file_.Append(DumpJson(step) + "\n");
  if (written) return;
  well_ = false;
  LogError("The recording ends here, the server goes on: " + written.error().Text());
}

}  // namespace mpnanny
