// What mpnanny and mpnanny-worker say to each other: one JSON object a line, one answer a request,
// over the worker's stdin and stdout. Compiled into both sides; no torch header here.
//
//   -> {"op": "hello", "protocol": 1}
//   <- {"protocol": 1, "torch": "2.13.0", "cpu_capability": "AVX512", "threads": 1}
//   <- {"error": {"kind": "InvalidInput", "message": "…"}}        to anything that is not
//   understood
//
// The first request must be hello; a worker of another protocol number is not used.
#ifndef MPNANNY_TOOLS_WORKER_PROTOCOL_H_
#define MPNANNY_TOOLS_WORKER_PROTOCOL_H_

namespace mpnanny::worker {

inline constexpr int kProtocol = 1;

// Set by whoever starts the worker; without it the program says what it is and ends.
inline constexpr char kStartedByUs[] = "MPNANNY_WORKER";

}  // namespace mpnanny::worker

#endif  // MPNANNY_TOOLS_WORKER_PROTOCOL_H_
