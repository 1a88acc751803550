#include "tests/cuda_on_host/block_runner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "tests/cuda_on_host/device_platform.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the registers that a call keeps and the stack pointer, takes those of another fiber.
// swapcontext would do, with two system calls each time.
asm(R"(
  .text
  .globl skerry_switch_stack
  .type skerry_switch_stack, @function
skerry_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size skerry_switch_stack, .-skerry_switch_stack
  .section .note.GNU-stack, "", @progbits
  .text
)");
extern "C" void skerry_switch_stack(void** save, void* take);

namespace skerry::cuda {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr unsigned kThreadsMax = 1024;
constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xa5;
constexpr unsigned char kUnwritten = 0xff;  // NaN, whatever the type

struct Stack {
  void* pointer = nullptr;  // where it was left
  void* fake = nullptr;     // the sanitizer's
  const void* bottom = nullptr;
  size_t size = 0;
};

void Switch(Stack* from, Stack* to, bool for_ever) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &from->fake, to->bottom, to->size);
#endif
  skerry_switch_stack(&from->pointer, to->pointer);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(from->fake, nullptr, nullptr);
#endif
  (void)for_ever;
}

struct Copy {
  void* to;
  const void* from;  // null: zeros
  size_t bytes;
  void Arrive() const {
    from == nullptr ? std::memset(to, 0, bytes) : std::memcpy(to, from, bytes);
  }
};

struct Fiber {
  std::unique_ptr<char[]> memory = std::make_unique<char[]>(kStackBytes);
  Stack stack;
  unsigned meetings = 0;  // of its warp
  std::vector<Copy> begun;
  std::deque<std::vector<Copy>> groups;
};

struct Warp {
  LaneWords slots[2][kWarp];  // of this meeting and the last, which late lanes still read
  unsigned arrived = 0;
  WarpMeeting at = WarpMeeting::kSync;
};

class Block {
 public:
  void Run(unsigned threads, size_t shared_bytes, const std::function<void()>& thread);
  void MeetAll();
  const LaneWords* MeetLanes(WarpMeeting at, const LaneWords& own);
  void BeginCopy(const Copy& copy);
  void CloseCopies();
  void AwaitCopies(size_t but_newest);
  unsigned current() const { return current_; }
  void* shared() { return shared_.data() + shared_offset_; }
  void Seed(uint64_t seed) {
    seed_ = seed;
    rng_ = Rng(seed, "order of fibers");
  }

 private:
  static void Enter();
  void Prepare(unsigned index);
  void PrepareShared(size_t bytes);
  unsigned TakeReady();
  void Wait() { Switch(&fibers_[current_].stack, &scheduler_, false); }

  std::vector<Fiber> fibers_;
  Warp warps_[kThreadsMax / kWarp];
  std::vector<unsigned> ready_;  // in order 0 the last is next
  Stack scheduler_;
  const std::function<void()>* thread_ = nullptr;
  unsigned threads_ = 0, current_ = 0, at_barrier_ = 0, ended_ = 0;
  std::vector<unsigned char> shared_;
  size_t shared_offset_ = 0;
  uint64_t seed_ = 0;
  Rng rng_{0, "order of fibers"};
};

Block& TheBlock() {
  static Block block;
  return block;
}

// The first function on a fiber's stack; never returns.
__attribute__((no_sanitize("address"))) void Block::Enter() {
  Block& block = TheBlock();
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_.bottom, &block.scheduler_.size);
#endif
  (*block.thread_)();
  const Fiber& own = block.fibers_[block.current_];
  if (!own.begun.empty() || !own.groups.empty()) BrokenRule("a thread ended before its copies");
  ++block.ended_;
  Switch(&block.fibers_[block.current_].stack, &block.scheduler_, true);
  std::abort();
}

void Block::Prepare(unsigned index) {
  Fiber& fiber = fibers_[index];
  constexpr size_t kRegisters = 6;
  auto* top = reinterpret_cast<uint64_t*>(fiber.memory.get() + kStackBytes);
  top -= reinterpret_cast<uintptr_t>(top) % 16 / 8;
  top -= kRegisters + 2;  // and where to return to; the pointer is 16-byte aligned here
  std::fill_n(top, kRegisters, uint64_t{0});
  top[kRegisters] = reinterpret_cast<uint64_t>(&Block::Enter);
  fiber.stack = {top, nullptr, fiber.memory.get(), kStackBytes};
  fiber.meetings = 0;
}

void Block::PrepareShared(size_t bytes) {
  constexpr size_t kAlignment = 128;
  shared_.assign(bytes + kGuardBytes + kAlignment, kGuard);
  shared_offset_ = kAlignment - reinterpret_cast<uintptr_t>(shared_.data()) % kAlignment;
  std::memset(shared(), kUnwritten, bytes);
}

