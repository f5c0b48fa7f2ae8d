#include "engines/export/export.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/random_id.h"
#include "base/replace_file.h"
#include "base/text.h"
#include "engines/export/parquet_writer.h"
#include "engines/export/parts.h"
#include "engines/export/table_rows.h"
#include "engines/export/tables.h"

namespace mpnanny::exports {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxNotes = 20;

std::string FileOf(const Table& table) { return table.name + ".parquet"; }

// The folder in which files grow until all are whole, inside of that in which they will lie. What
// is in it goes with the object, and so does the outer folder if it was made for this and is empty.
class Workshop {
 public:
  static Result<Workshop> Make(const ExportOptions& options) {
    const std::string shown = EscapeControl(options.output);
    if (options.output.empty()) return InvalidInput("No folder is named.", "-o FOLDER names it.");
    std::error_code ec;
    const fs::path folder = fs::absolute(options.output, ec).lexically_normal();
    const bool there = fs::exists(fs::symlink_status(folder, ec));
    if (there && !fs::is_directory(folder, ec)) {
      return InvalidInput(shown + " is a file.", "Name a folder to make.");
    }
    if (there && !options.force) {
      const bool empty = fs::is_empty(folder, ec);
      if (ec) {
        return Unavailable(shown + " cannot be read (" + ec.message() + ").", "Name another.");
      }
      if (!empty) {
        return InvalidInput(shown + " holds files already, and none is overwritten.",
                            "Name a new folder, or say --force.");
      }
    }
    Workshop workshop;
    if (!there) {
      fs::create_directories(folder, ec);
      if (ec) {
        return Unavailable(shown + " cannot be made (" + ec.message() + ").",
                           "Name a folder in which you may write.");
      }
      workshop.made_ = folder.string();
    }
    workshop.folder_ = folder.string();
    const fs::path parts = folder / (".part-" + RandomId());
    fs::create_directory(parts, ec);
    if (ec) {
      return Unavailable(shown + " cannot be written (" + ec.message() + ").",
                         "Name a folder in which you may write.");
    }
    workshop.parts_ = parts.string();
    fs::permissions(parts, fs::perms::owner_all, ec);
    return workshop;
  }

  Workshop(Workshop&& other) noexcept
      : folder_(std::move(other.folder_)),
        made_(std::exchange(other.made_, "")),
        parts_(std::exchange(other.parts_, "")) {}
  Workshop& operator=(Workshop&&) = delete;
  ~Workshop() {
    std::error_code ignored;
    if (!parts_.empty()) fs::remove_all(parts_, ignored);
    if (!made_.empty()) fs::remove(made_, ignored);  // only if nothing is in it
  }

  const std::string& folder() const { return folder_; }
  std::string PartOf(const std::string& file) const { return parts_ + "/" + file; }

 private:
  Workshop() = default;

  std::string folder_, made_, parts_;
};

// Puts finished files at their places. Those of tables that this export leaves out would tell of
// other runs than the files beside them, so they go.
Result<void> PutInPlace(const std::vector<Table>& tables, const Workshop& workshop) {
  MPN_TRY_ASSIGN(auto all, TablesOfSchema());
  for (const Table& table : all) {
    const std::string place = workshop.folder() + "/" + FileOf(table);
    const bool written = std::any_of(tables.begin(), tables.end(),
                                     [&](const Table& one) { return one.name == table.name; });
    std::error_code ec;
    if (written) {
      MPN_TRY(MoveIntoPlace(workshop.PartOf(FileOf(table)), place));
    } else if (fs::is_regular_file(fs::symlink_status(place, ec))) {
      fs::remove(place, ec);
    }
  }
  return {};
}

void KeepFirst(std::vector<std::string>& notes) {
  if (notes.size() <= kMaxNotes) return;
  const size_t more = notes.size() - kMaxNotes;
  notes.resize(kMaxNotes);
  notes.push_back(std::to_string(more) + " more notes of this kind are left out.");
}

}  // namespace

Result<ExportReport> Export(const ExportOptions& options, const AllowedRoots& roots,
                            const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto tables, ChosenTables(options.tables));
  MPN_TRY_ASSIGN(auto calls, DuckdbCalls::Find(options.duckdb));
  MPN_TRY_ASSIGN(auto found, FindParts(options.runs, roots, cancel));
  MPN_TRY_ASSIGN(auto workshop, Workshop::Make(options));
  ExportReport report;
  report.output = EscapeControl(options.output);
  report.runs.assign(found.runs.begin(), found.runs.end());
  report.ranks = static_cast<int64_t>(found.parts.size());
  report.notes = std::move(found.notes);
  {
    MPN_TRY_ASSIGN(auto writer, ParquetWriter::Open(std::move(calls), workshop.PartOf("spilled")));
    report.duckdb = writer.version();
    for (const Table& table : tables) {
      TableRows rows(table, found.parts, cancel, [&](int64_t so_far) {
        if (options.progress) {
          options.progress(static_cast<double>(so_far), std::nullopt, table.name);
        }
      });
      const std::string part = workshop.PartOf(FileOf(table));
      MPN_TRY(writer.Write(rows.columns(), rows, part));
      std::error_code ec;
      fs::permissions(part, fs::perms::owner_read | fs::perms::owner_write, ec);
      const auto bytes = fs::file_size(part, ec);
      report.tables.push_back({table.name, rows.rows(), ec ? 0 : static_cast<int64_t>(bytes)});
      report.notes.insert(report.notes.end(), rows.notes().begin(), rows.notes().end());
    }
  }
  MPN_TRY(PutInPlace(tables, workshop));
  KeepFirst(report.notes);
  return report;
}

}  // namespace mpnanny::exports
