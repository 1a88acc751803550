// What LDTILECFG reads (Intel's manual, volume 1, 18.3): the shapes of AMX's eight tiles, all whole
// until somebody says otherwise. Of internal linkage, as all that files of one instruction set see.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

}  // namespace
}  // namespace skerry
