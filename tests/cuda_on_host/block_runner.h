// Runs a CUDA block on the CPU: every thread of the block is a fiber, and what CUDA says about a
// block's threads is checked as they run.
//
// Fibers are switched at barriers and warp operations only, in an order drawn from a seed: a kernel
// that reads another thread's shared memory without a barrier between reads it too early in some
// order, and its result differs from seed to seed. Shared memory is full of NaN patterns when a
// block begins, and guard bytes behind it are checked when it ends.
//
// Asynchronous copies arrive as late as they may, when their thread waits for them, or at once, by
// the seed: who reads too early finds NaN, and who copies over what others still read destroys it.
//
// Broken rules end the process with a message: lanes of a warp that meet at different operations,
// a thread that ends while others or copies of its own wait for it, a write past shared memory.
//
// What this does not show: races that no order of whole segments between barriers makes visible,
// memory ordering between blocks, bank conflicts, registers, speed. Blocks run one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace skerry::cuda {

struct Index3 {
  unsigned x = 1, y = 1, z = 1;
};

inline constexpr unsigned kWarp = 32;

// What a lane hands to the others of its warp.
struct LaneWords {
  uint64_t words[5] = {};
};

enum class WarpMeeting : int { kSync, kShuffle, kVote, kLoadMatrices, kMultiply };

// For the platform's header, on a fiber: waits for the whole block, or for the warp, and then gives
// what each of its 32 lanes handed in.
void MeetBlock();
const LaneWords* MeetWarp(WarpMeeting at, const LaneWords& own);
unsigned OwnLane();

// Copies of a thread: begun, closed into a group, and waited for but for the newest groups. `from`
// is not read where it is not there; zeros come then.
void BeginCopy(void* to, const void* from, size_t bytes, bool there);
void CloseCopies();
void AwaitCopies(size_t but_newest);

void* SharedBytes();

// Held by a launch: several threads may use devices, but there is one set of fibers.
std::mutex& OneGridAtATime();

// Calls `thread()` once for every thread of a block of `threads` ≤ 1024.
void RunBlock(unsigned threads, size_t shared_bytes, const std::function<void()>& thread);

// Of the order of fibers from now on; 0 is ascending.
void SeedFiberOrder(uint64_t seed);

// A kernel breaks a rule of CUDA: says which and ends the process.
[[noreturn]] void BrokenRule(const char* which);

}  // namespace skerry::cuda