unsigned Block::TakeReady() {
  const size_t at = seed_ == 0 ? ready_.size() - 1 : rng_.Below(ready_.size());
  std::swap(ready_[at], ready_.back());
  const unsigned taken = ready_.back();
  ready_.pop_back();
  return taken;
}

void Block::Run(unsigned threads, size_t shared_bytes, const std::function<void()>& thread) {
  if (threads == 0 || threads > kThreadsMax || threads % kWarp != 0) {
    BrokenRule("a block of part of a warp, or of none");
  }
  if (fibers_.size() < threads) fibers_ = std::vector<Fiber>(threads);
  threads_ = threads;
  thread_ = &thread;
  at_barrier_ = ended_ = 0;
  PrepareShared(shared_bytes);
  ready_.clear();
  for (unsigned i = threads; i-- > 0;) {
    Prepare(i);
    ready_.push_back(i);
  }
  for (Warp& warp : warps_) warp.arrived = 0;
  while (!ready_.empty()) {
    current_ = TakeReady();
    threadIdx = {current_, 0, 0};
    Switch(&scheduler_, &fibers_[current_].stack, false);
  }
  if (ended_ != threads) BrokenRule("a thread ended while others of its block wait for it");
  const auto* guard = static_cast<const unsigned char*>(shared()) + shared_bytes;
  if (std::any_of(guard, guard + kGuardBytes, [](unsigned char byte) { return byte != kGuard; })) {
    BrokenRule("a write past shared memory");
  }
}

void Block::MeetAll() {
  if (++at_barrier_ < threads_) return Wait();
  at_barrier_ = 0;
  for (unsigned i = threads_; i-- > 0;) {
    if (i != current_) ready_.push_back(i);
  }
}

const LaneWords* Block::MeetLanes(WarpMeeting at, const LaneWords& own) {
  Warp& warp = warps_[current_ / kWarp];
  LaneWords* slots = warp.slots[fibers_[current_].meetings++ % 2];
  slots[current_ % kWarp] = own;
  if (warp.arrived == 0) warp.at = at;
  if (warp.at != at) BrokenRule("lanes of a warp met at different operations");
  if (++warp.arrived < kWarp) {
    Wait();
    return slots;
  }
  warp.arrived = 0;
  const unsigned first = current_ / kWarp * kWarp;
  for (unsigned i = first + kWarp; i-- > first;) {
    if (i != current_) ready_.push_back(i);
  }
  return slots;
}

void Block::BeginCopy(const Copy& copy) {
  if (reinterpret_cast<uintptr_t>(copy.to) % copy.bytes != 0 ||
      reinterpret_cast<uintptr_t>(copy.from) % copy.bytes != 0) {
    BrokenRule("a copy off its own size");
  }
  fibers_[current_].begun.push_back(copy);
  if (seed_ % 2 == 1) copy.Arrive();
}

void Block::CloseCopies() {
  Fiber& fiber = fibers_[current_];
  fiber.groups.push_back(std::exchange(fiber.begun, {}));
}

void Block::AwaitCopies(size_t but_newest) {
  auto& groups = fibers_[current_].groups;
  for (; groups.size() > but_newest; groups.pop_front()) {
    if (seed_ % 2 == 1) continue;
    for (const Copy& copy : groups.front()) copy.Arrive();
  }
}

}  // namespace

void BeginCopy(void* to, const void* from, size_t bytes, bool there) {
  TheBlock().BeginCopy({to, there ? from : nullptr, bytes});
}

void CloseCopies() {
  TheBlock().CloseCopies();
}

void AwaitCopies(size_t but_newest) {
  TheBlock().AwaitCopies(but_newest);
}

void MeetBlock() {
  TheBlock().MeetAll();
}

const LaneWords* MeetWarp(WarpMeeting at, const LaneWords& own) {
  return TheBlock().MeetLanes(at, own);
}

unsigned OwnLane() {
  return TheBlock().current() % kWarp;
}

void* SharedBytes() {
  return TheBlock().shared();
}

std::mutex& OneGridAtATime() {
  static std::mutex mutex;
  return mutex;
}

void RunBlock(unsigned threads, size_t shared_bytes, const std::function<void()>& thread) {
  TheBlock().Run(threads, shared_bytes, thread);
}

void SeedFiberOrder(uint64_t seed) {
  TheBlock().Seed(seed);
}

void BrokenRule(const char* which) {
  std::fprintf(stderr, "a kernel breaks a rule of CUDA: %s\n", which);
  std::abort();
}

}  // namespace skerry::cuda
