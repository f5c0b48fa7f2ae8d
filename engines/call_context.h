// What a call of a tool may use, and what it gives back: the border between tools, which know their
// arguments, and the engines, which show what they have found.
//
// Plain values; a ToolContext borrows and lives as long as its call.
#ifndef MPNANNY_ENGINES_CALL_CONTEXT_H_
#define MPNANNY_ENGINES_CALL_CONTEXT_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/data_files.h"
#include "base/files.h"
#include "base/json.h"

namespace mpnanny {

// Answers are written for a model's context window: text and structuredContent each stay below this
// by default.
inline constexpr size_t kAnswerBytes = 8000;

// An answer as an image.
struct Picture {
  std::string png;    // bytes of the file
  std::string shows;  // what is to be seen, with the numbers that matter, for who cannot see it
};

struct ToolOutput {
  Json structured;   // object that fits the tool's output_schema
  std::string text;  // the same facts for people and for clients that show only text
  std::optional<Picture> picture = std::nullopt;
};

// What a handler may use. Everything is borrowed and outlives the call.
struct ToolContext {
  const AllowedRoots& roots;  // every path of a client goes through Resolve()
  const DataFiles& data;
  CancelToken cancel;       // ask it in every loop that can be long
  bool allow_exec = false;  // --allow-exec: may run models and user code
  // How large text and structuredContent may each be. The command line asks for everything
  // (SIZE_MAX).
  size_t answer_bytes = kAnswerBytes;
  // progress must grow; `total` if known. Null when the client did not ask for progress.
  std::function<void(double progress, std::optional<double> total, const std::string& message)>
      progress;
  // What a call has so far, whole and in the shape of its answer: given to the client, as "still
  // running", if the call does not end in time. A tool whose definition says may_go_on calls this
  // now and then once it runs for seconds, and is then not stopped at the deadline. Null where
  // nobody waits (the command line).
  std::function<void(ToolOutput so_far)> so_far = nullptr;
  bool allow_gpu = false;  // --allow-gpu: they may compute on this machine's GPUs
  // --allow-weaker-sandbox: models and user code also where the machine cannot confine them wholly.
  bool allow_weaker_sandbox = false;
  // What has a form in Chinese stands in the answer under "zh" too: for the page, whose readers
  // choose their language.
  bool chinese_too = false;
};

// How the command line shows an answer: its whole structuredContent as text.
struct FormatContext {
  const DataFiles& data;
  bool colour = false;  // what reads it is a terminal that knows colours
};
using AnswerFormat =
    std::function<std::string(const Json& structured, const FormatContext& context)>;

// What something is like at one moment that a command follows with --watch.
struct WatchedState {
  Json arguments;       // those that name this very thing, also when a newer one appears
  std::string version;  // differs when an answer may have changed
  std::string urgent;   // differs when the answer is worth showing although it says the same
  std::string line;     // for people, short
  bool over = false;    // nothing will change any more
};

// What a command has done beside answering: what it shows of it, and what it says about it.
struct Afterwards {
  std::string shown;  // a diff
  std::string notes;  // "Fixed 1 finding in 1 file."
};

}  // namespace mpnanny

#endif  // MPNANNY_ENGINES_CALL_CONTEXT_H_
