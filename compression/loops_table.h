// Inside a loops_*.cc: the table of the bodies compiled there.
#pragma once

constexpr CodecLoops kLoops = {
    SKERRY_LOOPS_NAME, &QuantiseInt8,      &AccumulateInt8, &DecodeInt8,  &QuantiseInt4,
    &AccumulateInt4,   &DecodeInt4,        &RoundToQuantum, &RoundToBf16, &WidenBf16,
    &AccumulatePlain,  &InRange,           &ScaleSum,       &Product,     &Exchange,
    &FormWhole,        &MarkTernary,       &MarkSign,       &FormAbove,   &ColumnMaxima,
    &AtLeast<float>,   &AtLeast<uint32_t>, &SumAtLeast,     &ListPlaces,  &PackBits,
    &UnpackBits,       &AccumulateSigned,  &DecodeSigned,   &PutWords,    &TakeWords,
    &TakeStreams<2>,   &TakeStreams<4>,    &ReverseBits,    &KthLargest,  &Dot,
    &AddScaled,        &Combine,
};

#undef SKERRY_BODY
