#include "engines/diagnosis/summary/markdown.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/text.h"
#include "engines/diagnosis/summary/shadow_block.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/show.h"
#include "engines/runs/sparkline.h"

namespace mpnanny::summary {
namespace {

constexpr size_t kTableRows = 12;
constexpr size_t kSettings = 24;

std::string Value(const Json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return MarkdownText(value.get<std::string>());
  if (value.is_number()) return runs::Number(value.get<double>());
  return MarkdownCode(DumpJson(value));
}

std::string Row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

std::string Head(const std::vector<std::string>& cells) {
  return Row(cells) + Row(std::vector<std::string>(cells.size(), "---"));
}

std::string Figures(const Json& s) {
  std::string text = Head({"figure", "first", "last", "least", "greatest"});
  const Json &loss = s["loss"], &scale = s["loss_scale"], &norm = s["grad_norm"];
  text += Row({"loss", Value(loss["first"]), Value(loss["last"]), Value(loss["min"]), "–"});
  if (!scale["last"].is_null()) {
    text += Row({"loss scale", Value(scale["first"]), Value(scale["last"]), Value(scale["min"]),
                 Value(scale["rises"]) + " rises, " + Value(scale["falls"]) + " falls"});
  }
  text += Row({"gradient norm", "–", Value(norm["last"]), "–", Value(norm["max"])});
  text += Row({"learning rate", "–", Value(s["lr"]), "–", "–"});
  text += "\nSteps: " + Value(s["steps"]) + " (" + Value(s["first_step"]) + " to " +
          Value(s["last_step"]) + ", " + Value(s["sampled_steps"]) +
          " sampled); skipped: " + Value(s["skipped_steps"]) +
          "; with a loss that is not finite: " + Value(s["nonfinite_losses"]) +
          "; seconds a step: " + Value(s["step_seconds"]) + ".";
  if (!s["peak_memory"].is_null()) {
    text += " Peak device memory: " +
            runs::Number(std::round(s["peak_memory"].get<double>() / (1 << 20))) + " MiB.";
  }
  return text + "\n";
}

std::string Course(const Json& course) {
  const std::vector<Json> steps = course["step"], loss = course["loss"],
                          greatest = course["loss_max"], scale = course["loss_scale"];
  if (steps.empty()) return "";
  const bool scaled =
      std::any_of(scale.begin(), scale.end(), [](const Json& v) { return !v.is_null(); });
  std::string text = "\n```text\nloss       " + CourseLine(course["loss"]) + "\n";
  if (scaled) text += "loss scale " + CourseLine(course["loss_scale"]) + "\n";
  text += "```\n\n";
  text +=
      Head(scaled ? std::vector<std::string>{"from step", "mean loss", "greatest", "least scale"}
                  : std::vector<std::string>{"from step", "mean loss", "greatest"});
  const size_t stride = (steps.size() + kTableRows - 1) / kTableRows;
  for (size_t i = 0; i < steps.size(); i += stride) {
    std::vector<std::string> cells = {Value(steps[i]), Value(loss[i]), Value(greatest[i])};
    if (scaled) cells.push_back(Value(scale[i]));
    text += Row(cells);
  }
  return text;
}

std::string Alerts(const Json& s) {
  if (s["alerts"].empty()) return "None.\n";
  std::string text = Head({"severity", "type", "alerts", "first step", "layers"});
  for (const Json& alert : s["alerts"]) {
    std::string layers;
    for (const Json& layer : alert["layers"]) {
      layers += (layers.empty() ? "" : ", ") + MarkdownCode(layer.get<std::string>());
    }
    const auto more =
        alert["layer_count"].get<int64_t>() - static_cast<int64_t>(alert["layers"].size());
    if (more > 0) layers += " and " + std::to_string(more) + " more";
    text += Row({Value(alert["severity"]), MarkdownCode(alert["type"].get<std::string>()),
                 Value(alert["count"]), Value(alert["first_step"]), layers});
  }
  if (const auto left = s["alerts_left_out"].get<int64_t>(); left > 0) {
    text += "\n" + std::to_string(left) + " more types.\n";
  }
  return text;
}

std::string Environment(const Json& environment) {
  if (environment.empty()) return "Not recorded.\n";
  std::string text = Head({"setting", "value"});
  size_t rows = 0;
  for (const auto& [key, value] : environment.items()) {
    if (++rows > kSettings) break;
    text += Row({MarkdownCode(key),
                 MarkdownCode(value.is_string() ? value.get<std::string>() : DumpJson(value))});
  }
  return text;
}

}  // namespace

std::string MarkdownText(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]<>|~#&$!";
  std::string safe;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      safe += ' ';
      continue;
    }
    if (kMarkup.find(c) != std::string_view::npos) safe += '\\';
    safe += c;
  }
  return safe;
}

