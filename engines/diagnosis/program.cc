#include "engines/diagnosis/program.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "engines/diagnosis/facts/code_evidence.h"
#include "engines/diagnosis/facts/gather.h"
#include "engines/diagnosis/facts/log_hits.h"
#include "engines/diagnosis/other_models.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

// Error messages that the question quotes, and the exception that ended the training, are evidence
// as a log's lines are. Whether there is any in `text`.
bool AddHits(const std::string& text, bool raised, const cases::CaseLibrary& library,
             Facts& facts) {
  bool quotes = false;
  for (const cases::Case& entry : library.all()) {
    for (const cases::Signal& signal : entry.signals) {
      if (signal.kind != cases::Signal::Kind::kLog || !cases::FitsLogLine(signal, text)) continue;
      quotes = true;
      if (std::none_of(facts.log_hits.begin(), facts.log_hits.end(),
                       [&](const LogHit& hit) { return hit.signal == signal.text; })) {
        facts.log_hits.push_back({signal.text, signal.weight, text.substr(0, 400), raised, true});
      }
    }
  }
  return quotes;
}

// Escaped, as texts are; "" if it is not known.
std::string ScriptFolder(const runs::Run& run) {
  const std::string path = runs::EnvironmentText(run, "script");
  const size_t end = path.rfind('/');
  return path.starts_with('/') && end > 0 ? EscapeControl(path.substr(0, end), 400) : "";
}

int Badness(Health verdict) {
  return verdict == Health::kBroken ? 2 : verdict == Health::kDegraded ? 1 : 0;
}

// Of several runs in a log's file each is judged: the facts of the worst, else of the last.
Result<Facts> WorstOfFile(const runs::Source& source, const std::vector<LogHit>& hits,
                          const cases::CaseLibrary& library, const std::string* pasted,
                          PassTime limit) {
  constexpr size_t kMostJudged = 20;
  constexpr int64_t kFewestLosses = 3;
  std::optional<Facts> worst;
  int worst_is = 0;
  const size_t runs = source.of_file.size();
  for (size_t back = 0; back < std::min(runs, kMostJudged); ++back) {
    const imports::RunOfFile& each = source.of_file[runs - 1 - back];
    MPN_TRY_ASSIGN(const auto other, runs::OtherOfFile(source, each.run_id));
    MPN_TRY_ASSIGN(auto facts, GatherLog(other, hits, limit));
    facts.lines = runs::LogLines(other, pasted);
    facts.of_file = OfFile{each.run_id, static_cast<int64_t>(runs),
                           static_cast<int64_t>(runs - back), each.first_line, each.last_line};
    const summary::Summary& steps = facts.summary;
    const bool tells = steps.finite_losses >= kFewestLosses || steps.nonfinite_losses > 0;
    if (back > 0 && !tells) continue;
    const int is = Badness(Diagnose(facts, library).verdict);
    if (worst && is <= worst_is) continue;
    worst = std::move(facts);
    worst_is = is;
  }
  return *std::move(worst);
}

Result<Diagnosed> DiagnoseSource(const runs::Source& source, const Request& request,
                                 const ToolContext& context, const cases::CaseLibrary& library) {
  auto gathered = source.format.empty()
                      ? GatherRun(source, request.pass_time)
                      : FactsOfLog(source, context, library, nullptr, request.pass_time);
  if (!gathered) return gathered.error();
  std::string run = runs::ShownHandle(source);
  std::string name = runs::Name(source.run.name);
  if (gathered->of_file && gathered->of_file->run_id != source.run.handle.run_id) {
    MPN_TRY_ASSIGN(const auto of, runs::OtherOfFile(source, gathered->of_file->run_id));
    run = runs::ShownHandle(of);
    name = runs::Name(of.run.name);
  }
  return DiagnoseFacts(request, context, library,
                       {std::move(run), std::move(name), "", runs::Time(source.run.started_at),
                        ScriptFolder(source.run)},
                       *std::move(gathered));
}

bool IsBad(const Diagnosis& diagnosis) {
  return diagnosis.verdict == Health::kBroken || diagnosis.verdict == Health::kDegraded;
}

