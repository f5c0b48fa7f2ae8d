#include "engines/runs/import/log_line.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>

#include "base/text.h"
#include "engines/runs/import/characters.h"
#include "engines/runs/import/epoch_count.h"
#include "engines/runs/import/llm_c_line.h"
#include "engines/runs/import/whose_line.h"

namespace mpnanny::imports {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string LastWord(const std::string& key) { return key.substr(key.rfind(' ') + 1); }

// "Total optimization steps = 2400", "num train steps: 900": how many there will be.
bool IsTotal(const std::string& key) {
  if (!key.ends_with("steps") && !key.ends_with("iterations") && !key.ends_with("updates")) {
    return false;
  }
  for (const char* word :
       {"total", "max", "num_train", "num train", "optimization", "accumulation", "warmup"}) {
    if (key.find(word) != std::string::npos) return true;
  }
  return false;
}

// "number of skipped iterations: 3 | number of nan iterations: 0" of a line that stands for
// several.
void AddIterations(const std::string& key, std::optional<double> count, Figures& figures) {
  if (!count || !(*count >= 0)) return;
  if (key.ends_with("skipped iterations")) figures.skipped_count = *count;
  if (key.ends_with("nan iterations") && *count > 0) figures.bad_part = kNan;
}

// "avg loss so far" of "avg loss so far is"; false if it does not end so.
bool DropVerb(std::string& key) {
  for (const std::string_view verb : {" is", " was"}) {
    if (!key.ends_with(verb)) continue;
    key.resize(key.size() - verb.size());
    return true;
  }
  return false;
}

// Every "key=value", "key: value" and "key value" of a line whose key stands for a field.
Figures Pairs(std::string_view line) {
  FigureCollector found;
  Figures figures;  // what only whole lines say
  std::optional<double> bare_norm, bare_total;
  for (size_t i = 0; i < line.size();) {
    if (!IsAlpha(line[i])) {
      ++i;
      continue;
    }
    // A key is one word, or words with single blanks ("lm loss", "learning rate"), up to '=', ':'
    // or the value.
    const size_t start = i;
    // A blank ends it where a digit, "nan" or "inf" follows ("loss nan").
    while (i < line.size()) {
      if (line[i] == ' ') {
        size_t next = i + 1;
        const bool word = next < line.size() && IsAlpha(line[next]);
        if (!word || NumberAt(line, next)) break;
      } else if (!IsWordChar(line[i])) {
        break;
      }
      ++i;
    }
    std::string key = LowerCase(line.substr(start, i - start));
    size_t value_at = i;
    while (value_at < line.size() && (line[value_at] == ' ' || line[value_at] == '"' ||
                                      line[value_at] == '\'' || line[value_at] == '\t')) {
      ++value_at;
    }
    const bool sign = value_at < line.size() && (line[value_at] == '=' || line[value_at] == ':');
    // "avg loss so far is 0.11"; of what is not finite the sentence has to be understood whole.
    const bool verb = !sign && value_at < line.size() && IsDigit(line[value_at]) && DropVerb(key);
    const bool separator = sign || verb;
    if (sign) {
      ++value_at;
      while (value_at < line.size() &&
             (line[value_at] == ' ' || line[value_at] == '"' || line[value_at] == '\'' ||
              line[value_at] == '\t' || line[value_at] == '[')) {
        ++value_at;
      }
    }
    if (value_at >= line.size()) break;
    if (separator || value_at > i) {
      // Without a separator only the last word is the key ("at step 12").
      Field field = FieldOf(separator ? key : LastWord(key));
      if (field == Field::kNone && !IsAside(key)) field = FieldOf(LastWord(key));
      if (field == Field::kStep && IsTotal(key)) field = Field::kNone;
      if (field == Field::kLoss && IsAside(key)) field = FieldOf(key);  // "val loss 2.1"
      if (key.ends_with("skipped iterations") || key.ends_with("nan iterations")) {
        size_t end = value_at;
        AddIterations(key, NumberAt(line, end), figures);
        i = std::max(end, i);
        continue;
      }
      size_t end = value_at;
      // "step 12 | loss: 6.5 | norm: 1.25": whose norm it is the line tells.
      if (field == Field::kNone && (LastWord(key) == "norm" || key == "total")) {
        size_t behind = value_at;
        const auto value = NumberAt(line, behind);
        if (value) (key == "total" ? bare_total : bare_norm) = value;
      }
      if (field != Field::kNone) {
        if (auto value = field == Field::kStep ? CountAt(line, end) : NumberAt(line, end)) {
          // "Steps:  67%|": how far a bar has come is no step.
          const bool share = end < line.size() && line[end] == '%';
          if (field == Field::kStep) {
            const double unit = UnitAt(line, end);
            *value *= unit;
            figures.step_unit = std::max(figures.step_unit, unit);
            if (!figures.step_total) figures.step_total = TotalAt(line, end);
          }
          if (!share) found.Add(field, key, *value);
          i = end;
          continue;
        }
      }
    }
    i = std::max(i, start + 1);
  }
  Figures taken = found.Take();
  if (!taken.grad_norm && taken.loss && taken.step && bare_norm) {
    taken.grad_norm = bare_norm;
    taken.norm_key = "norm";
  }
  // "[epoch: 3/200, iter: 25/448] total: 1.935": beside a count of steps a total that is no count
  // is the loss's.
  if (!taken.loss && taken.step && figures.step_total && bare_total &&
      std::floor(*bare_total) != *bare_total) {
    taken.loss = bare_total;
    taken.loss_key = "total";
  }
  taken.step_unit = figures.step_unit;
  taken.step_total = figures.step_total;
  taken.skipped_count = figures.skipped_count;
  if (!taken.bad_part) taken.bad_part = figures.bad_part;
  return taken;
}

// True if the word before `at` makes the phrase a condition or a plan ("stop if loss is nan").
bool IsConditional(const std::string& lower, size_t at) {
  std::string before = lower.substr(0, at);
  while (!before.empty() && before.back() == ' ') before.pop_back();
  std::string word = before.substr(before.find_last_of(" \t(\"'") + 1);
  for (const char* article : {"the", "a", "any", "training", "train"}) {
    if (word != article) continue;
    before.resize(before.size() - word.size());
    while (!before.empty() && before.back() == ' ') before.pop_back();
    word = before.substr(before.find_last_of(" \t(\"'") + 1);
    break;
  }
  for (const char* condition : {"if", "when", "whenever", "unless", "until", "in", "for", "on",
                                "skip", "ignore", "no", "check", "whether"}) {
    if (word == condition) return true;
  }
  return false;
}

// A loop that stops says so in words: "Loss is nan, stopping training".
std::optional<double> LossInWords(std::string_view line, const std::string& lower) {
  for (const char* phrase : {"loss is ", "loss was ", "loss became "}) {
    const size_t at = lower.find(phrase);
    if (at == std::string::npos || IsConditional(lower, at)) continue;
    size_t end = at + std::string_view(phrase).size();
    if (const auto value = NumberAt(line, end); value && !std::isfinite(*value)) return value;
  }
  for (const char* phrase : {"non-finite loss", "nonfinite loss"}) {
    const size_t at = lower.find(phrase);
    if (at == std::string::npos || IsConditional(lower, at)) continue;
    const size_t end = at + std::string_view(phrase).size();
    if (end >= lower.size() || !IsWordChar(lower[end]) || lower[end] == '.') return kNan;
  }
  return std::nullopt;
}

// "Attempted loss scale: 65536, reducing to 32768" (DeepSpeed): the scale of the step that it is
// about.
std::optional<double> AttemptedScale(std::string_view line, const std::string& lower) {
  constexpr std::string_view kPhrase = "attempted loss scale:";
  const size_t at = lower.find(kPhrase);
  if (at == std::string::npos) return std::nullopt;
  size_t end = at + kPhrase.size();
  while (end < line.size() && line[end] == ' ') ++end;
  return end < line.size() ? NumberAt(line, end) : std::nullopt;
}

// The scale that a scaler's sentence says it goes on with.
std::optional<double> ScaleInWords(std::string_view line, const std::string& lower) {
  if (const size_t rise = lower.find("increasing dynamic loss scale from");
      rise != std::string::npos) {
    size_t end = lower.find(" to ", rise);
    if (end != std::string::npos) return NumberAt(line, end += 4);
  }
  for (const char* phrase : {"reducing loss scale to", "setting loss scale to", "reducing to"}) {
    const size_t at = lower.find(phrase);
    if (at == std::string::npos) continue;
    size_t end = at + std::string_view(phrase).size();
    while (end < line.size() && (line[end] == ' ' || line[end] == ':')) ++end;
    if (end >= line.size()) continue;
    const auto value = NumberAt(line, end);
    if (value &&
        (std::string_view(phrase) != "reducing to" || lower.find("scale") != std::string::npos)) {
      return value;
    }
  }
  return std::nullopt;
}

bool SaysSkipping(const std::string& lower) {
  for (const char* phrase : {"skipping step", "skipped step", "gradient overflow detected"}) {
    if (lower.find(phrase) != std::string::npos) return true;
  }
  return false;
}

// A bar that shows no figure counts the training's steps if nothing else is said of it: data is
// read and models are loaded under bars as well.
bool CountsSteps(const Bar& bar) {
  const std::string lower = LowerCase(bar.before);
  const auto has = [&](const char* word) { return lower.find(word) != std::string::npos; };
  return bar.before.empty() || has("train") || has("step") || has("iter");
}

// Where in the line another record begins that a logger printed behind a bar of progress:
// "Validation: 100%|##| 8/8 [00:01<00:00] 12:04:11 INFO epoch 3: loss 0.2". 0: none does. What a
// bar shows itself stands in its brackets.
size_t RecordBehind(const Bar& bar, const std::string& lower) {
  const size_t close = lower.find(']', bar.end);
  const size_t loss = lower.find("loss", bar.end);
  return close != std::string::npos && loss != std::string::npos && loss > close ? close + 1 : 0;
}

// "Unexpected result nan on rank 3 at iteration #11 invocation #2 (message='found NaN in local
// forward loss calculation')", as Megatron's rerun state machine writes it. Its iterations begin at
// 0 with the process; those of Megatron's own lines at 1.
std::optional<Figures> RejectedResult(std::string_view line, const std::string& lower) {
  constexpr std::string_view kSays = "unexpected result ";
  const size_t says = lower.find(kSays);
  const size_t message = lower.find("(message='");
  if (says == std::string::npos || message == std::string::npos) return std::nullopt;
  Figures figures;
  size_t at = says + kSays.size();
  const auto result = NumberAt(line, at);
  if (!result || std::isfinite(*result)) return figures;  // one rank's, and no figure of the step
  (lower.find("grad", message) != std::string::npos ? figures.grad_norm : figures.loss) = result;
  constexpr std::string_view kIteration = "iteration ";
  if (const size_t iteration = lower.find(kIteration); iteration != std::string::npos) {
    at = iteration + kIteration.size();
    if (at < line.size() && line[at] == '#') ++at;
    if (const auto count = NumberAt(line, at)) figures.step = *count + 1;
  }
  figures.of_process = true;
  return figures;
}

}  // namespace

