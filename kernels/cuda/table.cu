// The one thing that libskerry_cuda.so exports.
#include "kernels/cuda/device.h"

namespace skerry {
namespace {

void* Allocate(GpuDevice* device, int64_t bytes) {
  void* memory = cuda::TakeMemory(static_cast<size_t>(bytes));
  if (memory != nullptr) {
    cuda::NoteFailure(*device, cuda::SetZero(device->stream, memory, static_cast<size_t>(bytes)));
  }
  return memory;
}

// What was enqueued may still use the memory. A failure is told by the next synchronisation.
void Release(GpuDevice* device, void* memory) {
  GpuText unused = {};
  if (memory == nullptr) return;
  SynchronizeGpu(device, &unused);
  cuda::GiveMemory(memory);
}

void Upload(GpuDevice* device, const void* host, void* to, int64_t bytes) {
  cuda::CopyIn(*device, host, to, static_cast<size_t>(bytes));
}

void Download(GpuDevice* device, const void* from, void* host, int64_t bytes) {
  cuda::CopyOut(*device, from, host, static_cast<size_t>(bytes));
}

void Copy(GpuDevice* device, const void* from, void* to, int64_t bytes) {
  cuda::NoteFailure(*device,
                    cuda::CopyWithin(device->stream, from, to, static_cast<size_t>(bytes)));
}

// The runtime has a current device for each thread; every operation is of its own.
template <auto kOperation>
struct Entered;
template <typename Result, typename... Arguments, Result (*kOperation)(GpuDevice*, Arguments...)>
struct Entered<kOperation> {
  static Result Call(GpuDevice* device, Arguments... arguments) {
    EnterGpu(device);
    return kOperation(device, arguments...);
  }
};

GpuTable MakeTable() {
  GpuTable table = {};
  table.version = kGpuTableVersion;
  table.bytes = sizeof(GpuTable);
  table.count = &CountGpus;
  table.open = &OpenGpu;
  table.close = &Entered<&CloseGpu>::Call;
  table.name = &Entered<&NameGpu>::Call;
  table.profile = &Entered<&ProfileGpu>::Call;
  table.memory_free = &Entered<&FreeGpuMemory>::Call;
  table.measure_way = &Entered<&MeasureGpuWay>::Call;
  table.allocate = &Entered<&Allocate>::Call;
  table.release = &Entered<&Release>::Call;
  table.upload = &Entered<&Upload>::Call;
  table.download = &Entered<&Download>::Call;
  table.copy = &Entered<&Copy>::Call;
  table.open_lane = &Entered<&OpenGpuLane>::Call;
  table.close_lane = &Entered<&CloseGpuLane>::Call;
  table.lane_memory = &Entered<&GpuLaneMemory>::Call;
  table.lane_fetch = &Entered<&FetchOnLane>::Call;
  table.lane_send = &Entered<&SendOnLane>::Call;
  table.lane_wait = &Entered<&WaitForLane>::Call;
  table.synchronize = &Entered<&SynchronizeGpu>::Call;
  table.mark = &Entered<&MarkGpu>::Call;
  table.await_mark = &Entered<&AwaitGpuMark>::Call;
  table.product = &Entered<&MultiplyOnGpu>::Call;
  table.cast = &Entered<&cuda::Cast>::Call;
  table.embedding_forward = &Entered<&cuda::EmbeddingForward>::Call;
  table.embedding_backward = &Entered<&cuda::EmbeddingBackward>::Call;
  table.rms_norm_forward = &Entered<&cuda::RmsNormForward>::Call;
  table.rms_norm_backward = &Entered<&cuda::RmsNormBackward>::Call;
  table.rope = &Entered<&cuda::Rope>::Call;
  table.add_bias = &Entered<&cuda::AddBias>::Call;
  table.sum_rows = &Entered<&cuda::SumRows>::Call;
  table.attention_forward = &Entered<&cuda::AttentionForward>::Call;
  table.attention_backward = &Entered<&cuda::AttentionBackward>::Call;
  table.swiglu_forward = &Entered<&cuda::SwigluForward>::Call;
  table.swiglu_backward = &Entered<&cuda::SwigluBackward>::Call;
  table.cross_entropy = &Entered<&cuda::CrossEntropy>::Call;
  table.logit_statistics = &Entered<&cuda::LogitStatistics>::Call;
  table.add = &Entered<&cuda::Add>::Call;
  table.fill = &Entered<&cuda::Fill>::Call;
  table.sums_of_squares = &Entered<&cuda::SumsOfSquares>::Call;
  table.update = &Entered<&cuda::Update>::Call;
  table.codecs = &kGpuCodecs;
  return table;
}

}  // namespace
}  // namespace skerry

extern "C" __attribute__((visibility("default"))) const skerry::GpuTable* skerry_gpu_table(
    uint32_t wanted) {
  static const skerry::GpuTable table = skerry::MakeTable();
  return wanted == table.version ? &table : nullptr;
}
