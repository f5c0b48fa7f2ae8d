#include "server/command_line/version_text.h"

#include "base/program.h"
#include "base/version.h"
#include "server/doctor/machine_checks.h"
#include "server/protocol/versions.h"

namespace mpnanny {

std::string VersionText() {
  std::string revisions;
  for (Revision revision : {Revision::k2026_07_28, Revision::k2025_11_25, Revision::k2025_06_18,
                            Revision::k2025_03_26, Revision::k2024_11_05}) {
    revisions += (revisions.empty() ? "" : ", ") + std::string(RevisionName(revision));
  }
  std::error_code error;
  const bool worker = std::filesystem::exists(
      std::filesystem::path(ProgramPath()).parent_path() / "mpnanny-worker", error);
  return std::string("mpnanny ") + kVersion + "\nrevision " + kRevision + "\nplatform " +
         kPlatform + "\ncompiler " + kCompiler + "\ndatabase schema " +
         std::to_string(kSchemaVersion) + "\nMCP revisions " + revisions + "\nSQLite " +
         SqliteVersion() + "\nlibraries " + kLibraries + "\nLibTorch not linked; " +
         (worker ? "mpnanny-worker beside this program is the one that is"
                 : "there is no mpnanny-worker beside this program, which would be") +
         "\n";
}

}  // namespace mpnanny
