// How SQLite reaches a database that is only to be read: a VFS in front of its own that writes
// nothing and leaves no file behind, whatever lies beside the database.
//
// Files are opened for reading, without the right to create one. The index of a WAL is a file
// ("-shm") that SQLite makes if it is missing, and begins anew if nobody has it open: in a folder
// that may not be written that fails, elsewhere it is litter, or the end of another file if that
// name is a hard link. Here the index is used as it lies there as long as a writer holds it, with
// the locks that keep the writer from taking away what is read, and otherwise is memory of the
// connection, which SQLite fills from the WAL. Temporary tables may be written; they have no name.
//
// Free functions; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_READING_VFS_H_
#define MPNANNY_ENGINES_RUNS_READING_VFS_H_

#include <cstddef>
#include <string>

namespace mpnanny::runs {

// The name to give to sqlite3_open_v2() with a URI; registered at the first call, for good.
// nullptr: SQLite could not. Parameters of the URI beside SQLite's own:
//   readonly_shm=1  must be given: without it SQLite's own VFS would write the index.
//   unwritten=1     with immutable=1: the file is read only as long as no "-shm" lies beside it.
// The file's name is taken as it stands, links in it are not resolved.
const char* ReadingVfs();

// The first bytes of a file, as many as there are; "" if it cannot be read. Read through SQLite,
// since to close a descriptor of one's own would take away the locks that other connections of this
// process hold on the file.
std::string FirstBytes(const std::string& path, size_t count);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_READING_VFS_H_
