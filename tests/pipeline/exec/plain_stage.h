// A stage that passes on what it is given, plus one (`adds`): payloads are real, rounds are not.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "pipeline/exec/stage_work.h"

namespace skerry::testing {

inline std::vector<float> FloatsOf(const Payload& payload) {
  std::vector<float> values(payload->size() / sizeof(float));
  std::memcpy(values.data(), payload->data(), values.size() * sizeof(float));
  return values;
}
inline Payload PayloadOf(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return MakePayload(std::move(bytes));
}

class PlainStage : public StageWork {
 public:
  explicit PlainStage(size_t floats) : floats_(floats) {}

  int64_t boundary_bytes() const override { return static_cast<int64_t>(4 * floats_); }
  int32_t microbatch_tokens() const override { return 1; }
  Duration Cost(WorkKind) const override { return Duration::Millis(1); }
  WorkResult ForwardFirst(int64_t, int32_t) override { return Out(std::vector<float>(floats_, 1)); }
  WorkResult Forward(int64_t, int32_t, const Payload& in) override { return Next(in); }
  WorkResult Loss(int64_t, int32_t, const Payload& in) override { return Next(in); }
  WorkResult Backward(int64_t, int32_t, const Payload& in) override { return Next(in); }
  void Accumulate(int64_t, int32_t) override { ++accumulated; }
  void Discard(int64_t, int32_t) override {}
  absl::Status OptimizerStep(int64_t, int32_t) override { return absl::OkStatus(); }
  absl::StatusOr<Payload> EncodeDelta(int64_t) override { return Payload(); }
  absl::Status ApplyRound(int64_t, const std::vector<Accepted>&) override {
    return absl::OkStatus();
  }
  absl::Status CheckDelta(int64_t, const Payload&) const override { return absl::OkStatus(); }
  absl::Status SetTable(int64_t, const Bytes&) override { return absl::OkStatus(); }
  void AdoptBase() override {}
  Digest BaseDigest() override { return {}; }
  Payload BaseParameters() override { return {}; }
  absl::StatusOr<Payload> SaveState() override { return Payload(); }
  absl::StatusOr<int64_t> RestoreState(const Payload&) override { return int64_t{0}; }
  void StartFromBase(int64_t, int64_t) override {}

  std::vector<std::vector<float>> inputs;  // of passes, as they were computed with
  int accumulated = 0;
  float adds = 1;

 private:
  WorkResult Out(std::vector<float> values) const {
    WorkResult result;
    result.values = PayloadOf(values);
    return result;
  }
  WorkResult Next(const Payload& in) {
    inputs.push_back(FloatsOf(in));
    std::vector<float> values = inputs.back();
    for (float& value : values) value += adds;
    return Out(std::move(values));
  }
  size_t floats_;
};

}  // namespace skerry::testing
