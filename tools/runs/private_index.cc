#include "tools/runs/private_index.h"

#include <sqlite3.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace mpnanny::runs {
namespace {

constexpr char kName[] = "mpnanny-private-index";
constexpr int kMaxRegions = 4096;  // of 32 KiB: an index for a WAL of 16 million frames

sqlite3_vfs* TheirVfs() { return sqlite3_vfs_find(nullptr); }

// What SQLite allocates for an open file: our head, then theirs.
struct File {
  sqlite3_file base;
  std::vector<void*>* regions;  // of the index; owned
  sqlite3_file* Theirs() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Ours(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Theirs(sqlite3_file* file) { return Ours(file)->Theirs(); }

void FreeRegions(File* file) {
  for (void* region : *file->regions) std::free(region);
  file->regions->clear();
}

int Close(sqlite3_file* file) {
  FreeRegions(Ours(file));
  delete Ours(file)->regions;
  return Theirs(file)->pMethods ? Theirs(file)->pMethods->xClose(Theirs(file)) : SQLITE_OK;
}
int Read(sqlite3_file* file, void* to, int bytes, sqlite3_int64 at) {
  return Theirs(file)->pMethods->xRead(Theirs(file), to, bytes, at);
}
// Nothing is ever written, whatever a file's content may lead SQLite to.
int Write(sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; }
int Truncate(sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; }
int Sync(sqlite3_file*, int) { return SQLITE_OK; }
int FileSize(sqlite3_file* file, sqlite3_int64* bytes) {
  return Theirs(file)->pMethods->xFileSize(Theirs(file), bytes);
}
int Lock(sqlite3_file* file, int level) {
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

int ShmMap(sqlite3_file* file, int region, int bytes, int extend, void volatile** at) {
  std::vector<void*>& regions = *Ours(file)->regions;
  *at = nullptr;
  if (region < 0 || region >= kMaxRegions) return SQLITE_NOMEM;
  while (static_cast<int>(regions.size()) <= region) {
    if (!extend) return SQLITE_OK;
    void* const memory = std::calloc(1, static_cast<size_t>(bytes));
    if (!memory) return SQLITE_NOMEM;
    regions.push_back(memory);
  }
  *at = regions[static_cast<size_t>(region)];
  return SQLITE_OK;
}
int ShmLock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
void ShmBarrier(sqlite3_file*) {}
int ShmUnmap(sqlite3_file* file, int) {
  FreeRegions(Ours(file));
  return SQLITE_OK;
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
  File* const ours = Ours(file);
  ours->base.pMethods = nullptr;  // SQLite calls xClose only where it is set
  ours->regions = new (std::nothrow) std::vector<void*>();
  if (!ours->regions) return SQLITE_NOMEM;
  // The WAL is asked for with the right to create it.
  constexpr int kMaking = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int reading = (flags & ~kMaking) | SQLITE_OPEN_READONLY;
  const int code = TheirVfs()->xOpen(TheirVfs(), path, ours->Theirs(), reading, flags_out);
  if (code != SQLITE_OK) {
    delete ours->regions;
    return code;
  }
  ours->base.pMethods = &kMethods;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char*, int) { return SQLITE_READONLY; }

}  // namespace

const char* PrivateIndexVfs() {
  static const bool registered = [] {
    sqlite3_vfs* const theirs = TheirVfs();
    if (!theirs) return false;
    static sqlite3_vfs ours;
    std::memcpy(&ours, theirs, sizeof(ours));
    ours.iVersion = 1;
    ours.pNext = nullptr;
    ours.zName = kName;
    ours.szOsFile = static_cast<int>(sizeof(File)) + theirs->szOsFile;
    ours.xOpen = Open;
    ours.xDelete = Delete;
    return sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
  }();
  return registered ? kName : nullptr;
}

}  // namespace mpnanny::runs
