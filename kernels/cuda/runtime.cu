// Devices as the CUDA runtime shows them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "kernels/cuda/device.h"
#include "kernels/cuda/products.h"

namespace skerry {
namespace {

constexpr int kCapabilityMin = 8;  // bf16 tensor cores

void Say(GpuText* text, const char* words) {
  std::snprintf(text->text, sizeof(text->text), "%s", words);
}

// Devices that are new enough, as the runtime numbers them.
int UsableDevices(int* usable, int most, GpuText* why) {
  int count = 0, found = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver == 0) {
      Say(why, "no NVIDIA driver answers");
    } else {
      const bool is_old = error == cudaErrorInsufficientDriver;
      std::snprintf(why->text, sizeof(why->text),
                    "%s (the driver speaks CUDA %d.%d, this plug-in needs %d.%d%s)",
                    cudaGetErrorString(error), driver / 1000, driver % 1000 / 10, runtime / 1000,
                    runtime % 1000 / 10, is_old ? ": install a newer NVIDIA driver" : "");
    }
    return 0;
  }
  Say(why, "the driver shows no device");
  for (int i = 0; i < count && found < most; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    if (properties.major >= kCapabilityMin) {
      usable[found++] = i;
    } else {
      std::snprintf(why->text, sizeof(why->text),
                    "%s is too old: compute capability %d.%d, 8.0 or later is wanted",
                    properties.name, properties.major, properties.minor);
    }
  }
  return found;
}

constexpr int kDevicesMax = 64;

// Of copies from one to the other, the best of a few; 0: they fail.
double MeasureCopies(const GpuDevice& from, const GpuDevice& to) {
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr int kTimes = 4;  // the first also makes what the others use
  void *source = nullptr, *target = nullptr;
  cudaError_t error = cudaMalloc(&source, kBytes);
  cudaSetDevice(to.index);
  if (error == cudaSuccess) error = cudaMalloc(&target, kBytes);
  cudaSetDevice(from.index);
  double best = 0;
  for (int i = 0; i < kTimes && error == cudaSuccess; ++i) {
    const auto began = std::chrono::steady_clock::now();
    error = cudaMemcpyPeerAsync(target, to.index, source, from.index, kBytes, from.stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(from.stream);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    best = std::max(best, static_cast<double>(kBytes) / took.count());
  }
  cudaFree(source);
  cudaFree(target);
  return error == cudaSuccess ? best : 0;
}

}  // namespace

// Memory that the device reaches by itself, for what comes from the host's and goes there. Left to
// the driver, a copy of other memory would wait for all that the stream has been given before, or,
// where the device reaches that memory too, read it when the caller has long changed it.
struct GpuStaging {
  static constexpr size_t kPiece = size_t{1} << 20;
  static constexpr int64_t kPieces = 4;
  char* memory = nullptr;
  cudaEvent_t done[kPieces] = {nullptr};  // with the last copy through a piece
  int64_t copies = 0;

  char* At(int64_t copy) { return memory + copy % kPieces * kPiece; }
  void Await(int64_t copy) { cudaEventSynchronize(done[copy % kPieces]); }
};

static void CloseStaging(GpuStaging* staging) {
  if (staging == nullptr) return;
  for (cudaEvent_t event : staging->done) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (staging->memory != nullptr) cudaFreeHost(staging->memory);
  delete staging;
}

