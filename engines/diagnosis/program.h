// The diagnosis of a run with all that belongs to it: the other models of its program, its console
// output, the user's code. The verdict on a run comes from here, whoever shows it.
//
// Free functions; what they return are plain values.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_PROGRAM_H_
#define MPNANNY_ENGINES_DIAGNOSIS_PROGRAM_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "engines/call_context.h"
#include "engines/cases/case.h"
#include "engines/diagnosis/answer/report.h"
#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "engines/runs/run.h"
#include "engines/runs/whole_run.h"

namespace mpnanny::diagnosis {

using PassTime = CancelToken::Clock::duration;

// What is asked beside the record.
struct Request {
  std::string question = {};             // the user's; error messages it quotes are evidence
  std::vector<std::string> paths = {};   // the training code
  PassTime pass_time = runs::kPassTime;  // of the pass over all steps
};

// A diagnosis with what it is of and what it stands on.
struct Diagnosed {
  Subject subject;
  Facts facts;
  Diagnosis diagnosis;
};

// The facts of a run without monitor: its figures, and what its console output says in words: that
// of the source's files, or `pasted`. Of a file that holds several runs, those of the worst.
Result<Facts> FactsOfLog(const runs::Source& source, const ToolContext& context,
                         const cases::CaseLibrary& library, const std::string* pasted,
                         PassTime limit = runs::kPassTime);

// The diagnosis of a record whose facts are gathered: with the question and the code.
Result<Diagnosed> DiagnoseFacts(const Request& request, const ToolContext& context,
                                const cases::CaseLibrary& library, Subject subject, Facts facts);

// A program that trains several models is one training to its user: where the model asked about
// shows nothing, the one that does is the answer.
Result<Diagnosed> DiagnoseProgram(const runs::Source& source, const Request& request,
                                  const ToolContext& context, const cases::CaseLibrary& library);

// The verdict of DiagnoseProgram() without further evidence, and what the pass over the steps of
// the run asked about gave: who summarizes the run needs it as well.
struct JudgedRun {
  summary::RunVerdict verdict;
  summary::Summary steps;
};
Result<JudgedRun> JudgeRun(const runs::Source& source, const ToolContext& context,
                           PassTime limit = runs::kPassTime);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_PROGRAM_H_