std::string MarkdownCode(std::string_view text) {
  size_t longest = 0, run = 0;
  std::string inner;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|') inner += '\\';  // ends a cell even within code
    inner += c == '\n' || c == '\r' ? ' ' : c;
  }
  const std::string fence(longest + 1, '`');
  // A space on both sides is taken away again, and keeps a backtick at the edge from the fence.
  const bool pad = inner.empty() || inner.front() == '`' || inner.back() == '`';
  return fence + (pad ? " " : "") + inner + (pad ? " " : "") + fence;
}

std::string CourseLine(const Json& values) {
  std::vector<runs::SparkCell> cells;
  for (const Json& value : values) {
    cells.push_back(value.is_null()     ? runs::SparkCell()
                    : value.is_number() ? value.get<double>()
                                        : std::nan(""));  // a number that is not finite is a string
  }
  return runs::Sparkline(cells);
}

std::string SummaryMarkdown(const Json& s) {
  const bool unstable = s["stable"] == false;
  std::string text = "# Run " + MarkdownCode(s["name"].get<std::string>()) + "\n\n";
  text +=
      std::string("**") +
      (s["stable"].is_null() ? "Nothing recorded"
                             : VerdictWords(FindNamed<Health>(s["verdict"].get<std::string>()),
                                            FindNamed<runs::Status>(s["status"].get<std::string>())
                                                .value_or(runs::Status::kKilled))) +
      "**, " + Value(s["status"]) + ". " + MarkdownCode(s["run"].get<std::string>());
  if (!s["precision"].is_null()) text += ", judged by " + Value(s["precision"]);
  if (s["started_at"] != "") text += ", started " + Value(s["started_at"]);
  text += ".\n\n";
  for (const Json& reason : s["reasons"]) text += "- " + Value(reason) + "\n";
  text += "\n## How it went\n\n" + Figures(s) + Course(s["course"]);
  text += ShadowMarkdown(s["shadow"]);
  text += "\n## Alerts\n\n" + Alerts(s);
  text += "\n## What to do next\n\n";
  const std::string handle =
      MarkdownCode("mpnanny diagnose " + ShellQuote(s["run"].get<std::string>()));
  if (s["stable"].is_null()) {
    text += "- See that the training reaches its first step: nothing was recorded.\n";
  } else if (unstable) {
    text += "- Ask for the cause: " + handle + ".\n";
  } else {
    text += "- Compare it with its FP32 reference: `mpnanny compare REFERENCE RUN`.\n";
  }
  if (!s["alerts"].empty()) {
    const std::string type = s["alerts"][0]["type"].get<std::string>();
    text +=
        "- Read what the first alert means: " + MarkdownCode("mpnanny knowledge search " + type) +
        ".\n";
  }
  if (!s["notes"].empty()) {
    text += "\n## What limits the record\n\n";
    for (const Json& note : s["notes"]) text += "- " + Value(note) + "\n";
  }
  return text + "\n## Environment\n\n" + Environment(s["environment"]);
}

}  // namespace mpnanny::summary