std::optional<Bar> FindBar(std::string_view line) {
  // "Train epoch [1/2]:  25%|#   | 3/12 [00:10": the bracket behind a count.
  for (size_t bracket = line.find(" ["); bracket != std::string_view::npos;
       bracket = line.find(" [", bracket + 1)) {
    size_t start = bracket;
    if (start > 0 && line[start - 1] == '?') --start;  // of a total that is not known
    while (start > 0 && (IsDigit(line[start - 1]) || line[start - 1] == '/')) --start;
    const std::string_view count = line.substr(start, bracket - start);
    const size_t slash = count.find('/');
    if (slash == 0 || slash == std::string_view::npos) continue;
    // A notebook's bar has the share alone.
    size_t before = line.substr(0, start).find_first_of("%|");
    const auto done = NumberOf(count.substr(0, slash));
    if (before == std::string_view::npos || !done) continue;
    while (before > 0 && (IsDigit(line[before - 1]) || line[before - 1] == '.')) --before;
    while (before > 0 && (line[before - 1] == ' ' || line[before - 1] == ':')) --before;
    return Bar{line.substr(0, before), *done, NumberOf(count.substr(slash + 1)), bracket};
  }
  return std::nullopt;
}

void FigureCollector::Add(Field field, std::string_view key, double value) {
  if (field == Field::kNone) return;
  if (field == Field::kLoss) players_.Add(key);
  const int rank = RankOf(field, key);
  if (field == Field::kLoss && !std::isfinite(value) && !bad_part_) bad_part_ = value;
  Named& named = found_[static_cast<size_t>(field)];
  if (named.known && rank <= named.rank) return;
  named = {true, rank, value, std::string(key)};
  if (field == Field::kEvalLoss) eval_name_ = key;
}

