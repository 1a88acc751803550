#include "compression/device_codecs.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "compression/cuda/symbols.h"
#include "compression/fixed_point.h"
#include "compression/loops.h"
#include "compression/ternary.h"
#include "compression/top_k.h"

namespace skerry {
namespace {

constexpr int64_t kFlagBytes = 256;

bool IsItsOwnSymbols(DeltaCodec codec) {
  return codec != DeltaCodec::kTernary && codec != DeltaCodec::kTopK;
}

template <typename T>
T* PartAt(uint8_t* symbols, DeltaCodec codec, int part, int64_t n) {
  return reinterpret_cast<T*>(symbols + SymbolPartBegin(codec, part, n));
}

const TernaryCodec& Ternary() {
  static const TernaryCodec codec(BestLoops());
  return codec;
}
const TopKCodec& TopK() {
  static const TopKCodec codec(BestLoops());
  return codec;
}

// The message of symbols; `out` has room for the largest. Returns its length.
size_t Pack(DeltaCodec codec, int64_t n, uint8_t* symbols, uint8_t* out) {
  if (codec == DeltaCodec::kTernary) {
    return Ternary().PackSymbols(n, PartAt<uint64_t>(symbols, codec, 0, n),
                                 PartAt<uint64_t>(symbols, codec, 1, n),
                                 PartAt<uint8_t>(symbols, codec, 2, n), out);
  }
  if (codec == DeltaCodec::kTopK) {
    const auto bytes = static_cast<size_t>(SymbolBytes(codec, n));
    const auto* tiles = reinterpret_cast<const TileSelection*>(symbols);
    return TopK().PackTiles(n, {tiles, bytes / sizeof(TileSelection)}, out);
  }
  const auto bytes = static_cast<size_t>(SymbolBytes(codec, n));
  if (bytes > 0) std::memcpy(out, symbols, bytes);
  return bytes;
}

Bytes Unpack(DeltaCodec codec, std::span<const uint8_t> bytes, int64_t n) {
  Bytes symbols(static_cast<size_t>(SymbolBytes(codec, n)));
  if (codec == DeltaCodec::kTernary) {
    Ternary().UnpackSymbols(bytes, n, PartAt<uint64_t>(symbols.data(), codec, 0, n),
                            PartAt<uint64_t>(symbols.data(), codec, 1, n),
                            PartAt<uint8_t>(symbols.data(), codec, 2, n));
  } else if (codec == DeltaCodec::kTopK) {
    auto* tiles = reinterpret_cast<TileSelection*>(symbols.data());
    TopK().UnpackTiles(bytes, n, {tiles, symbols.size() / sizeof(TileSelection)});
  } else {
    std::copy(bytes.begin(), bytes.end(), symbols.begin());
  }
  return symbols;
}

absl::Status Void() {
  return InvalidArgument("delta is void: a value is not finite or beyond %g", kMagnitudeMax);
}

}  // namespace

DeviceCodecs::~DeviceCodecs() {
  if (memory_ != nullptr) table_.release(device_, memory_);
}

absl::Status DeviceCodecs::Reserve(int64_t bytes) {
  if (kFlagBytes + bytes <= memory_bytes_) return absl::OkStatus();
  if (memory_ != nullptr) table_.release(device_, memory_);
  memory_bytes_ = kFlagBytes + bytes;
  memory_ = static_cast<uint8_t*>(table_.allocate(device_, memory_bytes_));
  if (memory_ != nullptr) return absl::OkStatus();
  memory_bytes_ = 0;
  return ResourceExhausted("no GPU memory for %d bytes of symbols", bytes);
}

absl::Status DeviceCodecs::EncodeSymbols(DeltaCodec codec, const GpuDelta& delta,
                                         uint8_t* symbols) {
  const int64_t bytes = SymbolBytes(codec, delta.n);
  SKERRY_RETURN_IF_ERROR(Reserve(bytes));
  uint32_t voided = 0;
  table_.upload(device_, &voided, memory_, sizeof(voided));
  table_.codecs->encode(device_, static_cast<int32_t>(codec), &delta, memory_ + kFlagBytes,
                        reinterpret_cast<uint32_t*>(memory_));
  table_.download(device_, memory_ + kFlagBytes, symbols, bytes);
  table_.download(device_, memory_, &voided, sizeof(voided));
  GpuText why = {};
  if (!table_.synchronize(device_, &why)) return Internal("GPU: %s", why.text);
  return voided == 0 ? absl::OkStatus() : Void();
}

absl::Status DeviceCodecs::Encode(DeltaCodec codec, const GpuDelta& delta, Bytes* out) {
  Bytes symbols(static_cast<size_t>(SymbolBytes(codec, delta.n)));
  SKERRY_RETURN_IF_ERROR(EncodeSymbols(codec, delta, symbols.data()));
  out->resize(static_cast<size_t>(CodecFor(codec).EncodedSizeMax(delta.n)));
  out->resize(Pack(codec, delta.n, symbols.data(), out->data()));
  return absl::OkStatus();
}

absl::Status DeviceCodecs::UploadSymbols(DeltaCodec codec, std::span<const uint8_t> bytes,
                                         int64_t n) {
  SKERRY_RETURN_IF_ERROR(CodecFor(codec).Check(bytes, n));
  const Bytes symbols = Unpack(codec, bytes, n);
  const auto size = static_cast<int64_t>(symbols.size());
  SKERRY_RETURN_IF_ERROR(Reserve(size));
  table_.upload(device_, symbols.data(), memory_ + kFlagBytes, size);
  return absl::OkStatus();
}

absl::Status DeviceCodecs::Accumulate(DeltaCodec codec, std::span<const uint8_t> bytes, int64_t n,
                                      int64_t weight, int64_t* sum) {
  if (weight < 1 || weight > kWeightTotalMax) {
    return InvalidArgument("weight of a delta: want 1 to %d, got %d", kWeightTotalMax, weight);
  }
  SKERRY_RETURN_IF_ERROR(UploadSymbols(codec, bytes, n));
  table_.codecs->accumulate(device_, static_cast<int32_t>(codec), n, memory_ + kFlagBytes, weight,
                            sum);
  return absl::OkStatus();
}

absl::Status DeviceCodecs::Decode(DeltaCodec codec, std::span<const uint8_t> bytes, int64_t n,
                                  float* values) {
  SKERRY_RETURN_IF_ERROR(UploadSymbols(codec, bytes, n));
  table_.codecs->decode(device_, static_cast<int32_t>(codec), n, memory_ + kFlagBytes, values);
  return absl::OkStatus();
}

class DeviceCodec final : public Codec {
 public:
  DeviceCodec(DeltaCodec kind, const GpuTable& table, GpuDevice* device, int64_t piece)
      : kind_(kind),
        host_(CodecFor(kind)),
        table_(table),
        device_(device),
        piece_(piece),
        symbols_(table, device) {
    SKERRY_CHECK(piece > 0 && piece % static_cast<int64_t>(kTopKTile) == 0);
  }
  ~DeviceCodec() override {
    if (values_ != nullptr) table_.release(device_, values_);
  }