static cudaError_t OpenStaging(GpuStaging** opened) {
  auto* staging = *opened = new GpuStaging;
  cudaError_t error = cudaHostAlloc(reinterpret_cast<void**>(&staging->memory),
                                    GpuStaging::kPieces * GpuStaging::kPiece, cudaHostAllocDefault);
  for (cudaEvent_t& event : staging->done) {
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  return error;
}

namespace cuda {

static void Note(GpuDevice& device, cudaError_t answer) {
  NoteFailure(device, Refusal(answer));
}

void CopyIn(GpuDevice& device, const void* host, void* to, size_t bytes) {
  GpuStaging& staging = *device.staging;
  for (size_t at = 0; at < bytes; at += GpuStaging::kPiece) {
    const size_t piece = std::min(GpuStaging::kPiece, bytes - at);
    const int64_t copy = staging.copies++;
    staging.Await(copy);
    std::memcpy(staging.At(copy), static_cast<const char*>(host) + at, piece);
    Note(device, cudaMemcpyAsync(static_cast<char*>(to) + at, staging.At(copy), piece,
                                 cudaMemcpyHostToDevice, device.stream));
    Note(device, cudaEventRecord(staging.done[copy % GpuStaging::kPieces], device.stream));
  }
}

// The next pieces come while one is taken away.
void CopyOut(GpuDevice& device, const void* from, void* host, size_t bytes) {
  GpuStaging& staging = *device.staging;
  const int64_t first = staging.copies;
  size_t asked = 0;
  for (size_t at = 0; at < bytes; at += GpuStaging::kPiece) {
    const auto taken = static_cast<int64_t>(at / GpuStaging::kPiece);
    while (asked < bytes && staging.copies - first - taken < GpuStaging::kPieces) {
      const int64_t copy = staging.copies++;
      staging.Await(copy);
      const size_t piece = std::min(GpuStaging::kPiece, bytes - asked);
      Note(device, cudaMemcpyAsync(staging.At(copy), static_cast<const char*>(from) + asked, piece,
                                   cudaMemcpyDeviceToHost, device.stream));
      Note(device, cudaEventRecord(staging.done[copy % GpuStaging::kPieces], device.stream));
      asked += piece;
    }
    staging.Await(first + taken);
    std::memcpy(static_cast<char*>(host) + at, staging.At(first + taken),
                std::min(GpuStaging::kPiece, bytes - at));
  }
}

}  // namespace cuda

int32_t CountGpus(GpuText* why) {
  int usable[kDevicesMax];
  return UsableDevices(usable, kDevicesMax, why);
}

GpuDevice* OpenGpu(int32_t index, GpuText* why) {
  int usable[kDevicesMax];
  const int count = UsableDevices(usable, kDevicesMax, why);
  if (index < 0 || index >= count) return nullptr;
  cudaError_t error = cudaSetDevice(usable[index]);
  auto* device = new GpuDevice;
  device->index = usable[index];
  if (error == cudaSuccess) {
    error = cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking);
  }
  if (error == cudaSuccess) {
    error =
        cudaDeviceGetAttribute(&device->processors, cudaDevAttrMultiProcessorCount, device->index);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&device->shared_bytes,
                                   cudaDevAttrMaxSharedMemoryPerMultiprocessor, device->index);
  }
  if (error == cudaSuccess) error = OpenStaging(&device->staging);
  if (error == cudaSuccess) device->products = OpenProducts();
  if (device->products != nullptr) return device;
  Say(why, error == cudaSuccess ? "cuBLASLt does not start, or has no GPU memory to do so"
                                : cudaGetErrorString(error));
  CloseGpu(device);
  return nullptr;
}

void CloseGpu(GpuDevice* device) {
  if (device->stream != nullptr) cudaStreamSynchronize(device->stream);
  if (device->products != nullptr) CloseProducts(device->products);
  cuda::GiveMemory(device->scratch);
  CloseStaging(device->staging);
  if (device->stream != nullptr) cudaStreamDestroy(device->stream);
  delete device;
}

void EnterGpu(GpuDevice* device) {
  cudaSetDevice(device->index);
}

void NameGpu(GpuDevice* device, GpuText* out) {
  cudaDeviceProp properties = {};
  cudaGetDeviceProperties(&properties, device->index);
  std::snprintf(out->text, sizeof(out->text), "%s (sm_%d%d, %.1f GiB)", properties.name,
                properties.major, properties.minor,
                static_cast<double>(properties.totalGlobalMem) / (1 << 30));
}

// Which algorithm multiplies depends on device and library: bits are compared between equal ones.
// The kernels' number is raised when they compute other bits.
void ProfileGpu(GpuDevice* device, GpuText* out) {
  GpuText name = {};
  NameGpu(device, &name);
  std::snprintf(out->text, sizeof(out->text),
                "cuda, %s, cuBLASLt %zu, kernels 2, float32 products in tf32, attention in bf16 at "
                "head sizes 64, 128",
                name.text, ProductsVersion());
}

int64_t FreeGpuMemory(GpuDevice*) {
  size_t available = 0, total = 0;
  return cudaMemGetInfo(&available, &total) == cudaSuccess ? static_cast<int64_t>(available) : 0;
}

// What fails here is said by a rate of 0, and is no failure of the device.
void MeasureGpuWay(GpuDevice* from, GpuDevice* to, GpuWay* out) {
  *out = {};
  int direct = 0, atomic = 0;
  if (cudaDeviceCanAccessPeer(&direct, from->index, to->index) == cudaSuccess && direct != 0) {
    out->direct = 1;
    cudaDeviceGetP2PAttribute(&atomic, cudaDevP2PAttrNativeAtomicSupported, from->index, to->index);
    out->atomic = atomic != 0 ? 1 : 0;
    cudaDeviceEnablePeerAccess(to->index, 0);  // it may be already
  }
  out->bytes_per_s = MeasureCopies(*from, *to);
}

