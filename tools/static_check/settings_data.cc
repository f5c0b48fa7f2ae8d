// JSON and YAML: the parser's events flattened to paths, and configurations recognised by the paths
// they hold. Events, not a tree: an alias is one event however much it stands for, so nothing is
// ever multiplied.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <istream>
#include <map>
#include <streambuf>

#include "tools/static_check/settings.h"

namespace mpnanny::static_check {
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

struct Entry {
  std::string path;  // "trainer.precision", "[0].fp16.enabled"
  std::string text;
  bool quoted = false;
  Bytes where, value;
};

// Thrown out of the parser, which knows no other way to be stopped.
struct TooMuch {};

class Flattener : public YAML::EventHandler {
 public:
  Flattener(std::string_view text, std::vector<Entry>* out) : text_(text), out_(out) {}

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
    const bool quoted = tag == "!";  // what the parser says of quoted scalars
    out_->push_back(
        {path_, value.substr(0, 80), quoted, {levels_.back().key, End(at)}, {at, End(at)}});
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
  std::vector<Entry>* out_;
  std::string path_;
  std::vector<Level> levels_;
};

// Comments of JSON (// and /* */, outside of strings) as spaces, so that offsets stay.
std::string BlankComments(std::string_view json) {
  std::string text(json);
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"' || text[i] == '\n')
        string = false;
      continue;
    }
    if (text[i] == '"') string = true;
    const std::string_view rest = std::string_view(text).substr(i, 2);
    if (rest != "//" && rest != "/*") continue;
    size_t end = 0;
    if (rest == "//") end = std::min(text.find('\n', i), text.size());
    if (rest == "/*") end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    for (; i < end; ++i) {
      if (text[i] != '\n') text[i] = ' ';
    }
    --i;
  }
  return text;
}

// Where in a file a setting of a framework stands: the path below the configuration's root.
struct Place {
  Framework framework;
  std::string_view path;
  std::string_view name;  // for AddSetting
  bool tells;             // by this alone the root is known to be of that framework
};

constexpr std::array kPlaces = {
    Place{Framework::kDeepSpeed, "fp16.enabled", "fp16.enabled", true},
    Place{Framework::kDeepSpeed, "fp16.initial_scale_power", "fp16.initial_scale_power", true},
    Place{Framework::kDeepSpeed, "fp16.loss_scale", "fp16.loss_scale", false},
    Place{Framework::kDeepSpeed, "fp16.min_loss_scale", "fp16.min_loss_scale", false},
    Place{Framework::kDeepSpeed, "fp16.loss_scale_window", "fp16.loss_scale_window", false},
    Place{Framework::kDeepSpeed, "fp16.fp16_master_weights_and_grads",
          "fp16.fp16_master_weights_and_grads", true},
    Place{Framework::kDeepSpeed, "bf16.enabled", "bf16.enabled", true},
    Place{Framework::kDeepSpeed, "bf16.bf16_master_weights_and_grads",
          "bf16.bf16_master_weights_and_grads", true},
    Place{Framework::kDeepSpeed, "bf16.check_grad_overflow", "bf16.check_grad_overflow", true},
    Place{Framework::kDeepSpeed, "bfloat16.enabled", "bfloat16.enabled", true},
    Place{Framework::kDeepSpeed, "amp.enabled", "amp.enabled", false},
    Place{Framework::kDeepSpeed, "zero_optimization.stage", "zero_optimization.stage", true},
    Place{Framework::kDeepSpeed, "communication_data_type", "communication_data_type", false},
    Place{Framework::kDeepSpeed, "data_types.grad_accum_dtype", "data_types.grad_accum_dtype",
          false},
    Place{Framework::kDeepSpeed, "gradient_accumulation_steps", "gradient_accumulation_steps",
          false},
    Place{Framework::kDeepSpeed, "scheduler.params.total_num_steps",
          "scheduler.params.total_num_steps", false},
    Place{Framework::kDeepSpeed, "train-iters", "train-iters", false},
    Place{Framework::kDeepSpeed, "train_iters", "train_iters", false},
    Place{Framework::kAccelerate, "mixed_precision", "mixed_precision", false},
    Place{Framework::kAccelerate, "use_cpu", "use_cpu", false},
    Place{Framework::kAccelerate, "distributed_type", "", true},
    Place{Framework::kAccelerate, "compute_environment", "", true},
    Place{Framework::kTransformers, "fp16", "fp16", false},
    Place{Framework::kTransformers, "bf16", "bf16", false},
    Place{Framework::kTransformers, "use_cpu", "use_cpu", false},
    Place{Framework::kTransformers, "no_cuda", "no_cuda", false},
    Place{Framework::kTransformers, "fp16_opt_level", "fp16_opt_level", true},
    Place{Framework::kTransformers, "max_steps", "max_steps", false},
    Place{Framework::kTransformers, "per_device_train_batch_size", "", true},
    Place{Framework::kTransformers, "num_train_epochs", "", true},
    Place{Framework::kTransformers, "lr_scheduler_type", "", true},
    Place{Framework::kLightning, "trainer.precision", "precision", true},
    Place{Framework::kLightning, "trainer.accelerator", "accelerator", false},
    Place{Framework::kLightning, "trainer.amp_level", "amp_level", false},
    Place{Framework::kLightning, "trainer.max_steps", "max_steps", false},
    Place{Framework::kFairseq, "common.fp16", "fp16", true},
    Place{Framework::kFairseq, "common.bf16", "bf16", true},
    Place{Framework::kFairseq, "common.memory_efficient_fp16", "memory-efficient-fp16", true},
    Place{Framework::kFairseq, "common.memory_efficient_bf16", "memory-efficient-bf16", true},
    Place{Framework::kFairseq, "common.fp16_init_scale", "fp16-init-scale", true},
    Place{Framework::kFairseq, "common.fp16_scale_window", "fp16-scale-window", true},
    Place{Framework::kFairseq, "common.min_loss_scale", "min-loss-scale", true},
    Place{Framework::kFairseq, "optimization.max_update", "max-update", false},
};

