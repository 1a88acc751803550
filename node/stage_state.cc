#include "node/stage_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/digest.h"
#include "common/status.h"

namespace skerry {
namespace {

constexpr uint32_t kMagic = 0x54534b53;  // "SKST"
constexpr uint32_t kFormat = 1;

struct Header {
  uint32_t magic = kMagic;
  uint32_t format = kFormat;
  int64_t parameters = 0;
  int64_t moments = 0;
  int64_t version = 0;
  int64_t inner_steps = 0;
};
static_assert(sizeof(Header) == 40 && std::is_trivially_copyable_v<Header>);

void Append(const std::vector<float>& values, Bytes* out) {
  if (values.empty()) return;
  const auto* first = reinterpret_cast<const uint8_t*>(values.data());
  out->insert(out->end(), first, first + values.size() * sizeof(float));
}

bool Take(int64_t n, std::span<const uint8_t>* rest, std::vector<float>* values) {
  values->resize(static_cast<size_t>(n));
  const size_t bytes = values->size() * sizeof(float);
  if (bytes > 0) std::memcpy(values->data(), rest->data(), bytes);
  *rest = rest->subspan(bytes);
  return std::all_of(values->begin(), values->end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

Bytes EncodeState(const StageState& state) {
  Header header;
  header.parameters = static_cast<int64_t>(state.base.size());
  header.moments = static_cast<int64_t>(state.first_moment.size());
  header.version = state.version;
  header.inner_steps = state.inner_steps;
  Bytes out(sizeof(header));
  std::memcpy(out.data(), &header, sizeof(header));
  for (const auto* values :
       {&state.base, &state.momentum, &state.first_moment, &state.second_moment}) {
    Append(*values, &out);
  }
  const Digest digest = DigestOf(std::span<const uint8_t>(out));
  out.insert(out.end(), digest.bytes.begin(), digest.bytes.end());
  return out;
}

absl::StatusOr<StageState> DecodeState(std::span<const uint8_t> bytes, int64_t parameters) {
  Header header;
  if (bytes.size() < sizeof(header) + sizeof(Digest)) {
    return DataLoss("state of a stage: %d bytes are too few", bytes.size());
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const int64_t values = 2 * (parameters + header.moments);
  const bool fits =
      header.magic == kMagic && header.format == kFormat && header.parameters == parameters &&
      (header.moments == 0 || header.moments == parameters) && header.version >= 0 &&
      header.inner_steps >= 0 &&
      static_cast<int64_t>(bytes.size() - sizeof(header) - sizeof(Digest)) == 4 * values;
  if (!fits) return DataLoss("state of a stage: %d bytes do not fit it", bytes.size());
  const auto body = bytes.first(bytes.size() - sizeof(Digest));
  if (std::memcmp(DigestOf(body).bytes.data(), bytes.data() + body.size(), sizeof(Digest)) != 0) {
    return DataLoss("state of a stage: digest mismatch; the bytes are damaged");
  }
  StageState state;
  state.version = header.version;
  state.inner_steps = header.inner_steps;
  auto rest = body.subspan(sizeof(header));
  const bool finite = Take(parameters, &rest, &state.base) &&
                      Take(parameters, &rest, &state.momentum) &&
                      Take(header.moments, &rest, &state.first_moment) &&
                      Take(header.moments, &rest, &state.second_moment);
  if (!finite) return DataLoss("state of a stage: a value is not finite");
  return state;
}

}  // namespace skerry
