#include "engines/mismatch/arrays.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>

#include "base/json.h"
#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/tensors/elements.h"
#include "engines/tensors/tensor_file.h"
#include "numerics/elements.h"

namespace mpnanny::mismatch {
namespace {

constexpr uint64_t kMostTextBytes = uint64_t{1} << 30;

using Names = std::span<const std::string_view>;
// The names that programs use; the first that is there is taken.
constexpr std::array<std::string_view, 8> kTrainerNames = {
    "trainer_logprobs", "trainer",  "old_log_probs", "old_logprobs",
    "log_probs",        "logprobs", "logp",          "per_token_logps"};
constexpr std::array<std::string_view, 9> kRolloutNames = {
    "rollout_logprobs",  "rollout",        "rollout_log_probs",
    "sampling_logprobs", "sampling_logps", "log_probs",
    "logprobs",          "logp",           "sampling_per_token_logps"};
constexpr std::array<std::string_view, 5> kMaskNames = {"mask", "response_mask", "completion_mask",
                                                        "loss_mask", "action_mask"};
constexpr std::array<std::string_view, 2> kPositionNames = {"positions", "position_ids"};
constexpr std::array<std::string_view, 3> kDocumentNames = {"documents", "document_ids",
                                                            "segment_ids"};
constexpr std::array<std::string_view, 4> kTokenNames = {"tokens", "token_ids", "responses",
                                                         "completion_ids"};

struct Array {
  int64_t steps = 1, rows = 0, length = 0;
  std::vector<double> values;
  bool empty() const { return values.empty(); }
};

// A file of arrays by name, in either form.
class Source {
 public:
  static Result<std::shared_ptr<Source>> Open(const std::string& path, const AllowedRoots& roots) {
    MPN_TRY_ASSIGN(auto resolved, roots.Resolve(path));
    auto source = std::make_shared<Source>();
    source->path_ = path;
    MPN_TRY_ASSIGN(const bool lines, IsText(resolved));
    if (lines) {
      MPN_TRY_ASSIGN(source->sequences_, ReadLines(resolved, path));
      return source;
    }
    auto file = tensor_files::TensorFile::Open(
        resolved, [&](const std::string& shard) { return roots.Resolve(shard); });
    if (!file) return file.error();
    source->file_ = std::move(*file);
    return source;
  }

  // The array of one of `names`; or of the file's only array, where it has one and `sole`.
  Result<std::optional<Array>> Find(Names names, bool sole) const {
    if (!file_) return FindInLines(names);
    const auto& entries = file_->entries();
    if (sole && entries.size() == 1) return Read(entries.front());
    for (const std::string_view name : names) {
      for (const tensor_files::Entry& entry : entries) {
        if (entry.key == name) return Read(entry);
      }
    }
    return std::optional<Array>();
  }

  std::string Known() const {
    std::vector<std::string> keys;
    if (file_) {
      for (const auto& entry : file_->entries()) keys.push_back(EscapeControl(entry.key, 60));
    } else if (!sequences_.empty()) {
      for (const auto& [key, value] : sequences_.front().items())
        keys.push_back(EscapeControl(key, 60));
    }
    keys.resize(std::min<size_t>(keys.size(), 12));
    return Join(keys, ", ");
  }
  const std::string& path() const { return path_; }

 private:
  static Result<bool> IsText(const std::string& resolved) {
    MPN_TRY_ASSIGN(auto file, ResolvedFile::Open(resolved));
    char head[2] = {};
    const size_t got = file.Read(head, sizeof head);
    return got == 2 && head[0] == '{' && (head[1] == '"' || head[1] == '\n' || head[1] == ' ');
  }

  static Result<std::vector<Json>> ReadLines(const std::string& resolved, const std::string& path) {
    MPN_TRY_ASSIGN(const auto text, ReadResolvedFile(resolved, kMostTextBytes));
    std::vector<Json> lines;
    size_t number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line(text.data() + at, end - at);
      at = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      auto parsed = ParseJson(line);
      if (!parsed || !parsed->is_object()) {
        return InvalidInput(path + ", line " + std::to_string(number) + ": no JSON object" +
                                (parsed ? "." : ": " + parsed.error().message),
                            "Write one object a sequence: {\"logprobs\":[…],\"mask\":[…]}.");
      }
      lines.push_back(std::move(*parsed));
    }
    return lines;
  }

