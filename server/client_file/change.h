// What `install` does to a client's file and how it is taken back, decided before anything is
// written.
//
// Plain values and free functions. Plan…() read; MakeChange() alone writes. Beside the file lies,
// while our entry is in it, a copy of what was there before (<file>.mpnanny-backup). There is none
// where there was no file.
#ifndef MPNANNY_SERVER_CLIENT_FILE_CHANGE_H_
#define MPNANNY_SERVER_CLIENT_FILE_CHANGE_H_

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "server/client_file/client_file.h"

namespace mpnanny {

struct ClientPlace {
  std::string path;
  FileFormat format = FileFormat::kJson;
  std::string key;  // under which the file lists servers
};

struct FileChange {
  std::string path;
  std::optional<std::string> before;  // nothing: there is no file
  std::optional<std::string> after;   // nothing: there will be none
  enum class Backup { kKeep, kWrite, kRemove } backup = Backup::kKeep;  // kWrite: of `before`

  bool new_folder = false;  // the file's folder is made, too

  bool Changes() const { return before != after; }
};

std::string BackupPath(const std::string& path);

// Puts the block in. An entry that is there is brought up to date, and the copy stays that of the
// first time.
Result<FileChange> PlanInstall(const ClientPlace& place, const Json& block);

// Takes our entry out: the file becomes what the copy holds if nothing else has changed since, and
// else loses just the entry. A file that held nothing else goes.
Result<FileChange> PlanUndo(const ClientPlace& place);

// Makes folders on the way; the file is replaced at once.
Result<void> MakeChange(const FileChange& change);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_CLIENT_FILE_CHANGE_H_
