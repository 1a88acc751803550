// Whether a node computes as fast as it did: a device that gets hot, or is shared, is slow without
// being late enough to be led around.
//
// A heartbeat says how many backward passes the node's device has made and how long they took.
// Seconds per pass over windows of some passes are compared with the fastest window since the node
// has its slot, in classes of kSpeedClassRatio, as everywhere where speeds decide (partition.h); a
// class counts when kWindowsAlike windows in a row are in it, or further. Nothing else would do:
// after a death gradients are made again that count no tokens, and forward passes that no gradient
// follows.
//
// What was slow from the beginning is not found here: it was measured when it joined. Not
// thread-safe; a value, one a node.
#pragma once

#include <cstdint>

namespace skerry {

class SpeedWatch {
 public:
  static constexpr int64_t kWindowPasses = 16;
  static constexpr int kWindowsAlike = 2;

  // Counters as of a heartbeat. Another slot, or counters that fell (another process), begin anew.
  // True: class_slower has changed.
  bool OnBeat(int32_t stage, double backward_s, int64_t backwards);

  // The node is slower than it was by kSpeedClassRatio to the power of this: ≥ 0.
  int32_t class_slower() const { return class_slower_; }
  // What its speed is to be multiplied with: 1 / kSpeedClassRatio^class_slower.
  double factor() const;

 private:
  int32_t stage_ = -1;
  double from_s_ = 0;  // where the window began
  int64_t from_passes_ = 0;
  double best_ = 0;          // seconds per pass of the fastest window; 0: none yet
  int32_t other_class_ = 0;  // that of the last windows, where it is another
  int alike_ = 0;            // how many
  int32_t class_slower_ = 0;
};

}  // namespace skerry