  Result<std::optional<Array>> FindInLines(Names names) const {
    for (const std::string_view name : names) {
      if (sequences_.empty() || !sequences_.front().contains(name)) continue;
      Array array;
      array.rows = static_cast<int64_t>(sequences_.size());
      for (const Json& sequence : sequences_) {
        const auto row = sequence.find(name);
        if (row == sequence.end() || !row->is_array())
          return InvalidInput(path_ + ": a sequence has no list '" + std::string(name) + "'.");
        array.length = std::max(array.length, static_cast<int64_t>(row->size()));
      }
      if (array.rows * array.length > kMostNumbers) return TooLarge();
      // What is shorter than the longest is NaN behind its end, which counts for nothing.
      array.values.assign(static_cast<size_t>(array.rows * array.length), kUnknownFigure);
      int64_t at = 0;
      for (const Json& sequence : sequences_) {
        int64_t place = at;
        for (const Json& value : sequence[name]) {
          array.values[static_cast<size_t>(place++)] = value.is_number() ? value.get<double>()
                                                       : value.is_boolean()
                                                           ? static_cast<double>(value.get<bool>())
                                                           : kUnknownFigure;
        }
        at += array.length;
      }
      return std::optional(std::move(array));
    }
    return std::optional<Array>();
  }

  Error TooLarge() const {
    return InvalidInput(path_ + ": more than 64 million numbers in one array.",
                        "Compare fewer sequences at once.");
  }

  Result<std::optional<Array>> Read(const tensor_files::Entry& entry) const {
    Array array;
    const auto& shape = entry.shape;
    if (shape.size() > 3) {
      return InvalidInput(path_ + ": '" + EscapeControl(entry.key, 60) + "' has " +
                              std::to_string(shape.size()) + " dimensions.",
                          "Log-probabilities are [tokens], [batch, length] or [steps, batch, "
                          "length].");
    }
    array.length = shape.empty() ? 1 : shape.back();
    array.rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    array.steps = shape.size() < 3 ? 1 : shape[0];
    MPN_TRY_ASSIGN(const auto elements, tensor_files::Elements::Read(entry));
    if (elements.view().numel() > kMostNumbers) return TooLarge();
    array.values.reserve(static_cast<size_t>(elements.view().numel()));
    ForEachElements(elements.view(), [&](const auto* values, int64_t count) {
      array.values.insert(array.values.end(), values, values + count);
    });
    return std::optional(std::move(array));
  }

  std::string path_;
  std::optional<tensor_files::TensorFile> file_;
  std::vector<Json> sequences_;
};

// "file.npz#key" -> the file, and the key alone as its names.
struct Asked {
  std::string path;
  std::optional<std::string> key;
};

Asked AskedOf(const std::string& words) {
  const size_t mark = words.rfind('#');
  if (mark == std::string::npos) return {words, std::nullopt};
  return {words.substr(0, mark), words.substr(mark + 1)};
}

Result<Array> FindSide(const Source& source, const Asked& asked, Names names, const char* whose) {
  std::vector<std::string_view> wanted(names.begin(), names.end());
  if (asked.key) wanted = {*asked.key};
  MPN_TRY_ASSIGN(auto found, source.Find(wanted, !asked.key));
  if (found) return std::move(*found);
  return NotFound(source.path() + ": no log-probabilities of the " + whose +
                      "; the file has: " + source.Known() + ".",
                  "Name the array: file.npz#key.");
}

bool Fits(const Array& a, const Array& b) {
  return a.steps == b.steps && a.rows == b.rows && a.length == b.length;
}

std::string ShapeText(const Array& a) {
  return "[" + (a.steps > 1 ? std::to_string(a.steps) + ", " : "") + std::to_string(a.rows) + ", " +
         std::to_string(a.length) + "]";
}

// Of the first source that has it.
Result<Array> FindOptional(std::span<const std::shared_ptr<Source>> sources, Names names,
                           const Array& like, Calls& into) {
  for (const auto& source : sources) {
    MPN_TRY_ASSIGN(auto found, source->Find(names, false));
    if (!found) continue;
    if (Fits(*found, like)) return std::move(*found);
    into.notes.push_back(source->path() + ": '" + std::string(names.front()) + "' is " +
                         ShapeText(*found) + " and the log-probabilities are " + ShapeText(like) +
                         ": it is left out.");
  }
  return Array();
}

std::span<const double> StepOf(const Array& array, int64_t step) {
  if (array.empty()) return {};
  const auto size = static_cast<size_t>(array.rows * array.length);
  return std::span(array.values).subspan(static_cast<size_t>(step) * size, size);
}

}  // namespace