Figures FigureCollector::Take() const {
  const auto of = [&](Field field) {
    const Named& named = found_[static_cast<size_t>(field)];
    return named.known ? std::optional(named.value) : std::nullopt;
  };
  Figures figures;
  figures.epoch = of(Field::kEpoch);
  figures.step = of(Field::kStep);
  figures.loss = of(Field::kLoss);
  figures.grad_norm = of(Field::kGradNorm);
  figures.scale = of(Field::kScale);
  figures.lr = of(Field::kLr);
  figures.eval_loss = of(Field::kEvalLoss);
  figures.eval_name = eval_name_;
  const auto key = [&](Field field) { return found_[static_cast<size_t>(field)].key; };
  figures.step_key = key(Field::kStep);
  figures.loss_key = key(Field::kLoss);
  figures.norm_key = key(Field::kGradNorm);
  figures.scale_key = key(Field::kScale);
  figures.lr_key = key(Field::kLr);
  figures.players = players_;
  figures.loss_rank = found_[static_cast<size_t>(Field::kLoss)].rank;
  figures.norm_rank = found_[static_cast<size_t>(Field::kGradNorm)].rank;
  if (figures.loss && std::isfinite(*figures.loss)) figures.bad_part = bad_part_;
  // "steps: 100000" alone is a setting, beside a loss it is where the loss stands.
  if (found_[static_cast<size_t>(Field::kStep)].rank == 0 && !figures.loss) figures.step.reset();
  return figures;
}

