// Ids that nobody can guess: sessions, jobs.
//
// Thread-safe.
#ifndef MPNANNY_BASE_RANDOM_ID_H_
#define MPNANNY_BASE_RANDOM_ID_H_

#include <string>

namespace mpnanny {

// 128 bits from the system's cryptographic generator, as 32 hexadecimal digits.
std::string RandomId();

}  // namespace mpnanny

#endif  // MPNANNY_BASE_RANDOM_ID_H_
