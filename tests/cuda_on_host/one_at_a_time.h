// GPUs on fibers that several threads use: the fibers are one thread's at a time.
#pragma once

#include <mutex>

#include "kernels/plugin/table.h"

namespace skerry {

inline std::mutex& OneAtATime() {
  static std::mutex mutex;
  return mutex;
}

// The table of base(), of whose functions that touch a device one runs at a time. Not `open`, which
// says where it is from.
template <auto kBase>
class OneAtATimeTable {
 public:
  static GpuTable Make() {
    using T = GpuTable;
    GpuTable table = kBase();
    GuardAll<&T::upload, &T::download, &T::copy, &T::open_lane, &T::close_lane, &T::lane_memory,
             &T::lane_fetch, &T::lane_send, &T::lane_wait, &T::synchronize, &T::mark, &T::product,
             &T::cast, &T::embedding_forward, &T::embedding_backward, &T::rms_norm_forward,
             &T::rms_norm_backward, &T::rope, &T::add_bias, &T::sum_rows, &T::attention_forward,
             &T::attention_backward, &T::swiglu_forward, &T::swiglu_backward, &T::cross_entropy,
             &T::logit_statistics, &T::add, &T::fill, &T::sums_of_squares, &T::update, &T::allocate,
             &T::release>(table);
    return table;
  }

 private:
  template <auto kMember>
  static void Guard(GpuTable& table) {
    const auto guarded = []<typename R, typename... A>(R (*GpuTable::*)(A...)) -> R (*)(A...) {
      return [](A... arguments) -> R {
        const std::lock_guard lock(OneAtATime());
        return (kBase().*kMember)(arguments...);
      };
    };
    table.*kMember = guarded(kMember);
  }
  template <auto... kMembers>
  static void GuardAll(GpuTable& table) {
    (Guard<kMembers>(table), ...);
  }
};

}  // namespace skerry
