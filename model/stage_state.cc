#include "model/stage_state.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/digest.h"
#include "common/status.h"
#include "common/tree_digest.h"
#include "model/number_formats.h"

namespace skerry {
namespace {

constexpr uint32_t kMagic = 0x54534b53;  // "SKST"
constexpr uint32_t kFormatOfOneChain = 1;
constexpr uint32_t kFormat = 2;  // that is written

struct Header {
  uint32_t magic = kMagic;
  uint32_t format = kFormat;
  int64_t parameters = 0;
  int64_t moments = 0;
  int64_t version = 0;
  int64_t inner_steps = 0;
};
constexpr int64_t kParametersMax = int64_t{1} << 44;  // so that no sum of bytes overflows
static_assert(sizeof(Header) == kStateHeaderBytes && std::is_trivially_copyable_v<Header>);

bool IsKnown(const Header& header) {
  return header.magic == kMagic && (header.format == kFormat || header.format == kFormatOfOneChain);
}

Digest DigestOfBody(const Header& header, std::span<const uint8_t> body) {
  return header.format == kFormatOfOneChain ? DigestOf(body) : TreeDigestOf(body);
}

Header HeaderOf(std::span<const uint8_t> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// Cuts the arrays that begin at `values` for such a header.
template <typename Arrays, typename T>
void Cut(const Header& header, T* values, Arrays* out) {
  const auto n = static_cast<size_t>(header.parameters), m = static_cast<size_t>(header.moments);
  out->base = {values, n};
  out->momentum = {values + n, n};
  out->first_moment = {values + 2 * n, m};
  out->second_moment = {values + 2 * n + m, m};
}

}  // namespace

Bytes NewState(int64_t parameters, int64_t moments, int64_t version, int64_t inner_steps) {
  Header header;
  header.parameters = parameters;
  header.moments = moments;
  header.version = version;
  header.inner_steps = inner_steps;
  const auto floats = static_cast<size_t>(2 * (parameters + moments));
  Bytes out(sizeof(header) + floats * sizeof(float) + sizeof(Digest));
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

StateArrays ArraysOf(Bytes& state) {
  StateArrays arrays;
  Cut(HeaderOf(state), reinterpret_cast<float*>(state.data() + sizeof(Header)), &arrays);
  return arrays;
}

void SealState(Bytes* state) {
  const auto body = std::span<const uint8_t>(*state).first(state->size() - sizeof(Digest));
  const Digest digest = DigestOfBody(HeaderOf(*state), body);
  std::memcpy(state->data() + body.size(), digest.bytes.data(), sizeof(Digest));
}

absl::StatusOr<StateSizes> SizesOfState(std::span<const uint8_t> bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return DataLoss("state of a stage: its header is cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool is_one = IsKnown(header) && header.parameters > 0 &&
                      header.parameters <= kParametersMax &&
                      (header.moments == 0 || header.moments == header.parameters);
  if (!is_one) return DataLoss("state of a stage: no such header");
  return StateSizes{header.parameters, header.moments, header.version, header.inner_steps};
}

Bytes StateHeader(const StateSizes& sizes) {
  Header header;
  header.parameters = sizes.parameters;
  header.moments = sizes.moments;
  header.version = sizes.version;
  header.inner_steps = sizes.inner_steps;
  Bytes out(sizeof(header));
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

int64_t StateBytes(int64_t parameters, int64_t moments) {
  return static_cast<int64_t>(sizeof(Header) + sizeof(Digest)) + 4 * 2 * (parameters + moments);
}

Bytes EncodeState(const StageState& state) {
  Bytes out =
      NewState(static_cast<int64_t>(state.base.size()),
               static_cast<int64_t>(state.first_moment.size()), state.version, state.inner_steps);
  const StateArrays arrays = ArraysOf(out);
  std::copy(state.base.begin(), state.base.end(), arrays.base.begin());
  std::copy(state.momentum.begin(), state.momentum.end(), arrays.momentum.begin());
  std::copy(state.first_moment.begin(), state.first_moment.end(), arrays.first_moment.begin());
  std::copy(state.second_moment.begin(), state.second_moment.end(), arrays.second_moment.begin());
  SealState(&out);
  return out;
}

absl::StatusOr<StateView> ViewState(std::span<const uint8_t> bytes, int64_t parameters) {
  Header header;
  if (bytes.size() < sizeof(header) + sizeof(Digest)) {
    return DataLoss("state of a stage: %d bytes are too few", bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool fits = IsKnown(header) && header.parameters == parameters &&
                    (header.moments == 0 || header.moments == parameters) && header.version >= 0 &&
                    header.inner_steps >= 0 &&
                    static_cast<int64_t>(bytes.size()) == StateBytes(parameters, header.moments);
  if (!fits) return DataLoss("state of a stage: %d bytes do not fit it", bytes.size());
  const auto body = bytes.first(bytes.size() - sizeof(Digest));
  if (std::memcmp(DigestOfBody(header, body).bytes.data(), bytes.data() + body.size(),
                  sizeof(Digest)) != 0) {
    return DataLoss("state of a stage: digest mismatch; the bytes are damaged");
  }
  StateView state;
  state.version = header.version;
  state.inner_steps = header.inner_steps;
  Cut(header, reinterpret_cast<const float*>(body.data() + sizeof(header)), &state);
  const bool finite = AreFinite(state.base) && AreFinite(state.momentum) &&
                      AreFinite(state.first_moment) && AreFinite(state.second_moment);
  if (!finite) return DataLoss("state of a stage: a value is not finite");
  return state;
}

absl::StatusOr<StageState> DecodeState(std::span<const uint8_t> bytes, int64_t parameters) {
  SKERRY_ASSIGN_OR_RETURN(const StateView view, ViewState(bytes, parameters));
  const auto copy = [](std::span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  return StageState{view.version,        view.inner_steps,        copy(view.base),
                    copy(view.momentum), copy(view.first_moment), copy(view.second_moment)};
}

}  // namespace skerry
