#include "engines/runs/reading_vfs.h"

#include <sqlite3.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>

namespace mpnanny::runs {
namespace {

constexpr char kName[] = "mpnanny-reading";
// Files that have a name, and that somebody else wrote.
constexpr int kNamed =
    SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL | SQLITE_OPEN_SUPER_JOURNAL;

sqlite3_vfs* TheirVfs() { return sqlite3_vfs_find(nullptr); }

// What SQLite allocates for an open file: our head, then theirs.
struct File {
  sqlite3_file base;
  bool named = false;
  bool wal = false;
  // Of a database: nobody may have begun to write it since, which its "-shm" would tell.
  bool unwritten = false;
  bool index_mapped = false;          // theirs has the "-shm" open
  std::string* index_path = nullptr;  // owned; of a database
  File* database = nullptr;           // of a database itself and of its WAL
  sqlite3_file* Theirs() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Ours(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Theirs(sqlite3_file* file) { return Ours(file)->Theirs(); }

bool IndexLiesThere(const File& file) {
  int found = 0;
  return TheirVfs()->xAccess(TheirVfs(), file.index_path->c_str(), SQLITE_ACCESS_EXISTS, &found) ==
             SQLITE_OK &&
         found != 0;
}

// A FIFO would be waited for.
bool CanBeOpened(const std::string& path) {
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  return !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
}

// A WAL whose beginning is none holds nothing, as SQLite sees it too. But where it keeps the index
// in memory it takes such a file for one that a writer is about to begin, and waits for it in vain.
bool BeginsAsWal(sqlite3_file* file) {
  unsigned char head[12];
  if (Theirs(file)->pMethods->xRead(Theirs(file), head, sizeof(head), 0) != SQLITE_OK) return false;
  const auto number = [&](int at) {
    return uint32_t{head[at]} << 24 | uint32_t{head[at + 1]} << 16 | uint32_t{head[at + 2]} << 8 |
           head[at + 3];
  };
  constexpr uint32_t kMagic = 0x377f0682;  // or one more, by the order of its checksums' bytes
  const uint32_t page = number(8);
  return (number(0) & ~1u) == kMagic && (page & (page - 1)) == 0 && page >= 512 && page <= 65536;
}

int Close(sqlite3_file* file) {
  delete Ours(file)->index_path;
  return Theirs(file)->pMethods ? Theirs(file)->pMethods->xClose(Theirs(file)) : SQLITE_OK;
}
int Read(sqlite3_file* file, void* to, int bytes, sqlite3_int64 at) {
  const int code = Theirs(file)->pMethods->xRead(Theirs(file), to, bytes, at);
  // A writer makes its index before it writes anything. Without an index there is no lock that
  // would keep it from changing what is read: the call is to be made again.
  const File* const database = Ours(file)->database;
  if (database && database->unwritten && IndexLiesThere(*database)) return SQLITE_BUSY;
  return code;
}
int Write(sqlite3_file* file, const void* from, int bytes, sqlite3_int64 at) {
  if (Ours(file)->named) return SQLITE_READONLY;
  return Theirs(file)->pMethods->xWrite(Theirs(file), from, bytes, at);
}
int Truncate(sqlite3_file* file, sqlite3_int64 bytes) {
  if (Ours(file)->named) return SQLITE_READONLY;
  return Theirs(file)->pMethods->xTruncate(Theirs(file), bytes);
}
int Sync(sqlite3_file* file, int flags) {
  if (Ours(file)->named) return SQLITE_OK;
  return Theirs(file)->pMethods->xSync(Theirs(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* bytes) {
  const int code = Theirs(file)->pMethods->xFileSize(Theirs(file), bytes);
  if (code == SQLITE_OK && Ours(file)->wal && *bytes > 0 && !BeginsAsWal(file)) *bytes = 0;
  return code;
}
int Lock(sqlite3_file* file, int level) {
  if (Ours(file)->named && level > SQLITE_LOCK_SHARED) return SQLITE_READONLY;
  return Theirs(file)->pMethods->xLock(Theirs(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return Theirs(file)->pMethods->xUnlock(Theirs(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* held) {
  return Theirs(file)->pMethods->xCheckReservedLock(Theirs(file), held);
}
int FileControl(sqlite3_file* file, int what, void* value) {
  return Theirs(file)->pMethods->xFileControl(Theirs(file), what, value);
}
int SectorSize(sqlite3_file* file) { return Theirs(file)->pMethods->xSectorSize(Theirs(file)); }
int Characteristics(sqlite3_file* file) {
  return Theirs(file)->pMethods->xDeviceCharacteristics(Theirs(file));
}

int ShmMap(sqlite3_file* file, int region, int bytes, int, void volatile** at) {
  File& ours = *Ours(file);
  *at = nullptr;
  if (!ours.index_mapped && !IndexLiesThere(ours)) {
    // SQLite then keeps an index in memory, and looks here again when the next snapshot begins.
    ours.unwritten = true;
    return SQLITE_READONLY_CANTINIT;
  }
  if (!ours.index_mapped && !CanBeOpened(*ours.index_path)) return SQLITE_CANTOPEN;
  ours.unwritten = false;
  ours.index_mapped = true;
  return Theirs(file)->pMethods->xShmMap(Theirs(file), region, bytes, /*extend=*/0, at);
}
int ShmLock(sqlite3_file* file, int first, int count, int flags) {
  if (!Ours(file)->index_mapped) return SQLITE_OK;
  return Theirs(file)->pMethods->xShmLock(Theirs(file), first, count, flags);
}
void ShmBarrier(sqlite3_file* file) { Theirs(file)->pMethods->xShmBarrier(Theirs(file)); }
int ShmUnmap(sqlite3_file* file, int) {
  if (!Ours(file)->index_mapped) return SQLITE_OK;
  Ours(file)->index_mapped = false;
  return Theirs(file)->pMethods->xShmUnmap(Theirs(file), /*delete=*/0);
}

constexpr sqlite3_io_methods kMethods = {
    .iVersion = 2,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = FileSize,
    .xLock = Lock,
    .xUnlock = Unlock,
    .xCheckReservedLock = CheckReservedLock,
    .xFileControl = FileControl,
    .xSectorSize = SectorSize,
    .xDeviceCharacteristics = Characteristics,
    .xShmMap = ShmMap,
    .xShmLock = ShmLock,
    .xShmBarrier = ShmBarrier,
    .xShmUnmap = ShmUnmap,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int Open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  File* const ours = new (file) File;
  ours->base.pMethods = nullptr;  // SQLite calls xClose only where it is set
  ours->named = (flags & kNamed) != 0;
  if (flags & SQLITE_OPEN_MAIN_DB) {
    ours->unwritten = sqlite3_uri_boolean(path, "unwritten", 0) != 0;
    ours->index_path = new (std::nothrow) std::string(std::string(path) + "-shm");
    if (!ours->index_path) return SQLITE_NOMEM;
    ours->database = ours;
  } else if (flags & SQLITE_OPEN_WAL) {
    ours->wal = true;
    ours->database = Ours(sqlite3_database_file_object(path));
  }
  if (ours->named) {
    // The WAL is asked for with the right to create it.
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
  }
  const int code = ours->named && !CanBeOpened(path)
                       ? SQLITE_CANTOPEN
                       : TheirVfs()->xOpen(TheirVfs(), path, ours->Theirs(), flags, flags_out);
  if (code != SQLITE_OK) {
    delete ours->index_path;
    return code;
  }
  ours->base.pMethods = &kMethods;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char*, int) { return SQLITE_READONLY; }

// Theirs would look up every link, of which one leads into a folder that is held open.
int FullPathname(sqlite3_vfs*, const char* path, int room, char* full) {
  const size_t length = std::strlen(path);
  if (length >= static_cast<size_t>(room)) return SQLITE_CANTOPEN;
  std::memcpy(full, path, length + 1);
  return SQLITE_OK;
}

// In place of fchown(). Of files that root reads, SQLite makes the database's owner that of the WAL
// and of its index, which changes them; nothing that this process writes needs that.
int LeaveOwner(int, unsigned, unsigned) { return 0; }

}  // namespace

const char* ReadingVfs() {
  static const bool registered = [] {
    sqlite3_vfs* const theirs = TheirVfs();
    if (!theirs) return false;
    if (theirs->iVersion >= 3 && theirs->xSetSystemCall) {
      theirs->xSetSystemCall(theirs, "fchown", reinterpret_cast<sqlite3_syscall_ptr>(&LeaveOwner));
    }
    static sqlite3_vfs ours;
    std::memcpy(&ours, theirs, sizeof(ours));
    ours.iVersion = 1;
    ours.pNext = nullptr;
    ours.zName = kName;
    ours.szOsFile = static_cast<int>(sizeof(File)) + theirs->szOsFile;
    ours.xOpen = Open;
    ours.xDelete = Delete;
    ours.xFullPathname = FullPathname;
    return sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
  }();
  return registered ? kName : nullptr;
}

std::string FirstBytes(const std::string& path, size_t count) {
  sqlite3_initialize();
  sqlite3_vfs* const theirs = TheirVfs();
  struct FreeName {
    void operator()(const char* name) const { sqlite3_free_filename(name); }
  };
  const std::unique_ptr<const char, FreeName> name(
      sqlite3_create_filename(path.c_str(), "", "", 0, nullptr));
  const std::unique_ptr<char[]> memory(new char[static_cast<size_t>(theirs->szOsFile)]());
  auto* const file = reinterpret_cast<sqlite3_file*>(memory.get());
  std::string bytes(count, '\0');
  if (!name || theirs->xOpen(theirs, name.get(), file, SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB,
                             nullptr) != SQLITE_OK) {
    return "";
  }
  sqlite3_int64 size = 0;
  const int sized = file->pMethods->xFileSize(file, &size);
  // What is beyond the end reads as zeros.
  const int read = file->pMethods->xRead(file, bytes.data(), static_cast<int>(count), 0);
  file->pMethods->xClose(file);
  if (sized != SQLITE_OK || (read != SQLITE_OK && read != SQLITE_IOERR_SHORT_READ)) return "";
  if (size < static_cast<sqlite3_int64>(count)) bytes.resize(static_cast<size_t>(size));
  return bytes;
}

}  // namespace mpnanny::runs
