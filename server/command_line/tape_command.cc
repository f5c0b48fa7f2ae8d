// `mpnanny tape FILE…`: what a shadow step wrote down, judged again. A command and no tool: it is
// for people who want to know why a finding was made or not.
#include <memory>
#include <ostream>

#include "base/files.h"
#include "base/text.h"
#include "engines/judgement/replay.h"
#include "engines/judgement/tape_page.h"
#include "engines/judgement/tape_text.h"
#include "server/command_line/commands.h"

namespace mpnanny {
namespace {

using judgement::Finding;
using judgement::Replay;
using judgement::Tape;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

struct TapeOptions {
  std::vector<std::string> files;
  bool rows = false;
  std::string format = "text";
};

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json PlaceJson(const judgement::Place& place) {
  return {{"operator", place.op},
          {"forward", TextOrNull(place.forward)},
          {"source", TextOrNull(place.Source())},
          {"phase", NameOf(place.phase)},
          {"module", place.module ? Json(*place.module) : Json()}};
}

Json CureJson(const judgement::Cure& cure) {
  return {{"lines", cure.lines},
          {"operators", cure.operators},
          {"what", cure.what},
          {"error_before", JsonNumber(cure.error_before)},
          {"error_after", JsonNumber(cure.error_after)}};
}

Json FindingJson(int number, const Replay& replay) {
  const Finding& finding = replay.findings()[number];
  Json reach = Json::array();
  for (const judgement::Reach& each : finding.reach) {
    reach.push_back({{"what", NameOf(each.what)},
                     {"name", TextOrNull(each.name)},
                     {"error", JsonNumber(each.error)}});
  }
  return {{"finding", number},
          {"kind", NameOf(finding.kind)},
          {"severity", NameOf(finding.severity)},
          {"place", PlaceJson(replay.judge().calls().PlaceOf(finding.place))},
          {"call", finding.number},
          {"dtype", finding.dtype},
          {"shape", finding.shape},
          {"share", JsonNumber(finding.share)},
          {"magnitude", JsonNumber(finding.magnitude)},
          {"error_in", JsonNumber(finding.error_in)},
          {"error_out", JsonNumber(finding.error_out)},
          {"count", finding.count},
          {"parent", finding.parent == judgement::kNone ? Json() : Json(finding.parent)},
          {"precision", NameOf(finding.precision)},
          {"cure", finding.cure ? CureJson(*finding.cure) : Json()},
          {"why_no_cure", TextOrNull(finding.why_no_cure)},
          {"reach", reach}};
}

Json TapeJson(const std::string& file, const Tape& tape, const Replay& replay, bool with_rows) {
  Json findings = Json::array();
  for (const int each : replay.counting()) findings.push_back(FindingJson(each, replay));
  Json json = {{"file", file},
               {"step", tape.step},
               {"first_loss", JsonNumber(tape.first_loss)},
               {"rows", tape.rows.size()},
               {"unanswered", replay.unanswered()},
               {"findings", findings}};
  if (!with_rows) return json;
  json["results"] = Json::array();
  for (const Replay::Judged& each : replay.judged()) {
    json["results"].push_back({{"row", each.row},
                               {"text", judgement::TextOf(tape.rows[each.row])},
                               {"verdict", NameOf(each.verdict.why)},
                               {"why", TextOrNull(judgement::WhyText(each))},
                               {"error", JsonNumber(each.error)}});
  }
  return json;
}

void PrintSafe(const std::string& text, std::ostream& out) {
  constexpr size_t kAll = static_cast<size_t>(-1);
  out << EscapeControl(text, kAll, true);
}

Result<void> ShowTapes(const CommandLineContext& context, const TapeOptions& options) {
  if (options.format != "text" && options.format != "json") {
    return InvalidInput("--format must be text or json, not '" + EscapeControl(options.format, 60) +
                        "'.");
  }
  judgement::LostChanges run;
  Json tapes = Json::array();
  for (const std::string& file : options.files) {
    MPN_TRY_ASSIGN(const std::string text, ReadFile(file, kMostBytes));
    Result<Tape> tape = judgement::ReadTape(text);
    if (!tape) {
      Error error = std::move(tape).error();
      error.message = file + ": " + error.message;
      return error;
    }
    const Replay replay(*tape, run);
    if (options.format == "json") {
      tapes.push_back(TapeJson(file, *tape, replay, options.rows));
      continue;
    }
    if (options.files.size() > 1) PrintSafe("== " + file + "\n", context.out);
    PrintSafe(judgement::PageOf(*tape, replay), context.out);
    if (options.rows) PrintSafe("\n" + judgement::RowsOf(*tape, replay), context.out);
  }
  if (options.format == "json") context.out << DumpJsonPretty({{"tapes", tapes}}) << "\n";
  return {};
}

}  // namespace

void AddTapeCommand(CommandSet& set) {
  const auto options = std::make_shared<TapeOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "tape",
      "Show what a shadow step wrote down, and what follows from it\n\nThe tape is judged again. "
      "Changes that get lost need several tapes of one run, the earliest first.");
  command.group("Commands");
  command.add_option("FILE", options->files, "Tapes: the files in the folder that MPNANNY_TAPE names")
      ->required()
      ->type_name("FILE");
  command.add_flag("--rows", options->rows,
                   "Every row, and of each result why it is a finding or none");
  command.add_option("--format", options->format, "How the answer is printed (default: text)")
      ->type_name("text|json");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<void> done = ShowTapes(context, *options);
    return done ? 0 : PrintError(context, "tape", done.error(), options->format == "json");
  });
}

}  // namespace mpnanny
