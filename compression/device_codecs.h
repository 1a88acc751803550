// Codecs whose work is done by a GPU (kernels/plugin): messages and decoded values are those of the
// CPU, bit for bit.
//
// DeviceCodecs is for values that are in device memory: the delta is formed, rounded and packed
// there, and only symbols cross the bus (0.3 bit a value of top-k, 2 of ternary, else the message's
// own). Rice and prefix codes are put on and taken off by the host. MakeDeviceCodec is for values
// in host memory, which pass through the device in pieces: what a replica uses whose base and
// residual are kept off the GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/run_config.h"
#include "compression/codec.h"
#include "kernels/plugin/table.h"

namespace skerry {

// One thread owns it, the device's. Table and device outlive it. ResourceExhausted: no memory for
// symbols.
class DeviceCodecs {
 public:
  DeviceCodecs(const GpuTable& table, GpuDevice* device) : table_(table), device_(device) {}
  DeviceCodecs(const DeviceCodecs&) = delete;
  DeviceCodecs& operator=(const DeviceCodecs&) = delete;
  ~DeviceCodecs();

  // Errors of Codec::EncodeDelta, for arrays [n] in device memory.
  absl::Status Encode(DeltaCodec codec, const GpuDelta& delta, Bytes* out);
  // Errors of Codec::DecodeAccumulate and Codec::Decode; sum, values [n] in device memory.
  absl::Status Accumulate(DeltaCodec codec, std::span<const uint8_t> bytes, int64_t n,
                          int64_t weight, int64_t* sum);
  absl::Status Decode(DeltaCodec codec, std::span<const uint8_t> bytes, int64_t n, float* values);

 private:
  friend class DeviceCodec;

  // Symbols of u [n] to host memory of SymbolBytes. InvalidArgument: void.
  absl::Status EncodeSymbols(DeltaCodec codec, const GpuDelta& delta, uint8_t* symbols);
  absl::Status UploadSymbols(DeltaCodec codec, std::span<const uint8_t> bytes, int64_t n);
  absl::Status Reserve(int64_t bytes);

  const GpuTable& table_;
  GpuDevice* device_;
  // The void flag, and after kFlagBytes symbols; kept, because allocating waits for the device.
  uint8_t* memory_ = nullptr;
  int64_t memory_bytes_ = 0;
};

// Encoding goes through the device, `piece` values (a multiple of 4096) at a time, and is for the
// thread that owns it; checking and decoding are the CPU's and for any thread. Where the device has
// no memory for a piece the CPU encodes: the bits are the same. `device` outlives the codec.
std::unique_ptr<const Codec> MakeDeviceCodec(DeltaCodec codec, const GpuTable& table,
                                             GpuDevice* device, int64_t piece = int64_t{4} << 20);

}  // namespace skerry
