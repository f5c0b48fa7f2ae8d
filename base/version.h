// What this build is. Constants filled in by CMake (version.cc.in).
#ifndef MPNANNY_BASE_VERSION_H_
#define MPNANNY_BASE_VERSION_H_

namespace mpnanny {

extern const char kVersion[];   // "0.1.0"
extern const char kRevision[];  // git revision, "unknown" outside a checkout

extern const char kPlatform[];  // "Linux x86_64"
extern const char kCompiler[];  // "GNU 12.2.0"
extern const char kLibraries[];  // those that are linked in or compiled in: "tree-sitter 0.25.2, …"

// The database schema that this build's monitor writes, and the newest that its tools read (the row
// schema.version of the table `meaning`). PRAGMA user_version is another number: the oldest schema
// whose readers understand the file, 1.
inline constexpr int kSchemaVersion = 3;

}  // namespace mpnanny

#endif  // MPNANNY_BASE_VERSION_H_