// `asked`, or the diagnosis of another model of the program that decides.
Result<Diagnosed> OfProgram(const runs::Source& source, const Request& request,
                            const ToolContext& context, const cases::CaseLibrary& library,
                            Result<Diagnosed> asked) {
  std::vector<std::string> named;
  for (const runs::Source& model : OtherModels(source, context.roots, context.cancel)) {
    named.push_back(runs::ShownHandle(model));
    if (IsBad(asked->diagnosis)) continue;
    auto other = DiagnoseSource(model, request, context, library);
    if (!other || !IsBad(other->diagnosis)) continue;
    for (runs::Sentence* sentence : {&other->diagnosis.headline, &other->diagnosis.reason}) {
      runs::Sentence text = runs::Form(
          "The fault is in another model of the same program; the one asked about shows none.",
          "故障出在同一程序的另一个模型中；所询问的模型没有故障。");
      text += std::move(*sentence);
      *sentence = std::move(text);
    }
    other->subject.asked = asked->subject.run;
    return other;
  }
  if (named.empty()) return asked;
  std::vector<runs::Sentence>& limits = asked->diagnosis.limits;
  limits.insert(
      limits.begin(),
      IsBad(asked->diagnosis)
          ? runs::Sentence(
                runs::Form("The program trained other models as well: ask about {0}, too.",
                           "该程序还训练了其他模型：也请询问 {0}。"),
                {Join(named, ", ")})
          : runs::Sentence(
                runs::Form(
                    "The program trained other models as well, and they show no fault either: {0}.",
                    "该程序还训练了其他模型，它们也没有故障：{0}。"),
                {Join(named, ", ")}));
  return asked;
}

}  // namespace

Result<Facts> FactsOfLog(const runs::Source& source, const ToolContext& context,
                         const cases::CaseLibrary& library, const std::string* pasted,
                         PassTime limit) {
  std::vector<LogHit> hits;
  if (pasted) {
    MPN_TRY(FindLogHits(imports::ByteSource::OfText(*pasted), library, context.cancel, hits));
  }
  for (const std::string& path : source.texts) {
    auto text = imports::ByteSource::OfFile(path);
    if (!text) return text.error();
    MPN_TRY(FindLogHits(*std::move(text), library, context.cancel, hits));
  }
  const bool bare = source.run.handle.run_id.value_or(1) == 1;
  if (source.of_file.size() > 1 && bare) return WorstOfFile(source, hits, library, pasted, limit);
  MPN_TRY_ASSIGN(auto facts, GatherLog(source, std::move(hits), limit));
  facts.lines = runs::LogLines(source, pasted);
  return facts;
}

Result<Diagnosed> DiagnoseFacts(const Request& request, const ToolContext& context,
                                const cases::CaseLibrary& library, Subject subject, Facts facts) {
  constexpr std::string_view kRuleFolder = "engines/check/rules/";
  for (const std::string& path : context.data.List(kRuleFolder, ".md")) {
    facts.known_rules.insert(path.substr(kRuleFolder.size(), path.size() - kRuleFolder.size() - 3));
  }
  if (const auto& failed = facts.loop.failed) {
    AddHits(failed->error + ": " + failed->text, /*raised=*/true, library, facts);
  }
  const bool used =
      !request.question.empty() && AddHits(request.question, /*raised=*/false, library, facts);
  if (!request.paths.empty()) {
    MPN_TRY(CheckCode(request.paths, context, facts));
  }
  Diagnosis diagnosis = Diagnose(facts, library);
  if (!request.question.empty() && !used) {
    diagnosis.limits.push_back(runs::Form(
        "The question was not used: it quotes no message that a documented case has. The answer "
        "rests on the record; `search_knowledge` takes the question's own words.",
        "没有用到问题：它没有引用任何已记录案例的消息。回答依据记录；"
        "`search_knowledge` 可直接接受问题本身的文字。"));
  }
  return Diagnosed{std::move(subject), std::move(facts), std::move(diagnosis)};
}

Result<Diagnosed> DiagnoseProgram(const runs::Source& source, const Request& request,
                                  const ToolContext& context, const cases::CaseLibrary& library) {
  auto asked = DiagnoseSource(source, request, context, library);
  if (!asked) return asked;
  return OfProgram(source, request, context, library, *std::move(asked));
}

Result<JudgedRun> JudgeRun(const runs::Source& source, const ToolContext& context, PassTime limit) {
  const auto library = cases::SharedLibrary(context.data);
  const Request request{.pass_time = limit};
  auto asked = DiagnoseSource(source, request, context, *library);
  if (!asked) return asked.error();
  JudgedRun judged{{}, asked->facts.summary};
  MPN_TRY_ASSIGN(auto decides, OfProgram(source, request, context, *library, *std::move(asked)));
  judged.verdict = {decides.diagnosis.verdict,
                    decides.facts.lines.Located(decides.diagnosis.headline.English())};
  return judged;
}

}  // namespace mpnanny::diagnosis
