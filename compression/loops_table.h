// Inside a loops_*.cc: the table of the bodies compiled there.
#pragma once

constexpr CodecLoops kLoops = {
    SKERRY_LOOPS_NAME, &QuantiseInt8, &AccumulateInt8, &DecodeInt8,       &QuantiseInt4,
    &AccumulateInt4,   &DecodeInt4,   &RoundToQuantum, &RoundToBf16,      &WidenBf16,
    &AccumulatePlain,  &InRange,      &ScaleSum,       &Product,          &Exchange,
    &FormBlock,        &FormRows,     &Fetch,          &MagnitudeSum,     &AtLeast,
    &Negative,         &PackBits,     &UnpackBits,     &AccumulateSigned, &DecodeSigned,
    &PutWords,         &TakeWords,    &TakeTwo,        &KthLargest,       &Dot,
    &AddScaled,        &Combine,
};
