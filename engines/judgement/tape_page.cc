#include "engines/judgement/tape_page.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <type_traits>
#include <variant>
#include <vector>

#include "engines/judgement/comparison.h"
#include "engines/judgement/fields.h"
#include "engines/judgement/tape_text.h"
#include "engines/judgement/thresholds.h"

namespace mpnanny::judgement {
namespace {

std::string Number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string Counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string Joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& each : parts) text += (text.empty() ? "" : separator) + each;
  return text;
}

// "aten.mul.Tensor at train.py:12 (forward, module fc1)"
std::string PlaceText(const Place& place) {
  const std::string source = place.Source();
  const std::string module = !place.module           ? ""
                             : place.module->empty() ? ", the model"
                                                     : ", module " + *place.module;
  return place.op + (source.empty() ? "" : " at " + source) + " (" + NameOf(place.phase) + module +
         ")";
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t each : shape) sizes.push_back(std::to_string(each));
  return "[" + Joined(sizes, ", ") + "]";
}

// --- findings ---

std::string FiguresOfFinding(const Finding& finding) {
  std::vector<std::string> parts = {finding.dtype + " " + ShapeText(finding.shape),
                                    Number(100 * finding.share) + " % of it"};
  parts.push_back("error " + Number(finding.error_in) + " → " + Number(finding.error_out));
  parts.push_back("largest reference " + Number(finding.magnitude));
  if (finding.count > 1) parts.push_back(Counted(static_cast<size_t>(finding.count), "time"));
  return Joined(parts, "; ");
}

std::string ReachText(const Finding& finding) {
  std::vector<std::string> parts;
  for (const Reach& each : finding.reach) {
    parts.push_back(NameOf(each.what) + std::string(each.name.empty() ? "" : " ") + each.name +
                    " (" + Number(each.error) + ")");
  }
  return parts.empty() ? "nothing" : Joined(parts, ", ");
}

std::string CureText(const Finding& finding) {
  if (finding.cure) {
    const Cure& cure = *finding.cure;
    return "in " + cure.what + ": " +
           Joined(cure.lines.empty() ? cure.operators : cure.lines, ", ") + "; error " +
           Number(cure.error_before) + " → " + Number(cure.error_after);
  }
  if (finding.precision == Proof::kProven) return "a wider type";
  if (finding.precision == Proof::kExcluded) return "none: another precision does not help";
  return "not known" + (finding.why_no_cure.empty() ? "" : ": " + finding.why_no_cure);
}

std::string FindingText(int number, const Replay& replay) {
  const Finding& finding = replay.findings()[number];
  const Calls& calls = replay.judge().calls();
  std::string text = "finding " + std::to_string(number) + ": " + NameOf(finding.severity) + " " +
                     NameOf(finding.kind) + ", " + PlaceText(calls.PlaceOf(finding.place)) + "\n";
  const auto line = [&](const std::string& what) { text += "    " + what + "\n"; };
  line(FiguresOfFinding(finding));
  line("reaches " + ReachText(finding));
  line("cure " + CureText(finding));
  if (finding.parent != kNone)
    line("works on the error of finding " + std::to_string(finding.parent));
  if (finding.came_in) {
    line("came in at " + PlaceText(calls.PlaceOf(finding.came_in->place)) + " with " +
         Number(finding.came_in->error) + ", " + finding.came_in->dtype);
  }
  if (finding.carried) {
    const Carried& carried = *finding.carried;
    line("brought in by " + std::string(NameOf(carried.kind)) +
         (carried.whose.empty() ? "" : ", " + carried.whose) +
         (carried.made_at.empty() ? "" : ", made at " + carried.made_at));
  }
  if (finding.rounded_before) line("only because what came in had been rounded");
  if (finding.singular) {
    const Singular& singular = *finding.singular;
    if (singular.is_pole)
      line("the derivative is infinite at " + Number(singular.held) + ", reference " +
           Number(singular.reference));
    if (!singular.zero_at.empty())
      line("meets a 0 from " + singular.zero_op + " at " + singular.zero_at);
  }
  if (finding.lost) {
    const LostChange& lost = *finding.lost;
    line("lost in the newest " + Counted(static_cast<size_t>(lost.lost_in), "step") + " of " +
         std::to_string(lost.steps) + ", since step " + std::to_string(lost.since) +
         (lost.lost_before ? "; what came in had lost it already" : ""));
  }
  for (const auto& [held, reference] : finding.operands)
    line("operand " + Number(held) + ", reference " + Number(reference));
  for (const auto& [op, source] : finding.inputs_from) line("input from " + op + " at " + source);
  return text;
}

