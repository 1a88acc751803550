"""Small tokenizers of each kind that skerry reads, trained on English and a little else."""
import glob

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        trainers)

import texts

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def corpus():
    lines = texts.random_texts("corpus", 3000)
    for name in sorted(glob.glob("/usr/share/common-licenses/*"))[:6]:
        with open(name, encoding="utf-8", errors="replace") as file:
            lines += file.read().split("\n\n")
    return lines


def byte_level(cutter, normalizer=None, size=600, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = cutter
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def visible_space(as_normalizer, size=700):
    """As LLaMA 2 (a normalizer) or newer files (a pre-tokenizer) have it, with bytes to fall back on."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False, min_frequency=3,
                                  limit_alphabet=120)
    trained.train_from_iterator(corpus(), trainer)
    import json
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    if as_normalizer:
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special[:3]])
    return tokenizer


def sentence_piece(kind, prefix, size=800):
    """Trains PREFIX.model, of a kind of sentencepiece's, and opens it."""
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_prefix=str(prefix), vocab_size=size, model_type=kind,
        byte_fallback=True, character_coverage=0.99, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def all_of(size):
    byte = pre_tokenizers.ByteLevel
    return {
        "gpt2": byte_level(byte(add_prefix_space=False), size=size),
        "llama3": byte_level(split(LLAMA3), size=size, ignore_merges=True),
        "qwen2": byte_level(split(QWEN2), normalizers.NFC(), size=size),
        "smollm": byte_level(pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte(add_prefix_space=False)]), size=size),
        "llama2": visible_space(True, size + 100),
        "tinyllama": visible_space(False, size + 100),
    }


def small():
    return all_of(380)
