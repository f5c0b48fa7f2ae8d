// What this build is. Constants filled in by CMake (version.cc.in).
#ifndef MPNANNY_BASE_VERSION_H_
#define MPNANNY_BASE_VERSION_H_

namespace mpnanny {

extern const char kVersion[];   // "0.1.0"
extern const char kRevision[];  // git revision, "unknown" outside a checkout

// The newest database schema that this build reads and the one that its monitor writes (PRAGMA
// user_version).
inline constexpr int kSchemaVersion = 1;

}  // namespace mpnanny

#endif  // MPNANNY_BASE_VERSION_H_
