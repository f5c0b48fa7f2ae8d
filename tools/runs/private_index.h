// A way for SQLite to read a database with a WAL that nobody has open, and to leave no file behind.
//
// The index of a WAL is a file beside the database ("-shm") that readers make if it is not there:
// in a folder that may not be written that fails, and elsewhere it is litter beside somebody
// else's file. With this VFS the index is memory of the connection. It excludes nobody, so it is
// only for files without a "-shm": where a writer is, there is one.
#ifndef MPNANNY_TOOLS_RUNS_PRIVATE_INDEX_H_
#define MPNANNY_TOOLS_RUNS_PRIVATE_INDEX_H_

namespace mpnanny::runs {

// The name to give to sqlite3_open_v2(); registered at the first call, for good. nullptr: SQLite
// could not, its own VFS is used then. Safe from any thread.
const char* PrivateIndexVfs();

}  // namespace mpnanny::runs

#endif  // MPNANNY_TOOLS_RUNS_PRIVATE_INDEX_H_
