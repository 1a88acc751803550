// Payloads whose room is used again. The allocator takes what is beyond 32 MiB from the system anew
// each time, page by page: 34 ms for 64 MiB, which a device would wait.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/bytes.h"

namespace skerry {

// Used by one thread; payloads may be let go of by any, and may outlive the pool. It holds at most
// what was in use at a time.
class PayloadPool {
 public:
  // Contents are whatever was there.
  Bytes Take(size_t size) {
    {
      const std::lock_guard lock(spare_->mutex);
      while (!spare_->rooms.empty()) {
        Bytes room = std::move(spare_->rooms.back());
        spare_->rooms.pop_back();
        if (room.size() == size) return room;
      }
    }
    return Bytes(size);
  }

  // The last who holds it gives its room back.
  Payload Wrap(Bytes bytes) {
    if (bytes.empty()) return MakePayload(std::move(bytes));
    return Payload(
        std::shared_ptr<const Bytes>(new Bytes(std::move(bytes)), [spare = spare_](Bytes* room) {
          const std::unique_ptr<Bytes> held(room);
          const std::lock_guard lock(spare->mutex);
          spare->rooms.push_back(std::move(*held));
        }));
  }

  void Trim() {
    const std::lock_guard lock(spare_->mutex);
    spare_->rooms.clear();
  }

 private:
  struct Spare {
    std::mutex mutex;
    std::vector<Bytes> rooms;
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

}  // namespace skerry