  int64_t EncodedSizeMin(int64_t n) const override { return host_.EncodedSizeMin(n); }
  int64_t EncodedSizeMax(int64_t n) const override { return host_.EncodedSizeMax(n); }
  void AccumulateRange(std::span<const uint8_t> bytes, int64_t n, int64_t first, int64_t weight,
                       std::span<int64_t> sum) const override {
    host_.AccumulateRange(bytes, n, first, weight, sum);
  }
  void DecodeRange(std::span<const uint8_t> bytes, int64_t n, int64_t first,
                   std::span<float> values) const override {
    host_.DecodeRange(bytes, n, first, values);
  }

 private:
  std::optional<size_t> EncodeInto(const DeltaSource& source,
                                   std::span<uint8_t> out) const override;
  absl::Status CheckContent(std::span<const uint8_t> bytes, int64_t n) const override {
    return host_.CheckContent(bytes, n);
  }
  absl::Status CheckAndAccumulate(std::span<const uint8_t> bytes, int64_t weight,
                                  std::span<int64_t> sum) const override {
    return host_.CheckAndAccumulate(bytes, weight, sum);
  }

  bool HasRoom(int64_t count) const;
  const float* Copy(std::span<const float> of, int64_t first, int64_t count, int slot) const;
  const float* CopyRest(const DeltaSource& source, int64_t first, int64_t count) const;
  absl::Status EncodePiece(const DeltaSource& source, int64_t first, uint8_t* symbols) const;