// `path` = root + "." + below; false if it does not end so.
bool RootOf(std::string_view path, std::string_view below, std::string_view* root) {
  if (!path.ends_with(below)) return false;
  *root = path.substr(0, path.size() - below.size());
  if (root->empty()) return true;
  if (!root->ends_with('.')) return false;
  root->remove_suffix(1);
  return true;
}

std::vector<Settings> Recognise(const std::vector<Entry>& entries) {
  struct Found {
    Settings settings;
    bool told = false;
  };
  std::map<std::pair<std::string, Framework>, Found> all;
  for (const Entry& entry : entries) {
    for (const Place& place : kPlaces) {
      std::string_view root;
      if (!RootOf(entry.path, place.path, &root)) continue;
      Found& found = all[{std::string(root), place.framework}];
      found.settings.framework = place.framework;
      found.told = found.told || place.tells;
      if (place.name.empty()) continue;
      const size_t before = found.settings.list.size();
      AddSetting(place.framework, place.name, entry.text, entry.quoted, entry.where, entry.value,
                 &found.settings);
      // Nothing after the colon is nothing, not a flag without a value.
      if (entry.text.empty()) found.settings.list.resize(before);
    }
  }
  std::vector<Settings> settings;
  for (auto& [where, found] : all) {
    if (found.told && !found.settings.list.empty()) settings.push_back(std::move(found.settings));
  }
  return settings;
}

}  // namespace

std::vector<Settings> ReadDataSettings(std::string_view text, bool json, std::string* note) {
  note->clear();
  std::string blanked;
  if (json) {
    blanked = BlankComments(text);
    text = blanked;
  }
  std::vector<Settings> settings;
  std::vector<Entry> entries;
  ViewBuffer buffer(text);
  std::istream in(&buffer);
  try {
    YAML::Parser parser(in);
    for (int document = 0; document < kMaxDocuments; ++document) {
      entries.clear();
      Flattener flattener(text, &entries);
      if (!parser.HandleNextDocument(flattener)) break;
      for (Settings& one : Recognise(entries)) settings.push_back(std::move(one));
    }
    return settings;
  } catch (const YAML::Exception& e) {
    *note = "line " + std::to_string(e.mark.line + 1) + ": " + e.msg;
  } catch (const TooMuch&) {
    // No configuration is like that; what was read of it counts all the same.
  } catch (const std::exception& e) {
    *note = e.what();
  }
  for (Settings& one : Recognise(entries)) settings.push_back(std::move(one));
  return settings;
}

}  // namespace mpnanny::static_check
