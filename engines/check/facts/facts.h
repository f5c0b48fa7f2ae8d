// Everything that the rules may know of one file and of the project: the shared analyses, built
// once.
//
// A FileFacts owns its analyses, which borrow one another, so it neither moves nor copies. The
// constructor makes what needs one file only; LinkFacts() and CompleteFacts() add what needs all of
// the project's files. Not thread-safe while it is built; then read-only.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_FACTS_H_
#define MPNANNY_ENGINES_CHECK_FACTS_FACTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/check/dtypes/dtypes.h"
#include "engines/check/facts/modules.h"
#include "engines/check/facts/project_facts.h"
#include "engines/check/facts/regions.h"
#include "engines/check/facts/scalers.h"
#include "engines/check/scaler/order.h"
#include "engines/check/syntax/bindings.h"
#include "engines/check/syntax/names.h"
#include "engines/check/syntax/syntax.h"
#include "engines/check/syntax/text_index.h"

namespace mpnanny::check {

class FileFacts {
 public:
  FileFacts(std::string path_in, Syntax syntax_in, const OpTable& ops);
  FileFacts(const FileFacts&) = delete;
  FileFacts& operator=(const FileFacts&) = delete;

  // The function of the project that the call runs, in whichever file; see Modules::Callee.
  Definition Callee(NodeId call) const { return modules->Callee(number, call); }

  const std::string path;
  Syntax syntax;  // without its tree once the queries have been matched
  const TextIndex lines;
  const Names names;
  const Bindings bindings;
  const Regions regions;
  const Scalers scalers;
  const OpTable& ops;
  // Expressions with two operands, assignments and augmented ones, in order.
  std::vector<NodeId> binaries, assignments, augmented;
  // After CompleteFacts():
  ProjectFacts project;
  const Modules* modules = nullptr;
  const std::vector<FileFacts*>* files = nullptr;  // the project's, numbered as in `modules`
  size_t number = 0;                               // of this file among them
  std::unique_ptr<Dtypes> dtypes;
  std::unique_ptr<const ScalerOrder> scaler_order;
};

// Makes one project of the files: who defines what, and in which precision it trains. `modules`
// must be empty and, like `files`, outlive the files. Up to `threads` threads work on it (0: one
// for each core).
void LinkFacts(const std::vector<FileFacts*>& files, unsigned threads, Modules* modules);
// Adds the analyses that need all of the files. Call after LinkFacts().
void CompleteFacts(const std::vector<FileFacts*>& files, unsigned threads,
                   const CancelToken& cancel);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_FACTS_H_