  DeltaCodec kind_;
  const Codec& host_;
  const GpuTable& table_;
  GpuDevice* device_;
  int64_t piece_;
  // Scratch of the owning thread, made when it is first needed.
  mutable DeviceCodecs symbols_;
  mutable float* values_ = nullptr;  // base, theta, residual of a piece, `room_` each
  mutable int64_t room_ = 0;
  mutable std::vector<float> widened_;
};

bool DeviceCodec::HasRoom(int64_t count) const {
  constexpr int64_t kTerms = 3;
  if (count <= room_) return true;
  if (values_ != nullptr) table_.release(device_, values_);
  const int64_t bytes = kTerms * count * static_cast<int64_t>(sizeof(float));
  values_ = static_cast<float*>(table_.allocate(device_, bytes));
  room_ = values_ == nullptr ? 0 : count;
  return values_ != nullptr;
}

// Null for a term that is left out.
const float* DeviceCodec::Copy(std::span<const float> of, int64_t first, int64_t count,
                               int slot) const {
  if (of.empty()) return nullptr;
  float* to = values_ + slot * room_;
  table_.upload(device_, of.data() + first, to, count * static_cast<int64_t>(sizeof(float)));
  return to;
}

const float* DeviceCodec::CopyRest(const DeltaSource& source, int64_t first, int64_t count) const {
  constexpr int kSlot = 2;
  if (source.halves.empty()) return Copy(source.residual, first, count, kSlot);
  widened_.resize(static_cast<size_t>(count));
  BestLoops().widen_bf16(source.halves.data() + first, widened_.size(), widened_.data());
  return Copy(widened_, 0, count, kSlot);
}

// Puts the symbols of a piece where they are among those of all n values.
absl::Status DeviceCodec::EncodePiece(const DeltaSource& source, int64_t first,
                                      uint8_t* symbols) const {
  const auto n = static_cast<int64_t>(source.base.size());
  const int64_t count = std::min(piece_, n - first);
  const GpuDelta delta = {count, Copy(source.base, first, count, 0),
                          Copy(source.theta, first, count, 1), CopyRest(source, first, count)};
  Bytes own(static_cast<size_t>(SymbolBytes(kind_, count)));
  SKERRY_RETURN_IF_ERROR(symbols_.EncodeSymbols(kind_, delta, own.data()));
  for (int part = 0; part < kSymbolParts; ++part) {
    const int64_t bytes = SymbolPartBytes(kind_, part, count);
    if (bytes == 0) continue;
    const int64_t to = SymbolPartBegin(kind_, part, n) + SymbolPartBytes(kind_, part, first);
    std::memcpy(symbols + to, own.data() + SymbolPartBegin(kind_, part, count),
                static_cast<size_t>(bytes));
  }
  return absl::OkStatus();
}

std::optional<size_t> DeviceCodec::EncodeInto(const DeltaSource& source,
                                              std::span<uint8_t> out) const {
  const auto n = static_cast<int64_t>(source.base.size());
  if (!HasRoom(std::min(n, piece_))) return host_.EncodeInto(source, out);
  Bytes symbols(IsItsOwnSymbols(kind_) ? 0 : static_cast<size_t>(SymbolBytes(kind_, n)));
  uint8_t* to = symbols.empty() ? out.data() : symbols.data();
  for (int64_t first = 0; first < n; first += piece_) {
    const absl::Status encoded = EncodePiece(source, first, to);
    if (absl::IsInvalidArgument(encoded)) return std::nullopt;
    if (!encoded.ok()) return host_.EncodeInto(source, out);
  }
  if (IsItsOwnSymbols(kind_)) return static_cast<size_t>(SymbolBytes(kind_, n));
  return Pack(kind_, n, symbols.data(), out.data());
}

std::unique_ptr<const Codec> MakeDeviceCodec(DeltaCodec codec, const GpuTable& table,
                                             GpuDevice* device, int64_t piece) {
  return std::make_unique<DeviceCodec>(codec, table, device, piece);
}

}  // namespace skerry