// "190 results and whole numbers: 180 clean, 6 noise, 4 found"
std::string VerdictsText(const Replay& replay) {
  std::array<size_t, std::size(Vocabulary<Why>::kNames)> counts{};
  for (const Replay::Judged& each : replay.judged())
    ++counts[static_cast<size_t>(each.verdict.why)];
  std::vector<std::string> parts;
  for (size_t at = 0; at < counts.size(); ++at) {
    if (counts[at] > 0)
      parts.push_back(std::to_string(counts[at]) + " " + NameOf(static_cast<Why>(at)));
  }
  return Counted(replay.judged().size(), "result") + (parts.empty() ? "" : ": ") +
         Joined(parts, ", ");
}

// --- rows ---

std::string FiguresText(const ReferenceError& found) {
  std::string text = "error " + Number(ErrorOf(found)) + " of " +
                     Counted(static_cast<size_t>(found.numel), "element");
  const auto count = [&](int64_t of, const char* what) {
    if (of > 0) text += ", " + std::to_string(of) + " " + what;
  };
  count(found.range, "not finite here only");
  count(found.undefined, "NaN");
  count(found.infinite, "infinite");
  count(found.reference_only, "not finite in the reference only");
  count(found.flushed, "flushed to 0");
  count(found.clipped, "clipped");
  if (found.integers) count(found.wrong_integers, "other whole numbers");
  return text;
}

// What the numbers of a row refer to.
struct Notes {
  const Replay& replay;
  std::vector<std::string> parts;

  void operator()(const char* name, const int& value) {
    const std::string_view field = name;
    const Calls& calls = replay.judge().calls();
    if (field == "place") parts.push_back(PlaceText(calls.PlaceOf(value)));
    if (field == "call") parts.push_back(PlaceText(calls.PlaceOfCall(value)));
    if (field != "slot") return;
    const ReferenceError* found = replay.judge().slots().At(value);
    if (found != nullptr) parts.push_back(FiguresText(*found));
  }
  void operator()(const char*, const auto&) {}
};

void AddInputs(const Call& call, const Replay& replay, std::vector<std::string>& parts) {
  for (size_t at = 0; at < call.inputs.size(); ++at) {
    const Memory& before = replay.judge().calls()[call.number].inputs[at].before;
    if (before.error <= 0) continue;
    parts.push_back("input " + std::to_string(at) + " has error " + Number(before.error) +
                    (before.noise ? ", which is noise" : "") +
                    (before.origin == kNone ? "" : " of finding " + std::to_string(before.origin)));
  }
}

std::string NotesOf(const Row& row, const Replay& replay) {
  Notes notes{replay, {}};
  std::visit(
      [&](const auto& each) {
        Fields(each, notes);
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(each)>, Call>)
          AddInputs(each, replay, notes.parts);
      },
      row);
  return Joined(notes.parts, "; ");
}

std::string LayerText(const LayerProfile& layer) {
  std::vector<std::string> parts = {Counted(static_cast<size_t>(layer.operators), "operator"),
                                    "error " + Number(layer.error)};
  if (const std::optional<double> times = layer.Amplification())
    parts.push_back(Number(*times) + " times what came in");
  parts.push_back("largest reference " + Number(layer.absmax));
  static constexpr const char* kFormats[] = {"error in float16",
                                             "bfloat16",
                                             "float8_e4m3fn",
                                             "float8_e5m2",
                                             "share that overflows float16",
                                             "underflows it"};
  std::string formats;
  for (size_t at = 0; at < layer.formats.size(); ++at) {
    if (!layer.formats[at]) continue;
    formats += (formats.empty() ? "" : ", ") + std::string(kFormats[at]) + " " +
               Number(*layer.formats[at]);
  }
  if (!formats.empty()) parts.push_back(formats);
  return (layer.module.empty() ? "the model" : layer.module) +
         std::string(layer.backward ? " (backward): " : " (forward): ") + NameOf(layer.type) +
         "; " + Joined(parts, "; ");
}

