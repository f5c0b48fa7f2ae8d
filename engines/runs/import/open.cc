#include "engines/runs/import/open.h"

#include <algorithm>
#include <deque>
#include <filesystem>

#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/text_log.h"

namespace mpnanny::imports {
namespace fs = std::filesystem;
namespace {

constexpr size_t kHeadBytes = 64 * 1024;
constexpr size_t kMaxEntries = 20'000;  // of one folder
constexpr size_t kMaxFolders = 2'000;   // below the one that was named
constexpr int kMaxDepth = 4;
constexpr size_t kRunsNamed = 7;
constexpr std::string_view kDatabaseMark = "SQLite format 3";

bool IsBelow(const fs::path& root, const fs::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

Folder Look(const std::string& path) {
  Folder folder;
  folder.path = path;
  const auto entries = ListResolvedFolder(path, kMaxEntries);
  if (!entries) return folder;
  for (const FolderEntry& entry : *entries) {
    using Kind = FolderEntry::Kind;
    bool is_file = entry.kind == Kind::kFile;
    if (entry.kind == Kind::kLink) {
      std::error_code ec;  // a link may lead out of what was allowed
      const fs::path target = fs::canonical(fs::path(path) / entry.name, ec);
      is_file = !ec && IsBelow(path, target) && fs::is_regular_file(target, ec);
    }
    if (is_file) {
      folder.files.push_back(entry.name);
    } else if (entry.kind == Kind::kFolder && !entry.name.starts_with(".")) {
      folder.folders.push_back(entry.name);
    }
  }
  std::sort(folder.files.begin(), folder.files.end());
  std::sort(folder.folders.begin(), folder.folders.end());
  return folder;
}

struct LogFiles {
  const Format* format = nullptr;
  std::vector<std::string> files;  // canonical
  std::string place;               // the folder
};

LogFiles PickIn(const Folder& folder) {
  for (const Format& format : AllFormats()) {
    if (!format.pick) continue;
    LogFiles found{&format, {}, folder.path};
    for (const std::string& name : format.pick(folder)) {
      std::error_code ec;
      const fs::path file = fs::canonical(fs::path(folder.path) / name, ec);
      if (!ec && IsBelow(folder.path, file)) found.files.push_back(file.generic_string());
    }
    if (!found.files.empty()) return found;
  }
  return {};
}

// Folders that hold no runs and often very many files.
bool WorthEntering(const std::string& name) {
  return name != "node_modules" && name != "__pycache__" && name != "site-packages";
}

// The logs at or below a folder, nearest first. `nearest_only`: not those that lie deeper than the
// first.
Result<std::vector<LogFiles>> WalkFolder(const std::string& path, const CancelToken& cancel,
                                         bool nearest_only, bool& ended_early) {
  std::deque<std::pair<std::string, int>> rest{{path, 0}};
  std::vector<LogFiles> all;
  int depth = 0;
  size_t looked = 0;
  for (; !rest.empty() && looked < kMaxFolders; ++looked) {
    MPN_TRY(cancel.Check());
    const auto [place, level] = rest.front();
    rest.pop_front();
    if (nearest_only && level > depth && !all.empty()) break;
    depth = level;
    const Folder folder = Look(place);
    if (LogFiles found = PickIn(folder); found.format) {
      all.push_back(std::move(found));
      continue;
    }
    if (level >= kMaxDepth) continue;
    for (const std::string& name : folder.folders) {
      if (WorthEntering(name))
        rest.emplace_back((fs::path(place) / name).generic_string(), level + 1);
    }
  }
  ended_early = looked == kMaxFolders && !rest.empty();
  return all;
}

// The one log at or below a folder; several are an error that names them.
Result<LogFiles> FindInFolder(const std::string& path, const CancelToken& cancel) {
  bool ended_early = false;
  // What lies deeper belongs to what was found.
  MPN_TRY_ASSIGN(auto walked, WalkFolder(path, cancel, /*nearest_only=*/true, ended_early));
  const std::vector<LogFiles>& all = walked;
  if (all.empty()) return LogFiles();
  if (all.size() == 1) return all.front();
  std::vector<std::string> places;
  for (size_t i = all.size(); i > 0 && places.size() < kRunsNamed; --i) {
    places.push_back(EscapeControl(all[i - 1].place));
  }
  return InvalidInput(
      EscapeControl(path) + " holds the logs of " + std::to_string(all.size()) + " runs.",
      "Name one of them: " + Join(places, ", ") + ".");
}

// A SQLite file of another program that a format reads.
LogFiles FindDatabase(const std::string& path, const FileHead& head) {
  // The monitor's own says so in its header.
  constexpr size_t kIdAt = 68;
  constexpr std::string_view kOwn("MPNY");
  if (std::string_view(head.bytes).substr(std::min(kIdAt, head.bytes.size()), 4) == kOwn) return {};
  const auto database = runs::Database::OpenOther(path, CancelToken());
  if (!database) return {};
  for (const Format& format : AllFormats()) {
    if (format.holds && format.holds(**database)) {
      return {&format, {path}, fs::path(path).parent_path().generic_string()};
    }
  }
  return {};
}

LogFiles FindFile(const std::string& path) {
  const fs::path file(path);
  const FileHead head{file.filename().generic_string(), Head(path, kHeadBytes)};
  const std::string extension = file.extension().generic_string();
  // A database that is none is told as such.
  if (head.bytes.starts_with(kDatabaseMark)) return FindDatabase(path, head);
  if (extension == ".db" || extension == ".sqlite" || extension == ".sqlite3") return {};
  for (const Format& format : AllFormats()) {
    if (!head.bytes.empty() && format.fits(head)) {
      return {&format, {path}, file.parent_path().generic_string()};
    }
  }
  return {};
}

Error NoFigures(const std::string& path, const Import& import) {
  std::string what = "No loss, gradient norm, loss scale or learning rate was found in " +
                     EscapeControl(path) + " (" + import.counts + ").";
  std::vector<std::string> notes = import.notes;
  notes.push_back(import.recorder.figures().OthersText());
  for (const std::string& note : notes) {
    if (!note.empty() && what.size() + note.size() < 1500) what += " " + note;
  }
  return InvalidInput(what,
                      "Lines like \"step 12 loss 2.31 lr 1e-4\", \"loss=2.31 grad_norm=nan\", JSON "
                      "pairs and columns or tags with such names are understood.");
}

Result<Opened> Close(Import& import, Recorder& recorder, const std::string& format,
                     const std::string& path, const std::string& name) {
  Opened opened;
  opened.format = format;
  opened.counts = import.counts;
  opened.numbered = import.numbered;
  opened.of_players = import.of_players;
  opened.texts = import.texts;
  opened.runs = import.runs;
  Recorder::About about;
  about.path = path;
  about.name = import.name.empty() ? name : import.name;
  about.precision = import.precision;
  about.started_at = import.started_at.value_or(0);
  about.ended_at = import.ended_at;
  about.notes.push_back("Read as " + format + ": " + import.counts +
                        ". It shows neither layers nor tensors.");
  about.notes.insert(about.notes.end(), import.notes.begin(), import.notes.end());
  auto database = recorder.Finish(about);
  if (!database) return database.error();
  opened.database = *std::move(database);
  opened.notes = std::move(about.notes);
  return opened;
}

}  // namespace

Result<std::optional<Opened>> OpenLog(const std::string& path, const CancelToken& cancel,
                                      bool even_without_steps) {
  std::error_code ec;
  LogFiles found;
  if (fs::is_directory(path, ec)) {
    auto in_folder = FindInFolder(path, cancel);
    if (!in_folder) return in_folder.error();
    found = *std::move(in_folder);
  } else if (fs::is_regular_file(path, ec)) {
    if (path.ends_with(".py")) {
      return InvalidInput("'" + EscapeControl(path) + "' is Python source and no record of a run.",
                          "To look at the code: mpnanny check FILE (static_check). To record a "
                          "run of it: mpnanny run -- python FILE.");
    }
    found = FindFile(path);
  }
  if (!found.format) return std::optional<Opened>();
  MPN_TRY_ASSIGN(auto recorder, Recorder::Create(cancel));
  Import import(*recorder);
  MPN_TRY(found.format->read(found.files, import));
  if (recorder->steps() + recorder->evaluations() == 0 && !even_without_steps)
    return NoFigures(path, import);
  auto opened = Close(import, *recorder, found.format->name, path,
                      fs::path(path).filename().generic_string());
  if (!opened) return opened.error();
  return std::optional(*std::move(opened));
}

Result<FoundLogs> FindLogs(const std::string& folder, const CancelToken& cancel) {
  FoundLogs logs;
  MPN_TRY_ASSIGN(auto walked, WalkFolder(folder, cancel, /*nearest_only=*/false, logs.ended_early));
  for (const LogFiles& found : walked) {
    FoundLog log{found.place, 0};
    for (const std::string& file : found.files) {
      std::error_code ec;
      const auto bytes = fs::file_size(file, ec);
      if (!ec) log.bytes += static_cast<int64_t>(bytes);
    }
    logs.logs.push_back(std::move(log));
  }
  return logs;
}

bool IsDatabaseOfLog(const std::string& path) {
  return runs::LooksLikeDatabase(path) && FindFile(path).format;
}

Result<Opened> OpenFile(const std::string& path, const CancelToken& cancel) {
  if (!runs::LooksLikeDatabase(path) || IsDatabaseOfLog(path)) {
    auto log = OpenLog(path, cancel);
    if (!log) return log.error();
    if (*log) return **std::move(log);
  }
  auto database = runs::Database::Open(path, cancel);
  if (!database) return database.error();
  Opened opened;
  opened.notes = (*database)->notes();
  opened.database = *std::move(database);
  return opened;
}

Result<Opened> OpenText(std::string_view text, const std::string& name, const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto recorder, Recorder::Create(cancel));
  Import import(*recorder);
  MPN_TRY(ReadTextLog([&] { return Result<ByteSource>(ByteSource::OfText(text)); }, import));
  return Close(import, *recorder, kTextLog.name, name, name);
}

}  // namespace mpnanny::imports