Figures ReadFigures(std::string_view line) {
  if (IsOfSummary(line)) return {};
  if (auto figures = OfLlmC(line)) return *std::move(figures);
  const std::string lower = LowerCase(line);
  // The trainer's closing line gives the mean loss of the whole training, which is no step's.
  if (lower.find("train_runtime") != std::string::npos) return {};
  if (auto rejected = RejectedResult(line, lower)) return *rejected;
  Figures figures = Pairs(line);
  if (!figures.loss) figures.loss = LossInWords(line, lower);
  const auto scale = ScaleInWords(line, lower);
  const auto attempted = AttemptedScale(line, lower);
  if (attempted || scale) {
    figures.scale = attempted ? attempted : scale;
    figures.scale_key.clear();
    if (attempted) figures.scale_after = scale;
  }
  figures.skipping = SaysSkipping(lower);
  const auto bar = FindBar(line);
  const size_t record = bar && figures.loss ? RecordBehind(*bar, lower) : 0;
  if (figures.loss && IsEvaluation(lower.substr(record))) {
    figures.eval_loss = figures.loss;
    figures.eval_name = "loss";
    figures.loss.reset();
    figures.bad_part.reset();
  }
  const bool shows = record == 0 && (figures.loss || figures.skipping);
  const bool counts = bar && (CountsSteps(*bar) || shows);
  figures.of_bar = bar && (counts || record == 0);
  if (!figures.step && counts) {
    figures.step = bar->done;
    figures.step_total = bar->total;
    figures.behind_bar =
        record > 0 || (figures.loss && line.find("{'", bar->end) != std::string_view::npos);
  }
  if (const auto done = figures.loss && !figures.step ? CountOfBatches(line) : std::nullopt) {
    figures.step = done;
    figures.of_bar = true;
  }
  if (figures.loss && !figures.step) ReadEpochCount(line, lower, figures);
  return figures;
}

bool IsOfMonitor(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line.starts_with("mpnanny: ");
}

std::string RerunSays(std::string_view line) {
  if (line.find("erun: unexpected result") == std::string_view::npos) return "";
  const std::string lower = LowerCase(line);
  const auto has = [&](const char* words) { return lower.find(words) != std::string::npos; };
  if (has("first rerun: unexpected result is not reproducible")) {
    return "Megatron computed that step a second time on the same GPU and got another result: a "
           "GPU that computes wrongly at times explains that, precision does not.";
  }
  if (has("first rerun: unexpected result is reproducible")) {
    return "Megatron computed that step a second time on the same GPU and got the same result: it "
           "is no passing error of the GPU.";
  }
  if (has("second rerun: unexpected result is not reproducible")) {
    return "On another GPU Megatron got another result: the first GPU computes wrongly.";
  }
  if (has("second rerun: unexpected result is reproducible")) {
    return "On another GPU Megatron got the same result: the data, the model or the program makes "
           "it, not a GPU.";
  }
  return "";
}

}  // namespace mpnanny::imports
