// Stands in for NVIDIA's libnvidia-ml.so.1 on a machine without a GPU, as far as
// node/gpu_watch_program.cc asks it: one GPU, and who computes on it is what the file
// $SKERRY_STAND_IN_GPU says, a line "process percent" each. Each question is a line in FILE.asked.
#include <cstdlib>
#include <fstream>
#include <string>

extern "C" {

struct Sample {
  unsigned int process;
  unsigned long long at_us;
  unsigned int compute_percent, memory_percent, encoder_percent, decoder_percent;
};

int nvmlInit_v2() {
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int, void** device) {
  static int gpu;
  *device = &gpu;
  return 0;
}

// As the driver: first how many there are (7: too small), then they.
int nvmlDeviceGetProcessUtilization(void*, Sample* samples, unsigned int* count,
                                    unsigned long long since_us) {
  const std::string file = std::getenv("SKERRY_STAND_IN_GPU");
  std::ifstream in(file);
  unsigned int found = 0, process = 0, percent = 0;
  while (in >> process >> percent) {
    if (samples != nullptr && found < *count) {
      samples[found] = {process, since_us + 1, percent, 0, 0, 0};
    }
    ++found;
  }
  const bool fits = samples != nullptr && found <= *count;
  *count = found;
  if (fits || found == 0) std::ofstream(file + ".asked", std::ios::app) << since_us << '\n';
  return fits || found == 0 ? 0 : 7;
}

}  // extern "C"
