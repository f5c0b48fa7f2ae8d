// What a format of logs is: how it is recognised, and who reads it (README.md tells how to add
// one).
//
// Plain values and free functions; an Import belongs to one call on one thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_FORMAT_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_FORMAT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/import/recorder.h"
#include "engines/runs/import/run_of_file.h"

namespace mpnanny::imports {

// Where a reader puts what it finds.
struct Import {
  explicit Import(Recorder& into) : recorder(into) {}
  Recorder& recorder;
  std::string precision;                       // if the log says so; "" otherwise
  std::optional<double> started_at, ended_at;  // Unix seconds
  std::string name;                            // of the run, if the log has one
  bool numbered = true;            // false: no line says its step, steps are lines counted from 0
  bool of_players = false;         // the losses are of two players that learn by each other
  std::string counts;              // what was read, for people: "figures stand in 12 of 30 lines"
  std::vector<std::string> notes;  // what limits the reading, for people
  std::vector<std::string> texts;  // files of this source that are console output
  std::vector<RunOfFile> runs;     // where several follow each other, in the file's order
};

struct FileHead {
  std::string name;   // without folders
  std::string bytes;  // the first 64 KiB
};

// What stands right in a folder; links that lead out of it are left out.
struct Folder {
  std::string path;                // canonical
  std::vector<std::string> files;  // names, sorted
  std::vector<std::string> folders;
};

struct Format {
  const char* name;  // "TensorBoard event files"
  // True if a file is of this format: by its content, with its name as a help.
  bool (*fits)(const FileHead& head);
  // The files of one run that a folder is, relative to it; none if it is no such run. Null: the
  // format knows no folders.
  std::vector<std::string> (*pick)(const Folder& folder);
  // Reads one run out of `files` (canonical paths). Broken parts are notes; an error is for a
  // source of which nothing can be read.
  Result<void> (*read)(const std::vector<std::string>& files, Import& into);
  // True if a SQLite file of another program is of this format; null: it is none.
  bool (*holds)(const runs::Database& database) = nullptr;
};

// All formats, the most particular first: the first that fits reads the file.
std::span<const Format> AllFormats();

// What each format's file defines.
extern const Format kEventFiles, kWandbRun, kTrackio, kTrendDatabase, kTrainerState, kTitanTrace,
    kJsonLines, kLongTable, kDelimitedTable, kTextLog;

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_FORMAT_H_
