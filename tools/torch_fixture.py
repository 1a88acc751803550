#!/usr/bin/env python3
"""Writes tests/model/data/torch_stage.bin: a small model in PyTorch, in float64, and its gradients.

  torch_fixture.py FILE

Little-endian: parameters [n] float32 in our order (model/parameter_layout.h), tokens and targets
[2, 12] int32, the mean loss float32, gradients [n] float32. tests/model/torch_stage_test.cc reads it.
"""
import sys

import torch

from torch_step import Model

VOCABULARY, CONTEXT, SEQUENCES = 24, 12, 2


def in_our_order(model):
    yield model.embedding.weight
    for layer in model.layers:
        yield layer.norm1.weight
        yield from (linear.weight for linear in (layer.q, layer.k, layer.v, layer.o))
        yield layer.norm2.weight
        yield from (linear.weight for linear in (layer.gate, layer.up, layer.down))
    yield model.norm.weight
    yield model.head.weight


def main():
    torch.manual_seed(7)
    model = Model(VOCABULARY, 16, 2, 4, 2, 24, CONTEXT).double()
    model.cos, model.sin = model.cos.double(), model.sin.double()
    with torch.no_grad():
        for p in model.parameters():
            # Larger than an initial model's, so that attention and gates are not flat.
            p.copy_((torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 else 0)).float().double())
    text = torch.randint(0, VOCABULARY, (SEQUENCES, CONTEXT + 1))
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    logits = model.head(forward_norm(model, tokens))
    loss = torch.nn.functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))
    loss.backward()
    with open(sys.argv[1], "wb") as out:
        for p in in_our_order(model):
            out.write(p.detach().float().numpy().tobytes())
        for ids in (tokens, targets):
            out.write(ids.int().numpy().tobytes())
        out.write(loss.detach().float().numpy().tobytes())
        for p in in_our_order(model):
            out.write(p.grad.float().numpy().tobytes())


def forward_norm(model, tokens):
    """The model up to its head, without the cast to float32 that training has."""
    x = model.embedding(tokens)
    for layer in model.layers:
        x = layer(x, model.cos, model.sin)
    return model.norm(x)


if __name__ == "__main__":
    main()