const char* Sentence(Why why) {
  switch (why) {
    case Why::kClean:
    case Why::kFound:
    case Why::kCarried:
      return "";  // said with figures
    case Why::kNotCompared:
      return "there are no figures to judge it by";
    case Why::kRestarts:
      return "the reference is not finite where the held value is, and begins anew";
    case Why::kNoise:
      return "the reference is 0 but for rounding: its error means nothing";
    case Why::kCancels:
      return "it would cancel out, had nothing wrong come in";
    case Why::kNotFinite:
      return "something that came in is not finite";
    case Why::kFilled:
      return "a number among the arguments is not finite, as the -inf of a mask";
    case Why::kMeantSo:
      return "an infinity was there before the step, as that of a mask";
    case Why::kFewFlushed:
      return "of those that became 0 few matter";
    case Why::kInRange:
      return "the type has numbers for those that became 0";
    case Why::kFlushedBefore:
      return "they were 0 in an input already";
    case Why::kFewIntegers:
      return "few whole numbers became others";
    case Why::kTooLarge:
      return "FP64 does not hold whole numbers as large";
    case Why::kNotWhole:
      return "what came in was no whole number, or another one already";
  }
  return "";
}

}  // namespace

std::string WhyText(const Replay::Judged& judged) {
  const auto [why, finding] = judged.verdict;
  if (why == Why::kClean) return "";
  if (why == Why::kFound) return "finding " + std::to_string(finding);
  std::string text = NameOf(why) + std::string(": ") + Sentence(why);
  if (why == Why::kCarried) {
    const double times = judged.error > kWrong ? kAmplification : kNotedAmplification;
    text += Number(judged.came_in) + " came in, and it is less than " + Number(times) +
            " times as much";
  }
  if (judged.origin != kNone) text += "; the error of finding " + std::to_string(judged.origin);
  return text;
}

std::string PageOf(const Tape& tape, const Replay& replay) {
  std::string text = "Step " + std::to_string(tape.step) + ", " + Counted(tape.rows.size(), "row") +
                     ", " + Counted(replay.judge().calls().places(), "place") +
                     (tape.first_loss ? ", first loss " + Number(*tape.first_loss) : "") + ".\n" +
                     VerdictsText(replay) + ".\n";
  if (replay.unanswered() > 0) {
    text += Counted(static_cast<size_t>(replay.unanswered()), "question") +
            " of the judge had no answer on the tape: it was recorded by another version.\n";
  }
  text += replay.counting().empty() ? "Nothing was found.\n" : "";
  for (const int each : replay.counting()) text += "\n" + FindingText(each, replay);
  return text;
}

std::string RowsOf(const Tape& tape, const Replay& replay) {
  std::string text;
  auto judged = replay.judged().begin();
  for (size_t at = 0; at < tape.rows.size(); ++at) {
    text += std::to_string(at) + "  " + TextOf(tape.rows[at]) + "\n";
    const std::string notes = NotesOf(tape.rows[at], replay);
    if (!notes.empty()) text += "      " + notes + "\n";
    if (judged == replay.judged().end() || judged->row != at) continue;
    const std::string why = WhyText(*judged++);
    if (!why.empty()) text += "      " + why + "\n";
  }
  for (size_t at = 0; at < replay.findings().all().size(); ++at) {
    const auto& counting = replay.counting();
    const int number = static_cast<int>(at);
    if (std::find(counting.begin(), counting.end(), number) == counting.end())
      text += "\nDoes not count: " + FindingText(number, replay);
  }
  const std::vector<LayerProfile> layers = replay.judge().profiles().Layers();
  if (!layers.empty()) text += "\nLayers, and what leaves them:\n";
  for (const LayerProfile& each : layers) text += "  " + LayerText(each) + "\n";
  return text;
}

}  // namespace mpnanny::judgement
