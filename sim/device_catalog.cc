#include "sim/device_catalog.h"

#include "common/check.h"

namespace skerry {
namespace {

// Peaks are the makers' dense figures; for GeForce the tensor rate with float32 accumulation, half
// of the often quoted one.
constexpr char kHopper[] = "NVIDIA H100, H200 datasheets (dense = half of 'with sparsity')";
constexpr char kA100[] = "NVIDIA A100 Tensor Core GPU datasheet";
constexpr char kVolta[] = "NVIDIA V100 datasheet; no bf16 in its tensor cores";
constexpr char kT4[] = "NVIDIA T4 datasheet; no bf16 in its tensor cores";
constexpr char kL4[] = "NVIDIA L4 datasheet (dense = half of 'with sparsity')";
constexpr char kA10g[] = "NVIDIA A10G datasheet as AWS publishes it for EC2 G5";
constexpr char kGa10x[] = "NVIDIA Ampere GA102 architecture whitepaper, GeForce product pages";
constexpr char kAda[] = "NVIDIA Ada GPU architecture whitepaper, GeForce product pages";
constexpr char kBlackwell[] = "NVIDIA RTX Blackwell GPU architecture whitepaper";

// Measured sustained rates (matrix products through PyTorch, large squares):
//   A100 40 GB  18.11 fp32, 246.3 bf16; RTX 3090  24.46 fp32, 76.3 bf16 (above its peak: the card
//   boosts past its rated clock; the catalogue stops at the peak); V100S  13.55 fp32 = 83 % of its
//   16.4: a public table to which users give their PyTorch 2.2 and 2.6 readings.
//   H200  769–798 bf16 (8192³).
// Derived: the measured share of the nearest relative; power-limited cards (72 W and 70 W) 60 %.
constexpr char kMeasured[] = "measured, PyTorch matrix products";
constexpr char kH200[] = "bf16 measured, PyTorch matrix products; fp32 derived: 93 % as A100";
constexpr char kAsH200[] = "derived: 79 % of bf16 peak as H200, 93 % of fp32 peak as A100";
constexpr char kAsA100[] = "derived: as A100 40 GB, same chip";
constexpr char kAsV100[] = "derived: 83 % of peak as V100S";
constexpr char kAsRtx3090[] = "derived: 69 % of fp32 and 95 % of bf16 peak as RTX 3090";
constexpr char kLimited[] = "derived: 60 % of peak, the card's power limit holds its clock";

// Processors: peak = cores × base clock × FLOP per cycle (32 with two AVX2 units, 64 with two full
// AVX-512 units, 16 for Intel's efficiency cores; bf16 by AVX512-BF16 doubles it). Cores and clocks
// are the makers' product pages'. Sustained: 80 % of both peaks; oneDNN's matrix products of
// training shapes reached 80 to 84 % on a quiet Zen 5 core with AVX-512, 88 % with AVX2 alone.
constexpr char kAmd[] = "AMD product page: cores, base clock, memory channels";
constexpr char kIntel[] = "Intel product specifications: cores, base clock, memory channels";
constexpr char kCore[] = "one Zen 5 core of a cloud machine: FMA loop, measured";
constexpr char kOneDnn[] = "measured, oneDNN matrix products on that core";
constexpr char kCpuShare[] = "derived: 80 % of peak as oneDNN on a Zen 5 core";

// What the machine of a card has for it. AWS: p5 and p5en 2,048 GiB, p4d and p4de 1,152, p3dn 768,
// each for eight cards; p3.2xlarge 61, g4dn, g5 and g6.xlarge 16. Desktops, and the PCIe card: as
// assumed.
struct Row {
  const char* name;
  const char* title;
  double fp32_peak, fp32, bf16_peak, bf16;  // TFLOP/s
  double gib, gb_per_s;
  const char* peak_source;
  const char* sustained_source;
  double host_gib = 0;
};
constexpr Row kRows[] = {
    {"h100", "NVIDIA H100 SXM 80 GB", 67, 62, 989, 781, 80, 3350, kHopper, kAsH200, 256},
    {"h100-pcie", "NVIDIA H100 PCIe 80 GB", 51, 47, 756, 597, 80, 2000, kHopper, kAsH200, 128},
    {"h200", "NVIDIA H200 SXM 141 GB", 67, 62, 989, 781, 141, 4800, kHopper, kH200, 256},
    {"a100", "NVIDIA A100 SXM 80 GB", 19.5, 18.1, 312, 246, 80, 2039, kA100, kAsA100, 144},
    {"a100-40gb", "NVIDIA A100 40 GB", 19.5, 18.1, 312, 246, 40, 1555, kA100, kMeasured, 144},
    {"l4", "NVIDIA L4", 30.3, 18.2, 121, 72.6, 24, 300, kL4, kLimited, 16},
    {"t4", "NVIDIA T4", 8.1, 4.9, 0, 0, 16, 320, kT4, kLimited, 16},
    {"v100", "NVIDIA V100 SXM2 16 GB", 15.7, 13.0, 0, 0, 16, 900, kVolta, kAsV100, 61},
    {"v100-32gb", "NVIDIA V100 SXM2 32 GB", 15.7, 13.0, 0, 0, 32, 900, kVolta, kAsV100, 96},
    {"a10g", "NVIDIA A10G", 31.5, 21.7, 70, 66.5, 24, 600, kA10g, kAsRtx3090, 16},
    {"rtx-3060", "GeForce RTX 3060", 12.7, 8.8, 25.5, 24.2, 12, 360, kGa10x, kAsRtx3090, 32},
    {"rtx-3080", "GeForce RTX 3080", 29.8, 20.5, 59.5, 56.5, 10, 760, kGa10x, kAsRtx3090, 32},
    {"rtx-3090", "GeForce RTX 3090", 35.6, 24.5, 71, 71, 24, 936, kGa10x, kMeasured, 32},
    {"rtx-4060", "GeForce RTX 4060", 15.1, 10.4, 30.2, 28.7, 8, 272, kAda, kAsRtx3090, 32},
    {"rtx-4070", "GeForce RTX 4070", 29.1, 20.1, 58.3, 55.4, 12, 504, kAda, kAsRtx3090, 32},
    {"rtx-4080", "GeForce RTX 4080", 48.7, 33.6, 97.5, 92.6, 16, 717, kAda, kAsRtx3090, 32},
    {"rtx-4090", "GeForce RTX 4090", 82.6, 57.0, 165.2, 157, 24, 1008, kAda, kAsRtx3090, 32},
    {"rtx-5090", "GeForce RTX 5090", 104.8, 72.3, 209.5, 199, 32, 1792, kBlackwell, kAsRtx3090, 32},
    {"cpu-core-avx2", "one processor core, AVX2", 0.125, 0.11, 0, 0, 4, 20, kCore, kOneDnn},
    {"cpu-core-avx512", "one processor core, AVX-512 and BF16", 0.25, 0.205, 0.495, 0.405, 4, 20,
     kCore, kOneDnn},
    {"ryzen-5600x", "desktop, AMD Ryzen 5 5600X, 6 cores", 0.71, 0.57, 0, 0, 16, 51, kAmd,
     kCpuShare},
    {"ryzen-5950x", "desktop, AMD Ryzen 9 5950X, 16 cores", 1.74, 1.39, 0, 0, 32, 51, kAmd,
     kCpuShare},
    {"ryzen-7950x", "desktop, AMD Ryzen 9 7950X, 16 cores", 2.3, 1.84, 4.61, 3.69, 64, 83, kAmd,
     kCpuShare},
    {"core-i5-12400", "desktop, Intel Core i5-12400, 6 cores", 0.48, 0.38, 0, 0, 16, 77, kIntel,
     kCpuShare},
    {"core-i9-13900k", "desktop, Intel Core i9-13900K, 8 + 16 cores", 1.33, 1.06, 0, 0, 64, 90,
     kIntel, kCpuShare},
    {"epyc-7763", "server, AMD EPYC 7763, 64 cores", 5.02, 4.02, 0, 0, 256, 205, kAmd, kCpuShare},
    {"epyc-9654", "server, AMD EPYC 9654, 96 cores", 7.37, 5.9, 14.7, 11.8, 384, 461, kAmd,
     kCpuShare},
    {"epyc-9755", "server, AMD EPYC 9755, 128 cores", 22.1, 17.7, 44.2, 35.4, 768, 614, kAmd,
     kCpuShare},
    {"xeon-8380", "server, Intel Xeon Platinum 8380, 40 cores", 5.89, 4.71, 0, 0, 256, 205, kIntel,
     kCpuShare},
};

}  // namespace

const std::vector<DeviceSpec>& DeviceCatalog() {
  static const std::vector<DeviceSpec> kDevices = [] {
    std::vector<DeviceSpec> devices;
    for (const Row& row : kRows) {
      devices.push_back({row.name,
                         row.title,
                         {row.fp32_peak, row.fp32},
                         {row.bf16_peak, row.bf16},
                         row.gib,
                         row.gb_per_s,
                         row.host_gib,
                         0,
                         0,
                         row.peak_source,
                         row.sustained_source});
    }
    return devices;
  }();
  return kDevices;
}

std::optional<DeviceSpec> FindDevice(const std::string& name) {
  for (const DeviceSpec& device : DeviceCatalog()) {
    if (device.name == name) return device;
  }
  return std::nullopt;
}

DeviceProfile ProfileOf(const DeviceSpec& device, NumberFormat format) {
  const DeviceRate& rate = device.rate(format);
  SKERRY_CHECK(rate.sustained_tflops > 0, "the device lacks the number format");
  DeviceProfile profile;
  profile.name = device.title;
  profile.numeric_profile =
      "simulated " + device.name + (format == NumberFormat::kFp32 ? " fp32" : " bf16");
  profile.gflops = rate.sustained_tflops * 1000;
  profile.memory_bytes = static_cast<int64_t>(device.memory_gib * (1 << 30));
  profile.host_bytes = static_cast<int64_t>(device.host_gib * (1 << 30));
  profile.spill_bytes = static_cast<int64_t>(device.spill_gib * (1 << 30));
  profile.spill_bytes_per_s = device.spill_gb_per_s * 1e9;
  profile.spreads = true;  // as every node of this version
  return profile;
}

}  // namespace skerry