Result<Calls> ReadArrays(const Files& files, const AllowedRoots& roots, const CancelToken& cancel) {
  const Asked asked_a = AskedOf(files.a), asked_b = AskedOf(files.b.empty() ? files.a : files.b);
  MPN_TRY_ASSIGN(const auto a, Source::Open(asked_a.path, roots));
  auto b = a;
  if (!files.b.empty()) {
    MPN_TRY_ASSIGN(b, Source::Open(asked_b.path, roots));
  }
  const Asked in_same{asked_b.path, files.b.empty() ? std::nullopt : asked_b.key};
  MPN_TRY_ASSIGN(const auto trainer, FindSide(*a, asked_a, kTrainerNames, "trainer"));
  MPN_TRY_ASSIGN(const auto rollout, FindSide(*b, in_same, kRolloutNames, "rollout"));
  if (!Fits(trainer, rollout)) {
    return InvalidInput("The trainer's log-probabilities are " + ShapeText(trainer) +
                            " and the rollout's " + ShapeText(rollout) + ".",
                        "Give both for the same tokens, a token's at its own place.");
  }
  Calls found;
  const std::shared_ptr<Source> both[] = {a, b};
  Array mask;
  if (files.mask.empty()) {
    MPN_TRY_ASSIGN(mask, FindOptional(both, kMaskNames, trainer, found));
  } else {
    const Asked asked = AskedOf(files.mask);
    MPN_TRY_ASSIGN(const auto source, Source::Open(asked.path, roots));
    MPN_TRY_ASSIGN(mask, FindSide(*source, asked, kMaskNames, "mask"));
    if (!Fits(mask, trainer)) {
      return InvalidInput("The mask is " + ShapeText(mask) + " and the log-probabilities are " +
                          ShapeText(trainer) + ".");
    }
  }
  MPN_TRY_ASSIGN(const auto position, FindOptional(both, kPositionNames, trainer, found));
  MPN_TRY_ASSIGN(const auto document, FindOptional(both, kDocumentNames, trainer, found));
  MPN_TRY_ASSIGN(const auto token, FindOptional(both, kTokenNames, trainer, found));
  if (mask.empty()) {
    found.notes.push_back("No mask: every token is taken as sampled, also those of prompts.");
    // Behind the end of a short sequence neither side has a number.
    mask = trainer;
    for (size_t i = 0; i < mask.values.size(); ++i)
      mask.values[i] = !(std::isnan(trainer.values[i]) && std::isnan(rollout.values[i]));
  }
  for (double& value : mask.values) value = std::isnan(value) ? 0 : value;
  for (int64_t step = 0; step < trainer.steps; ++step) {
    if (cancel.stop_requested()) return Cancelled();
    LogprobPair pair;
    pair.rows = trainer.rows;
    pair.length = trainer.length;
    pair.trainer = StepOf(trainer, step);
    pair.rollout = StepOf(rollout, step);
    pair.mask = StepOf(mask, step);
    pair.position = StepOf(position, step);
    pair.document = StepOf(document, step);
    pair.token = StepOf(token, step);
    Call call;
    call.step = step;
    call.figures = CompareLogprobs(pair);
    found.calls.push_back(std::move(call));
  }
  return found;
}

}  // namespace mpnanny::mismatch
