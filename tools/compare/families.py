"""Small models of every family that skerry reads, with weights that a formula gives, so that a test
in C++ has the same ones: tests/model/families_test.cc."""
import numpy
import torch
import transformers

MASK = 0xFFFFFFFF
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
             bos_token_id=1, eos_token_id=2)
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
FAMILIES = {
    "llama2": ("llama", dict(num_key_value_heads=4, rms_norm_eps=1e-5)),
    "llama3": ("llama", dict(rms_norm_eps=1e-5, rope_theta=500000.0, rope_scaling=LLAMA3)),
    "linear": ("llama", dict(rope_scaling={"rope_type": "linear", "factor": 2.0})),
    "smollm": ("llama", dict(num_attention_heads=2, num_key_value_heads=1,
                             tie_word_embeddings=True)),
    "tinyllama": ("llama", dict(num_attention_heads=8, num_key_value_heads=2, rms_norm_eps=1e-5)),
    "mistral": ("mistral", dict(sliding_window=None, rope_theta=1000000.0, rms_norm_eps=1e-5)),
    "qwen2": ("qwen2", dict(rope_theta=1000000.0, use_sliding_window=False)),
    "qwen2-tied": ("qwen2", dict(tie_word_embeddings=True)),
}
TOKENS = [(7 * i * i + 3 * i + 5) % 64 for i in range(40)]


def values_of(name, count):
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 & MASK
    h = (seed + numpy.arange(count, dtype=numpy.uint64) * 2654435761) & MASK
    h ^= h >> 16
    h = h * 0x45D9F3B & MASK
    h ^= h >> 16
    return h.astype(numpy.float64) / 2.0**32 - 0.5


def config_of(family, **more):
    kind, settings = FAMILIES[family]
    classes = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig,
               "qwen2": transformers.Qwen2Config}
    return classes[kind](**{**SIZES, **settings, **more})


def model_of(family, **more):
    model = transformers.AutoModelForCausalLM.from_config(config_of(family, **more), torch_dtype=torch.float32)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            values = values_of(name, tensor.numel()).reshape(tensor.shape)
            values = 1 + 0.4 * values if name.endswith("norm.weight") else 0.6 * values
            tensor.copy_(torch.from_numpy(values.astype(numpy.float32)))
    return model.eval()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float().numpy()
