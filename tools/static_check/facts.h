// Everything that the rules may know of one file and of the project: the shared analyses, built
// once.
//
// A FileFacts owns its analyses, which borrow one another, so it neither moves nor copies. The
// constructor makes what needs one file only; CompleteFacts() adds what needs all of the project's
// files. Not thread-safe while it is built; then read-only.
#ifndef MPNANNY_TOOLS_STATIC_CHECK_FACTS_H_
#define MPNANNY_TOOLS_STATIC_CHECK_FACTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/static_check/bindings.h"
#include "tools/static_check/dtypes.h"
#include "tools/static_check/modules.h"
#include "tools/static_check/names.h"
#include "tools/static_check/protocol.h"
#include "tools/static_check/regions.h"
#include "tools/static_check/scalers.h"
#include "tools/static_check/syntax.h"
#include "tools/static_check/text_index.h"

namespace mpnanny::static_check {

// What all sources of a check say together: the project's precision regime.
struct ProjectFacts {
  bool fp16_on_cuda = false;    // an autocast that is FP16 on CUDA
  bool other_autocast = false;  // an autocast with another or an unknown dtype or device
  bool grad_scaler = false;
  bool scaler_updates = false;  // update() on a scaler somewhere
  bool scaler_state = false;    // state_dict() of a scaler, or a framework's save, somewhere
  bool scaling_elsewhere =
      false;  // apex, DeepSpeed, Accelerate, Lightning, a wrapper: somebody else scales the loss
  bool sixteen_bit = false;  // any 16-bit type is named at all

  bool AssumeFp16() const { return fp16_on_cuda && !other_autocast; }
};

class FileFacts {
 public:
  FileFacts(std::string path_in, Syntax syntax_in, const OpTable& ops);
  FileFacts(const FileFacts&) = delete;
  FileFacts& operator=(const FileFacts&) = delete;

  void AddTo(ProjectFacts& project) const;
  // The function of the project that the call runs, in whichever file; see Modules::Callee.
  Definition Callee(NodeId call) const { return modules->Callee(number, call); }

  const std::string path;
  const Syntax syntax;
  const TextIndex lines;
  const Names names;
  const Bindings bindings;
  const Regions regions;
  const Scalers scalers;
  const OpTable& ops;
  // After CompleteFacts():
  ProjectFacts project;
  const Modules* modules = nullptr;
  const std::vector<FileFacts*>* files = nullptr;  // the project's, numbered as in `modules`
  size_t number = 0;                               // of this file among them
  std::unique_ptr<Dtypes> dtypes;
  std::unique_ptr<const Protocol> protocol;
};

// Adds to the files of one project what needs all of them. `modules` must be empty and outlive the
// files; up to `threads` threads work on it.
void CompleteFacts(const std::vector<FileFacts*>& files, unsigned threads,
                   const CancelToken& cancel, Modules* modules);

}  // namespace mpnanny::static_check

#endif  // MPNANNY_TOOLS_STATIC_CHECK_FACTS_H_