bool SynchronizeGpu(GpuDevice* device, GpuText* why) {
  cuda::Note(*device, cudaStreamSynchronize(device->stream));
  *why = device->failure;
  return device->failure.text[0] == '\0';
}

// Copies are on a stream of their own, which waits for what the device was given before each.
struct GpuLane {
  static constexpr int64_t kMarks = 8;
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  cudaEvent_t given = nullptr;           // on the device's stream
  cudaEvent_t done[kMarks] = {nullptr};  // of the last copies
  int64_t copies = 0;
};

GpuLane* OpenGpuLane(GpuDevice* device, int64_t bytes) {
  auto* lane = new GpuLane;
  cudaError_t error =
      cudaHostAlloc(&lane->memory, static_cast<size_t>(bytes), cudaHostAllocDefault);
  if (error == cudaSuccess) {
    error = cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking);
  }
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&lane->given, cudaEventDisableTiming);
  for (cudaEvent_t& mark : lane->done) {
    if (error == cudaSuccess) error = cudaEventCreateWithFlags(&mark, cudaEventDisableTiming);
  }
  if (error == cudaSuccess) return lane;
  CloseGpuLane(device, lane);
  return nullptr;
}

void CloseGpuLane(GpuDevice*, GpuLane* lane) {
  if (lane->stream != nullptr) cudaStreamSynchronize(lane->stream);
  for (cudaEvent_t mark : lane->done) {
    if (mark != nullptr) cudaEventDestroy(mark);
  }
  if (lane->given != nullptr) cudaEventDestroy(lane->given);
  if (lane->stream != nullptr) cudaStreamDestroy(lane->stream);
  if (lane->memory != nullptr) cudaFreeHost(lane->memory);
  delete lane;
}

void* GpuLaneMemory(GpuDevice*, GpuLane* lane) {
  return lane->memory;
}

static int64_t CopyOnLane(GpuDevice* device, GpuLane* lane, const void* from, void* to,
                          int64_t bytes, cudaMemcpyKind kind) {
  using cuda::Note;
  Note(*device, cudaEventRecord(lane->given, device->stream));
  Note(*device, cudaStreamWaitEvent(lane->stream, lane->given, 0));
  Note(*device, cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, lane->stream));
  Note(*device, cudaEventRecord(lane->done[lane->copies % GpuLane::kMarks], lane->stream));
  return ++lane->copies;
}

int64_t FetchOnLane(GpuDevice* device, GpuLane* lane, const void* from, void* host, int64_t bytes) {
  return CopyOnLane(device, lane, from, host, bytes, cudaMemcpyDeviceToHost);
}

int64_t SendOnLane(GpuDevice* device, GpuLane* lane, const void* host, void* to, int64_t bytes) {
  return CopyOnLane(device, lane, host, to, bytes, cudaMemcpyHostToDevice);
}

// Of copies before those with marks the oldest mark tells.
void WaitForLane(GpuDevice* device, GpuLane* lane, int64_t copies) {
  const int64_t marked = std::max(copies, lane->copies - GpuLane::kMarks + 1);
  if (marked > 0 && marked <= lane->copies)
    cuda::Note(*device, cudaEventSynchronize(lane->done[(marked - 1) % GpuLane::kMarks]));
}

// Who waits for it sleeps: it is a thread of its own, and the processor may be wanted.
struct GpuMark {
  cudaEvent_t event = nullptr;
};

GpuMark* MarkGpu(GpuDevice* device) {
  auto* mark = new GpuMark;
  const cudaError_t made =
      cudaEventCreateWithFlags(&mark->event, cudaEventDisableTiming | cudaEventBlockingSync);
  if (made == cudaSuccess && cudaEventRecord(mark->event, device->stream) == cudaSuccess)
    return mark;
  cuda::NoteFailure(*device, "a GPU does not record an event");
  return mark;
}

// What fails is told by the device's next synchronisation.
void AwaitGpuMark(GpuDevice*, GpuMark* mark) {
  if (mark->event != nullptr) {
    cudaEventSynchronize(mark->event);
    cudaEventDestroy(mark->event);
  }
  delete mark;
}

}  // namespace skerry
